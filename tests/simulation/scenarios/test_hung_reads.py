"""RFC 0003 section 10: what a fetch has read is shown by the leadership in which it was visible, or not at all."""

import pytest

from cluster.partition import Partition
from cluster.partition_reader import PartitionReader
from model.ids import Offset
from raft.errors import NotLeaderError
from raft.options import RaftOptions
from runtime.workers import Pool
from tests.simulation.scenarios.scenario import LEADER, Scenario

# Nothing is fsynced before the power is lost, and of five writes only the newest are in memory.
_OPTIONS = RaftOptions(flush_interval=5.0, flush_bytes=1 << 30, tail_cache_bytes=4000)
_SIZE = 1000


async def _fetch(partition: Partition, found: list[tuple[list[bytes], Offset]], refused: list[NotLeaderError]) -> None:
    try:
        batches = await partition.fetch(Offset(0), 1 << 20)
    except NotLeaderError as error:
        refused.append(error)
    else:
        found.append(([bytes(batch) for batch in batches], partition.high_watermark))


def _a_read_hangs_over_two_elections() -> None:
    """Five writes are visible; a power loss takes them from the other holder, and the reader's log is cut and grows."""
    with Scenario(331, raft=_OPTIONS) as story:
        reader = story.leader
        holder, other = story.followers
        story.connect([reader, holder])
        story.written(reader, LEADER, 5, size=_SIZE)
        story.wait(lambda: story.replica(reader).state.visible_index == 6)
        partition = story.cluster.partition(reader, story.group)
        assert partition is not None
        found: list[tuple[list[bytes], Offset]] = []
        refused: list[NotLeaderError] = []
        story.machine(reader).spawn(_fetch(partition, found, refused))
        # It has begun, and nothing else of the disk hangs: a truncation reads where it cuts.
        story.wait(lambda: story.machine(reader).workers.hang(Pool.READ) > 0, 1.0)

        story.connect([other])
        story.lose_power(holder)
        story.restart(holder)
        story.connect([holder, other])
        story.elect_into_office(holder)
        story.heal()
        story.wait(lambda: story.terms(reader) == [1, 2])
        story.elect_into_office(reader)
        story.connect([holder, other])
        story.written(reader, LEADER, 3, size=_SIZE)
        assert partition.end_offset == 3
        assert partition.high_watermark == 0, "nobody else has them"

        assert not found
        story.machine(reader).workers.mend()
        story.wait(lambda: bool(found or refused), 1.0)
        assert story.replica(reader).is_in_office
        for batches, high_watermark in found:
            assert len(batches) <= high_watermark, "each batch holds one record"
        assert refused
        story.converge()


def test_a_read_that_hung_over_two_elections_shows_nothing_above_the_watermark() -> None:
    _a_read_hangs_over_two_elections()


async def in_any_term(reader, term, read):
    """Await a read, and look at nothing afterwards but who is in office."""
    return await read


def test_a_hung_read_shows_more_than_the_watermark_if_the_term_is_not_compared_again(monkeypatch) -> None:
    monkeypatch.setattr(PartitionReader, "_in_term", in_any_term)
    with pytest.raises(AssertionError, match="each batch holds one record"):
        _a_read_hangs_over_two_elections()
