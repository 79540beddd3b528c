"""RFC 0021, section 5: a batch gets its place between the building of a marker and the marker's own place.

Schedule 7 of section 9 of the design. The marker names the first offset of what was open when it was built. So the
leader finds at the marker's place that it would end another transaction, and judges anew.
"""

from collections.abc import Callable

import pytest

import tests.simulation.world.observer
from cluster.producer_state import ProducerState
from model.control_batch import Marker
from raft.replicate_item import ReplicateItem
from tests.simulation.scenarios.transaction_story import Intent, StoryTransactor, TransactionStory

_RECORDS = 2
# The next transaction of a newer client has the next epoch, which refuses an older marker by itself.
_BEFORE = [Intent(is_raising=False, is_commit=is_commit) for is_commit in (False, True)]
_ABORTS = [Intent(is_raising, is_commit=False) for is_raising in (False, True)]


class _HeldMarkers:
    """Markers that a leader has built get in line for their places once `let_go` is called: they wait for memory.

    Attributes:
        items: Those that wait.
    """

    def __init__(self, story: TransactionStory, node_id: int) -> None:
        self.items: list[tuple[ReplicateItem, int]] = []
        self._loop = story.machine(node_id).loop
        self._batcher = story.replica(node_id)._batcher
        self._enqueue = self._batcher._enqueue
        self._batcher._enqueue = self._hold  # type: ignore[method-assign]

    def _hold(self, item: ReplicateItem, units: int) -> None:
        if item.is_urgent:
            self.items.append((item, units))
        else:
            self._enqueue(item, units)

    def hold_no_more(self) -> None:
        """Hold up no marker that is built from now on."""
        self._batcher._enqueue = self._enqueue  # type: ignore[method-assign]

    def let_go(self) -> None:
        """Let what waits go on."""
        assert not any(item.is_done for item, _ in self.items), "a marker has waited for too long"
        for each in self.items:
            self._loop.post(self._enqueue, *each)


def _first_offsets(story: TransactionStory) -> list[int]:
    """Return the beginnings of all transactions that markers at the leader end, in the order of the markers."""
    return [ghost.marker.first_offset for ghost in story.log(story.leader) if ghost.marker is not None]


def _next_coordinator_sends_markers_again() -> None:
    """Both copies of a marker are built, and between their places the next transaction of the same epoch begins."""
    with TransactionStory(278, partitions=1) as story:
        story.part_coordinator()
        producers = story.producers(_BEFORE)
        story.do(producers, StoryTransactor.open)
        story.do(producers, StoryTransactor.fill)
        held = _HeldMarkers(story, story.leader)
        story.do(producers, StoryTransactor.close)
        story.wait(lambda: len(held.items) == len(producers))
        held.hold_no_more()
        former, leader = story.coordinator, story.leader
        story.move(story.coordinated, next(each for each in story.world.nodes if each not in (former, leader)))
        story.wait(story.is_complete)
        story.do(producers, StoryTransactor.fill)
        held.let_go()
        story.run_for(0.2)
        assert len(story.open_at(story.leader)) == len(producers), "a marker has ended what began behind its building"
        assert story.counts["a marker refused"] == len(producers)
        for producer in producers:
            producer.is_commit = not producer.is_commit
        story.do(producers, StoryTransactor.close)
        story.finish()
        assert len(set(_first_offsets(story))) == 2 * len(producers)


def test_a_marker_does_not_end_a_transaction_that_began_behind_its_building() -> None:
    _next_coordinator_sends_markers_again()


async def _append_more(producer: StoryTransactor) -> bool:
    return await producer.append(producer.name, 0, _RECORDS)


def _administrator_aborts_twice() -> None:
    """Between the places of two markers of an administrator, the producer appends more to the transaction."""
    with TransactionStory(279, partitions=1) as story:
        story.part_coordinator()
        producers = story.producers(_ABORTS)
        story.do(producers, StoryTransactor.open)
        story.do(producers, StoryTransactor.fill)
        held = _HeldMarkers(story, story.leader)
        aborting = story.abort_as_administrator(story.leader, producers)
        story.wait(lambda: len(held.items) == len(producers))
        held.hold_no_more()
        story.abort_as_administrator(story.leader, producers).succeed()
        story.do(producers, _append_more)
        held.let_go()
        aborting.succeed()
        assert not story.open_at(story.leader).is_open
        story.do(producers, StoryTransactor.close)
        story.finish()
        assert story.counts["a marker refused"] == len(producers)
        assert len(set(_first_offsets(story))) == 2 * len(producers)


def test_a_marker_is_built_anew_for_what_its_producer_has_begun_meanwhile() -> None:
    _administrator_aborts_twice()


def _first_offsets_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    judge = ProducerState._judge_marker

    def judge_type(state: ProducerState, marker: Marker) -> object:
        transaction = state.transactions.open_of(marker.producer_id)
        first = marker.first_offset if transaction is None else transaction.first_offset
        return judge(state, marker._replace(first_offset=first))

    patch.setattr(ProducerState, "_judge_marker", judge_type)


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        (_next_coordinator_sends_markers_again, "a marker has ended what began behind its building"),
        # Readers do not leave out the second batch: its row begins with the first one.
        (_administrator_aborts_twice, "at read_committed"),
    ],
    ids=["a late copy", "an administrator"],
)
def test_a_marker_ends_another_transaction_if_nobody_compares_first_offsets(
    monkeypatch: pytest.MonkeyPatch, scenario: Callable[[], None], message: str
) -> None:
    _first_offsets_are_not_compared(monkeypatch)
    monkeypatch.setattr(tests.simulation.world.observer, "ALL", ())
    with pytest.raises(AssertionError, match=message):
        scenario()
