"""The coordinator is killed at each step of a transaction, of both protocols, by commit and by abort (RFC 0021, section 7).

The next coordinator goes on: each transaction ends as its producer has asked, and its readers see what the answers have
promised. Schedules of section 9 of the design that are shown elsewhere are not repeated here.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import pytest

from cluster.transactions import transaction_table
from cluster.transactions.admission import Admission
from cluster.transactions.markers import MarkerResult
from cluster.transactions.records import StoredTransaction, TransactionState
from tests.simulation.scenarios.transaction_story import Intent, StoryTransactor, TransactionStory

# Tells whether so many producers have come to the step.
Reached = Callable[[], bool]
Hold = Callable[[TransactionStory, int], Reached]
_STEPS = (StoryTransactor.open, StoryTransactor.fill, StoryTransactor.close)


class Step(NamedTuple):
    """Where the coordinator is killed.

    Attributes:
        during: The step of the producers: 0 opens, 1 fills, 2 closes.
        hold: Lets the coordinator go no further than that; None: the producers' step is done.
    """

    during: int
    hold: Hold | None = None


def _records(is_wanted: Callable[[StoredTransaction], bool], *, is_written: bool) -> Hold:
    """The coordinator never learns what becomes of some records: they are committed, or not even appended."""

    def hold(story: TransactionStory, count: int) -> Reached:
        kept, reached = story.kept, set[str]()
        write = kept.write

        def held(transactional_id: str, record: StoredTransaction | None) -> asyncio.Future:
            if record is None or not is_wanted(record):
                return write(transactional_id, record)
            if is_written:
                write(transactional_id, record).add_done_callback(lambda _: reached.add(transactional_id))
            else:
                reached.add(transactional_id)
            return asyncio.get_running_loop().create_future()

        kept.write = held  # type: ignore[method-assign]
        return lambda: len(reached) == count

    return hold


def _is_empty(record: StoredTransaction) -> bool:
    return record.state is TransactionState.EMPTY


def _is_prepare(record: StoredTransaction) -> bool:
    return record.state.is_prepare


def _is_complete(record: StoredTransaction) -> bool:
    return record.state.is_complete


def _admissions(story: TransactionStory, count: int) -> Reached:
    """Leaders of partitions get the coordinator's yes once it is dead; until then the batches have no place."""
    reached, killed = set[str](), story.coordinator
    for node in story.cluster.nodes.values():
        node.admissions.ask = _held_ask(story, node.admissions.ask, killed, reached)  # type: ignore[method-assign]
    return lambda: len(reached) == count


def _held_ask(story: TransactionStory, ask: Callable, killed: int, reached: set[str]) -> Callable:
    async def held(transactional_id: str, *arguments: object) -> list[Admission]:
        answers = await ask(transactional_id, *arguments)
        if set(answers) == {Admission.YES}:
            reached.add(transactional_id)
            while story.cluster.is_up(killed):
                await asyncio.sleep(0.01)
        return answers

    return held


def _markers(sends: Callable[[int], bool]) -> Hold:
    """Markers reach the partitions of which `sends` says so, and the coordinator hears of none."""

    def hold(story: TransactionStory, count: int) -> Reached:
        sender, reached = story.kept.markers, set[int]()
        send = sender._send

        async def held(decided, timeout):
            cut = [each._replace(partitions=[name for name in each.partitions if sends(name[1])]) for each in decided]
            results = await send(cut, timeout)
            for each, result in zip(decided, results, strict=True):
                if all(code is MarkerResult.DONE for code in result.values()):
                    reached.add(each.producer_id)
            return [dict.fromkeys(each.partitions, MarkerResult.FAILED) for each in decided]

        sender._send = held
        return lambda: len(reached) == count

    return hold


_KILLED = {
    "a new epoch is committed and not told": Step(0, _records(_is_empty, is_written=True)),
    "a new epoch is told": Step(0),
    "the partitions are added and nothing is written": Step(1, _admissions),
    "the records are written": Step(1),
    "the end is asked for": Step(2, _records(_is_prepare, is_written=False)),
    "the decision is committed and not told": Step(2, _records(_is_prepare, is_written=True)),
    "the decision is told and no marker is sent": Step(2, _markers(lambda partition: False)),
    "one of two markers is written": Step(2, _markers(lambda partition: partition == 0)),
    "all markers are written and unheard": Step(2, _markers(lambda partition: True)),
    "Complete is not written": Step(2, _records(_is_complete, is_written=False)),
    "Complete is committed": Step(2, _records(_is_complete, is_written=True)),
}


def _coordinator_is_killed(step: Step) -> None:
    with TransactionStory(271) as story:
        story.part_coordinator()
        story.candidates = None
        producers = story.producers()
        for each in _STEPS[: step.during]:
            story.do(producers, each)
        former = story.coordinator
        has_reached = None if step.hold is None else step.hold(story, len(producers))
        doing = story.begin(producers, _STEPS[step.during])
        story.wait(lambda: doing.is_done if has_reached is None else has_reached())
        story.kill(former)
        doing.succeed()
        story.wait(lambda: story.cluster.leader_of(story.coordinated) not in (None, former))
        for each in _STEPS[step.during + 1 :]:
            story.do(producers, each)
        story.whole_transactions(producers)
        story.finish()


@pytest.mark.parametrize("step", _KILLED.values(), ids=_KILLED)
def test_transactions_end_as_they_were_asked_to_though_the_coordinator_is_killed(step: Step) -> None:
    _coordinator_is_killed(step)


def test_decided_transactions_stay_open_if_the_next_coordinator_forgets_what_was_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transaction_table, "_IDLE", set(TransactionState) - {TransactionState.ONGOING})
    with pytest.raises(AssertionError, match="a producer was refused"):
        _coordinator_is_killed(_KILLED["the decision is told and no marker is sent"])


_FENCING = {
    "the fence is not written": _records(_is_prepare, is_written=False),
    "the fence is committed and not told": _records(_is_prepare, is_written=True),
    "one of two markers is written": _markers(lambda partition: partition == 0),
    "Complete is committed": _records(_is_complete, is_written=True),
}


@pytest.mark.parametrize("hold", _FENCING.values(), ids=_FENCING)
def test_a_former_producer_is_fenced_though_the_coordinator_is_killed_meanwhile(hold: Hold) -> None:
    with TransactionStory(277) as story:
        story.part_coordinator()
        story.candidates = None
        intents = [Intent(is_raising, is_commit=True) for is_raising in (False, True)]
        former, following = story.producers(intents), story.producers(intents)
        story.do(former, StoryTransactor.open)
        story.do(former, StoryTransactor.fill)
        has_reached = hold(story, len(following))
        opening = story.begin(following, StoryTransactor.open)
        story.wait(has_reached)
        story.kill(story.coordinator)
        opening.succeed()
        story.do(former, StoryTransactor.close_in_vain)
        story.whole_transactions(following)
        story.finish()
