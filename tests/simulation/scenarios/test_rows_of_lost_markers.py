"""RFC 0021, section 6: what a reader hears of aborted transactions is of the very log that its batches are of.

Schedule 11 of section 9 of the design: an ABORT marker is gone, by a truncation or with its segment. If its row stayed
behind a truncation, readers would leave out what was committed since. If rows were of a later view than the batches,
readers would see what was aborted.
"""

import pytest

import tests.simulation.world.observer
from model.ids import Offset
from storage.aborted_rows import NO_ROWS, AbortedRow, AbortedRows
from storage.log_reader import LogReader
from tests.simulation.clients.kafka_consumers import READ_COMMITTED, SimConsumer
from tests.simulation.scenarios.held_calls import HeldCalls
from tests.simulation.scenarios.transaction_story import Intent, StoryTransactor, TransactionStory

_COMMITS = [Intent(is_raising, is_commit=True) for is_raising in (False, True)]
_ABORTS = [Intent(is_raising, is_commit=False) for is_raising in (False, True)]


def _other(story: TransactionStory) -> int:
    """Return a follower that does not coordinate."""
    return next(each for each in story.followers if each != story.coordinator)


def _rows_of(story: TransactionStory, node_id: int) -> list[AbortedRow]:
    """Return the rows that the segments of a replica have in memory."""
    rows = [segment.rows for segment in story.replica(node_id).log._segments if segment.rows is not None]
    return [row for each in rows for row in each.within(Offset(0), Offset(NO_ROWS))]


# -- a truncation --------------------------------------------------------------------------------------------------


def _aborts_are_truncated() -> None:
    """What a deposed leader has aborted is committed at the next one, and the former leads again."""
    with TransactionStory(280, partitions=1) as story:
        story.part_coordinator()
        producers = story.producers(_COMMITS)
        story.do(producers, StoryTransactor.open)
        story.do(producers, StoryTransactor.fill)
        former, other = story.leader, _other(story)
        story.connect([former], [each for each in story.world.nodes if each != former])
        aborting = story.abort_as_administrator(former, producers)
        story.wait(lambda: len(_rows_of(story, former)) == len(producers))
        story.elect_into_office(other)
        story.heal()
        aborting.wait()
        story.do(producers, StoryTransactor.close)
        story.whole_transactions(producers)
        story.wait(lambda: story.log(former) == story.log(other))
        assert story.view(former).now.truncations > 0
        story.elect_into_office(former)
        story.finish()
        assert story.leader == former


def test_readers_see_what_is_committed_where_an_abort_was_truncated() -> None:
    _aborts_are_truncated()


def test_readers_leave_out_what_is_committed_if_rows_stay_behind_a_truncation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AbortedRows, "cut", lambda rows, offset: None)
    monkeypatch.setattr(tests.simulation.world.observer, "ALL", ())
    with pytest.raises(AssertionError, match="at read_committed"):
        _aborts_are_truncated()


# -- segments that leave -------------------------------------------------------------------------------------------


async def _ask(reader: SimConsumer) -> bool:
    return await reader.seek(0) and await reader.poll([0])


def _aborts_leave_during_a_fetch() -> None:
    """A leader has read batches for a reader, and before it looks for their rows, records are deleted."""
    with TransactionStory(281, partitions=1) as story:
        story.part_coordinator()
        producers = story.producers(_ABORTS)
        story.do(producers, StoryTransactor.open)
        story.whole_transactions(producers)
        story.wait(story.is_complete)
        # A term has segments of its own.
        story.elect_into_office(_other(story))
        leader, partition, log = story.leader, story.partition(story.leader), story.replica(story.leader).log
        begin, first = partition.high_watermark, log._segments[0]
        assert first.lowest_first < begin
        for producer in producers:
            producer.is_commit = True
        story.whole_transactions(producers)
        held = HeldCalls(story, leader, log.reader, "_rows_within")
        reader = story.reader("asks", READ_COMMITTED)
        asking = story.spawn([_ask(reader)])
        story.wait(lambda: held.count > 0)
        machine = story.machine(leader)
        story.world.run(machine, partition.delete_records(begin, machine.loop.time() + 30.0))
        story.wait(lambda: log._segments[0] is not first)
        held.let_go()
        asking.succeed()
        asked = [line for line in story.recorder.lines if line["f"] == "poll" and line["proc"] in reader.processes]
        assert [line["recs"] for line in asked] == [[]], "a reader sees aborted records"
        assert reader.positions == {0: begin}
        story.finish()


def test_a_reader_begins_anew_if_markers_leave_between_its_batches_and_their_rows() -> None:
    _aborts_leave_during_a_fetch()


def test_a_reader_sees_aborted_records_if_rows_are_of_a_later_view_than_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def rows_of_what_is_left(reader: LogReader, first, begin, end) -> list[AbortedRow]:
        return await reader._aborted.within(max(first, reader._segments[0].base_index), begin, end)

    monkeypatch.setattr(LogReader, "_rows_within", rows_of_what_is_left)
    monkeypatch.setattr(tests.simulation.world.observer, "ALL", ())
    with pytest.raises(AssertionError, match="a reader sees aborted records"):
        _aborts_leave_during_a_fetch()
