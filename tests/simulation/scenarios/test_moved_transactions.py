"""The leader of a transaction's records moves between admission, append and marker (RFC 0021, sections 3 to 5).

Schedules of section 9 of the design with a real coordinator: 4 (a batch that was admitted comes behind the abort), 5 (a
marker's first copy meets the next transaction), 6 (a deposed leader says that nothing is open), 10 (a marker is acted
on, and then truncated). Each is shown without its rule, too.
"""

import asyncio
from collections.abc import Callable

import pytest

import tests.simulation.world.observer
from cluster.producer_state import ProducerState
from cluster.transactions.admission import Admission
from cluster.transactions.fences import Fences
from kafka_api.handlers import produce_admission
from model.control_batch import NO_PREPARE
from model.ids import NO_INDEX
from tests.simulation.known_bugs.transactions import stable_offset_passes_what_has_a_marker
from tests.simulation.scenarios.held_calls import HeldCalls
from tests.simulation.scenarios.transaction_story import Intent, StoryTransactor, TransactionStory
from tests.simulation.world.cluster import KAFKA_PORT

_COMMITS = [Intent(is_raising, is_commit=True) for is_raising in (False, True)]


class _HeldAdmissions:
    """A leader that has the coordinator's yes for a batch gets no further with it until `let_go`.

    Attributes:
        admitted: Transactional ids of which the coordinator has said yes.
    """

    def __init__(self, story: TransactionStory, node_id: int) -> None:
        self._loop = story.machine(node_id).loop
        self._free = asyncio.Event()
        self.admitted: set[str] = set()
        admissions = story.cluster.nodes[node_id].admissions
        self._ask = admissions.ask
        admissions.ask = self._held  # type: ignore[method-assign]

    async def _held(self, transactional_id: str, *arguments) -> list[Admission]:
        answers = await self._ask(transactional_id, *arguments)
        if set(answers) == {Admission.YES}:
            self.admitted.add(transactional_id)
            await self._free.wait()
        return answers

    def let_go(self) -> None:
        """Let what was admitted go on."""
        self._loop.post(self._free.set)


def _other(story: TransactionStory) -> int:
    """Return a follower of the first partition that does not coordinate."""
    holders = story.replica(story.leader).configuration.node_ids
    return next(int(each) for each in holders if each not in (story.leader, story.coordinator))


# -- where the leader moves ----------------------------------------------------------------------------------------


def _when_batches_are_admitted(story: TransactionStory, producers: list[StoryTransactor]) -> None:
    held = _HeldAdmissions(story, story.leader)
    filling = story.begin(producers, StoryTransactor.fill)
    story.wait(lambda: len(held.admitted) == len(producers))
    story.elect_into_office(_other(story))
    held.let_go()
    filling.succeed()
    story.do(producers, StoryTransactor.close)


def _when_records_are_written(story: TransactionStory, producers: list[StoryTransactor]) -> None:
    story.do(producers, StoryTransactor.fill)
    story.elect_into_office(_other(story))
    story.do(producers, StoryTransactor.close)


def _when_markers_are_on_their_way(story: TransactionStory, producers: list[StoryTransactor]) -> None:
    story.do(producers, StoryTransactor.fill)
    held = HeldCalls(story, story.leader, story.cluster.nodes[story.leader].markers.writer, "write")
    story.do(producers, StoryTransactor.close)
    story.wait(lambda: held.count > 0)
    story.elect_into_office(_other(story))
    held.let_go()


def _when_markers_are_in_one_log(story: TransactionStory, producers: list[StoryTransactor]) -> None:
    """Schedule 10: the markers are truncated, and their transactions are open again until they come once more."""
    former, other = story.leader, _other(story)
    story.do(producers, StoryTransactor.fill)
    stable = story.partition(former).last_stable_offset
    held = HeldCalls(story, former, story.cluster.nodes[former].markers.writer, "write")
    story.do(producers, StoryTransactor.close)
    story.run_for(0.2)
    held.let_go()
    story.wait(lambda: _markers_of(story, former) > 0)
    story.connect([former], [node_id for node_id in story.world.nodes if node_id != former])
    story.run_for(0.1)
    assert _markers_of(story, former) > _markers_of(story, other) == 0
    assert story.partition(former).is_in_office
    assert story.partition(former).last_stable_offset == stable, "readers are past what is open to them"
    story.elect_into_office(other)
    story.heal()
    story.wait(story.is_complete)
    story.wait(lambda: story.log(former) == story.log(other))
    assert story.view(former).now.truncations > 0
    story.elect_into_office(former)


def _markers_of(story: TransactionStory, node_id: int) -> int:
    return sum(ghost.marker is not None for ghost in story.log(node_id))


_MOVES = (
    _when_batches_are_admitted,
    _when_records_are_written,
    _when_markers_are_on_their_way,
    _when_markers_are_in_one_log,
)


def _the_leader_moves(move: Callable[[TransactionStory, list[StoryTransactor]], None]) -> None:
    with TransactionStory(272) as story:
        story.part_coordinator()
        producers = story.producers()
        story.do(producers, StoryTransactor.open)
        move(story, producers)
        story.whole_transactions(producers)
        story.finish()


@pytest.mark.parametrize("move", _MOVES, ids=[move.__name__.strip("_") for move in _MOVES])
def test_transactions_end_as_they_were_asked_to_though_the_leader_of_their_records_moves(move) -> None:
    _the_leader_moves(move)


def test_readers_pass_a_marker_that_is_in_one_log_if_the_stable_offset_is_that_of_all_that_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stable_offset_passes_what_has_a_marker(monkeypatch)
    monkeypatch.setattr(tests.simulation.world.observer, "ALL", ())
    with pytest.raises(AssertionError, match="readers are past what is open to them"):
        _the_leader_moves(_when_markers_are_in_one_log)


# -- schedule 4 ----------------------------------------------------------------------------------------------------


def _late_batches(*, moves: bool) -> None:
    """A batch is admitted, the next producer of its id aborts the transaction, and then the batch gets its place."""
    with TransactionStory(273, partitions=1) as story:
        story.part_coordinator()
        late = story.producers(_COMMITS)
        story.do(late, StoryTransactor.open)
        former = story.leader
        held = _HeldAdmissions(story, former)
        filling = story.begin(late, StoryTransactor.fill)
        story.wait(lambda: len(held.admitted) == len(late))
        if moves:
            # Fences are counted where the marker comes: the former leader hears of none.
            story.elect_into_office(_other(story))
        following = story.producers(_COMMITS)
        story.do(following, StoryTransactor.open)
        story.wait(story.is_complete)
        if moves:
            story.elect_into_office(former)
        held.let_go()
        filling.wait()
        assert all(producer.has_lost for producer in late), "a batch of an aborted transaction was appended"
        # By the guard where the leader stays, else by its term.
        assert (story.counts["a guard refused"] > 0) is not moves
        story.whole_transactions(following)
        story.finish()


@pytest.mark.parametrize("moves", [False, True], ids=["the leader stays", "the leader changes twice"])
def test_a_batch_that_was_admitted_before_its_transaction_was_aborted_is_not_appended(*, moves: bool) -> None:
    _late_batches(moves=moves)


def _no_guard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Fences, "guard", lambda fences, producer_id: 0)


def _no_term(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(produce_admission, "Guard", lambda term, fences: (None, fences))


@pytest.mark.parametrize(("plant", "moves"), [(_no_guard, False), (_no_term, True)], ids=["no guard", "no term"])
def test_an_admitted_batch_is_appended_if_nobody_looks_what_was_decided_since(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None], *, moves: bool
) -> None:
    plant(monkeypatch)
    monkeypatch.setattr(tests.simulation.world.observer, "ALL", ())
    with pytest.raises(AssertionError, match="a batch of an aborted transaction was appended"):
        _late_batches(moves=moves)


# -- schedule 5 ----------------------------------------------------------------------------------------------------


def _late_markers(*, moves: bool) -> None:
    """A marker is so late that the coordinator sends it again; the first copy comes while the next transaction is open."""
    with TransactionStory(274, partitions=1) as story:
        story.part_coordinator()
        producers = story.producers(_COMMITS)
        story.do(producers, StoryTransactor.open)
        story.do(producers, StoryTransactor.fill)
        former = story.leader
        writer = story.cluster.nodes[former].markers.writer
        held = HeldCalls(story, former, writer, "write")
        story.do(producers, StoryTransactor.close)
        story.run_for(0.2)
        assert held.count > 0
        # The second copies are not held up.
        del writer.write
        if moves:
            story.elect_into_office(_other(story))
        story.wait(story.is_complete)
        if moves:
            story.elect_into_office(former)
        for producer in producers:
            producer.is_commit = False
        story.do(producers, StoryTransactor.fill)
        held.let_go()
        story.run_for(0.2)
        assert len(story.open_at(former)) == len(producers), "a late marker has ended the next transaction"
        story.do(producers, StoryTransactor.close)
        story.finish()


@pytest.mark.parametrize("moves", [False, True], ids=["the leader stays", "the leader changes twice"])
def test_a_marker_that_comes_late_does_not_end_the_next_transaction(*, moves: bool) -> None:
    _late_markers(moves=moves)


def test_a_late_marker_ends_the_next_transaction_if_nobody_compares_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProducerState, "last_prepare", lambda state, producer_id: (NO_PREPARE, NO_INDEX))
    # What the leader has carried out is known twice.
    monkeypatch.setattr(Fences, "was_decided", lambda *_: False)
    monkeypatch.setattr(tests.simulation.world.observer, "ALL", ())
    with pytest.raises(AssertionError, match="a late marker has ended the next transaction"):
        _late_markers(moves=False)


# -- schedule 6 ----------------------------------------------------------------------------------------------------


def _nothing_open_by_an_old_log(*, is_confirming: bool) -> None:
    """The coordinator knows only the former leader, which was deposed and has not heard of it."""
    with TransactionStory(275, nodes=5, replicas=3, partitions=1) as story:
        story.part_coordinator()
        former, leader, coordinator = story.leader, _other(story), story.coordinator
        assert coordinator not in story.replica(former).configuration.node_ids
        producers = story.producers()
        story.do(producers, StoryTransactor.open)
        leadership = story.cluster.nodes[coordinator].leadership
        stale = leadership.leader_of(story.group)
        assert stale is not None
        for node_id in story.replica(former).configuration.node_ids:
            if node_id != former:
                story.world.network.cut_both(former, node_id)
        story.elect_into_office(leader)
        for producer in producers:
            # The former leader would still name itself.
            producer.wire._bootstrap = [(story.machine(leader).address, KAFKA_PORT)]
        story.do(producers, StoryTransactor.fill)
        real, group = leadership.leader_of, story.group
        leadership.leader_of = lambda asked: stale if asked == group else real(asked)
        if not is_confirming:
            story.partition(former).confirm_read = _believed  # type: ignore[method-assign]
        assert story.partition(former).is_in_office, "it has heard of its end"
        story.do(producers, StoryTransactor.close)
        story.run_for(0.5)
        assert not story.is_complete(), "transactions are complete that are open"
        assert len(story.open_at(leader)) == len(producers)
        del leadership.leader_of
        story.finish()


async def _believed(begun: asyncio.Future[None]) -> None:
    """Confirm nothing."""


def test_a_leader_that_was_deposed_does_not_say_that_nothing_is_open() -> None:
    _nothing_open_by_an_old_log(is_confirming=True)


def test_a_leader_that_was_deposed_says_so_if_no_majority_confirms_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tests.simulation.world.observer, "ALL", ())
    with pytest.raises(AssertionError, match="transactions are complete that are open"):
        _nothing_open_by_an_old_log(is_confirming=False)
