"""RFC 0022, section 3: what a broker lets a pass do: up to what is committed, and never the newest record."""

from dataclasses import replace

import pytest

from cluster import compaction_limits, partition
from model.ids import NO_INDEX, Offset
from raft.consensus import Consensus
from storage.entry import EntryKind
from storage.log_compaction import CleaningLimits
from tests.simulation.invariants import KeptRecordsAreOriginal
from tests.simulation.scenarios.compacted_story import (
    KEYS,
    SEGMENT_BYTES,
    ask,
    make_pass,
    objection,
    offer,
    put,
    table,
)
from tests.simulation.scenarios.scenario import Scenario


def _kind_of_newest(story: Scenario, node_id: int) -> EntryKind:
    """Return what a reader finds at the last offset."""
    log = story.replica(node_id).log
    last = Offset(log.next_offset - 1)
    index = story.world.run(story.machine(node_id), log.reader.index_of_offset(last))
    return story.world.run(story.machine(node_id), log.read(index, 1))[0].kind


def _the_newest_record_is_a_tombstone_that_may_go() -> None:
    """It fills its segment, and two later leaders have written their barriers behind it."""
    with Scenario(68, segment_bytes=SEGMENT_BYTES) as story:
        for number in range(6):
            put(story, story.leader, KEYS[number % 3], b"new" * 300, producer=8, sequence=number)
        put(story, story.leader, b"k" * (SEGMENT_BYTES - 200), None, producer=8, sequence=6)
        newest = story.replica(story.leader).log.dirty_index
        for node_id in story.followers:
            story.elect_into_office(node_id)
        for node_id in story.world.nodes:
            log = story.replica(node_id).log
            story.wait(lambda log=log: log.snapshot_index >= log.closed_index >= newest)
        for number in range(3):
            for node_id in story.world.nodes:
                make_pass(story, node_id, 10**15 + number)
            ask(story)
        assert story.replica(story.leader).deletes_to >= newest
        for node_id in story.world.nodes:
            assert _kind_of_newest(story, node_id) is EntryKind.DATA, "a reader never arrives at the end"


def test_a_tombstone_that_is_the_newest_record_stays_when_it_may_go() -> None:
    _the_newest_record_is_a_tombstone_that_may_go()


def test_readers_never_arrive_if_the_broker_names_no_newest_record(monkeypatch: pytest.MonkeyPatch) -> None:
    async def without(*arguments: object) -> CleaningLimits | None:
        limits = await compaction_limits.cleaning_limits(*arguments)  # type: ignore[arg-type]
        return None if limits is None else replace(limits, kept_index=NO_INDEX)

    monkeypatch.setattr(partition, "cleaning_limits", without)
    with pytest.raises(AssertionError, match="a reader never arrives at the end"):
        _the_newest_record_is_a_tombstone_that_may_go()


def _a_leader_that_is_alone_overwrites_all_keys() -> None:
    """It makes a pass, then the next leader has its last entries cut off."""
    with Scenario(69, segment_bytes=SEGMENT_BYTES) as story:
        alone, other = story.leader, story.followers[0]
        for number in range(9):
            put(story, alone, KEYS[number % 3], b"old" * 300, producer=8, sequence=number)
        log = story.replica(alone).log
        story.wait(lambda: log.snapshot_index >= log.closed_index > 6)
        story.connect(story.followers)
        commit = story.replica(alone).state.commit_index
        for number in range(9):
            offer(story, alone, KEYS[number % 3], b"never" * 300, producer=8, sequence=9 + number)
        story.wait(lambda: log.flushed_index >= commit + 9)
        make_pass(story, alone)
        assert story.replica(alone).state.commit_index == commit
        story.heal()
        story.elect_into_office(other)
        ends = [story.replica(node_id).log for node_id in (alone, other)]
        story.wait(lambda: len({log.last_term for log in ends}) == len({log.dirty_index for log in ends}) == 1)
        assert table(story, alone) == table(story, other), "what was never committed has superseded a record"
        story.converge()


def test_a_pass_of_a_leader_that_is_alone_keeps_what_is_committed() -> None:
    _a_leader_that_is_alone_overwrites_all_keys()


def test_a_committed_record_is_lost_if_the_end_of_the_log_bounds_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    async def as_far_as_written(consensus: Consensus, *rest: object) -> CleaningLimits | None:
        limits = await compaction_limits.cleaning_limits(consensus, *rest)  # type: ignore[arg-type]
        return None if limits is None else replace(limits, end=consensus.log.dirty_index)

    monkeypatch.setattr(partition, "cleaning_limits", as_far_as_written)
    with objection(KeptRecordsAreOriginal):
        _a_leader_that_is_alone_overwrites_all_keys()
