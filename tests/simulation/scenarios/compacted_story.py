"""Keyed records in a simulated partition, and passes over a replica's log."""

import contextlib
import re
from collections.abc import Iterator

import pytest

from cluster.compaction_rule import NO_MAX_LAG, CompactionPolicy
from cluster.partition import Partition
from model.ids import Index, Offset
from model.record_batch import read_header
from model.record_codec import unpack_records
from model.record_filter import keyed_records
from raft.compaction_bounds import ask_for_clean_indexes
from raft.consensus import Consensus
from storage.entry import EntryKind
from storage.log_compaction import CleaningLimits
from storage.segment_cleaning import clean
from tests.simulation.invariants.invariant import Invariant, InvariantBrokenError
from tests.simulation.scenarios.scenario import QUORUM, Scenario, Write
from tests.simulation.world.replica_view import content_key
from tests.simulation.world.world import SimulationError
from tests.unit.model.record_batches import build_batch, varint

SEGMENT_BYTES = 4096
# Whatever is old enough goes at once.
POLICY = CompactionPolicy(0.5, 0, 0, NO_MAX_LAG, is_deleted=False, segment_bytes=1 << 20)
KEYS = [b"a", b"b", b"c"]
# What a value of a table begins with.
_NUMBER = re.compile(rb"#(\d+)#")


@contextlib.contextmanager
def objection(invariant: type[Invariant]) -> Iterator[None]:
    """Expect that an invariant ends the story, in the step in which a swap breaks it."""
    with pytest.raises(SimulationError) as ended:
        yield
    cause = ended.value.__cause__
    assert isinstance(cause, InvariantBrokenError)
    assert str(cause).startswith(f"{invariant.__name__}: ")


def bound_deletes_by_voters_only(patch: pytest.MonkeyPatch) -> None:
    """Plant: a tombstone waits for no learner."""

    def of_voters(consensus: Consensus) -> Index:
        state = consensus.state
        voters = [node for node in state.followers if node in state.configuration.voter_ids]
        consensus.note_deletes_bound(state.clean_indexes.bound(voters, consensus.clean_index))
        return consensus.deletes_to

    patch.setattr(Consensus, "raise_deletes_bound", of_voters)


def record_of(key: bytes, value: bytes | None) -> bytes:
    size = varint(-1) if value is None else varint(len(value)) + value
    body = b"\0" + varint(0) + varint(0) + varint(len(key)) + key + size + varint(0)
    return varint(len(body)) + body


def put(story: Scenario, node_id: int, key: bytes, value: bytes | None, *, producer: int, sequence: int) -> Write:
    """Hand a record with a key to a node, from an idempotent producer, and wait for the answer."""
    write = offer(story, node_id, key, value, producer=producer, sequence=sequence)
    story.wait(lambda: write.is_answered)
    return write


def offer(story: Scenario, node_id: int, key: bytes, value: bytes | None, *, producer: int, sequence: int) -> Write:
    """As `put`, and wait for nothing."""
    how = {"producer_id": producer, "producer_epoch": min(producer, 0), "base_sequence": sequence}
    batch = build_batch(b"", payload=record_of(key, value), timestamps=[1000], **how)
    write = Write(content_key(batch), QUORUM)
    story.writes.append(write)
    story.cluster.history.sent.add(write.content)
    story.machine(node_id).spawn(story._produce(node_id, write, bytearray(batch), 1, 60.0))
    return write


def compact(story: Scenario, node_id: int) -> int:
    """Make a pass over a replica's log as far as its durable state goes, and swap; return the clean index."""
    consensus = story.replica(node_id)
    log = consensus.log

    async def run() -> None:
        end = min(log.snapshot_index, consensus.state.commit_index)
        limits = CleaningLimits(
            *(end, Index(0), Offset(log.next_offset), consensus.deletes_to, 0, 0, 10**15, True, 1 << 20, 1 << 20)
        )
        request = await log.compaction.request(limits)
        if request is not None:
            await log.compaction.swap(clean(story.machine(node_id).environment.files, request))

    story.world.run(story.machine(node_id), run())
    return int(log.compaction.clean_index)


def ask(story: Scenario) -> None:
    """Let the leader ask its followers how far they are clean, until they have answered."""
    leader = story.replica(story.leader)
    client = story.cluster.nodes[story.leader].groups._node.client
    ask_for_clean_indexes(client, [leader])
    story.wait(lambda: not leader.state.clean_indexes._lowest_sent)


def make_pass(story: Scenario, node_id: int, now_ms: int = 10**15) -> int:
    """Make a pass as far as the broker lets it go; return the clean index."""
    here = story.cluster.partition(node_id, story.group)
    assert here is not None

    async def run(here: Partition) -> None:
        limits = await here.cleaning_limits(POLICY, now_ms, 1 << 20)
        assert limits is not None
        request = await here.compaction.request(limits)
        assert request is not None, "there is nothing to clean"
        await here.compaction.swap(clean(story.machine(node_id).environment.files, request))

    story.world.run(story.machine(node_id), run(here))
    return int(here.compaction.clean_index)


def table(story: Scenario, node_id: int) -> dict[bytes, bytes]:
    """Return a replica's log by key."""
    return {key: record for _, key, record in keyed(story, node_id)}


def records(story: Scenario, node_id: int) -> list[bytes]:
    """Return all records in a replica's log."""
    return [record for _, _, record in keyed(story, node_id)]


def table_of_numbers(story: Scenario, node_id: int) -> dict[bytes, int]:
    """Return a replica's log by key, without what is deleted: the numbers that `SimTableWriter` gives its values."""
    numbers = {key: _NUMBER.search(record) for key, record in table(story, node_id).items()}
    return {key: int(number[1]) for key, number in numbers.items() if number is not None}


def keyed(story: Scenario, node_id: int) -> list[tuple[int, bytes, bytes]]:
    """Return offset, key and bytes of each record in a replica's log."""
    log = story.replica(node_id).log
    found: list[tuple[int, bytes, bytes]] = []

    async def run() -> None:
        index = log.start_index
        while index <= log.dirty_index:
            for entry in await log.read(index, 1 << 20):
                index = Index(entry.last_index + 1)
                if entry.kind is EntryKind.DATA:
                    header, data = read_header(entry.payload), unpack_records(entry.payload)
                    for each in [] if header.is_control else keyed_records(header, data):
                        offset = header.base_offset + each.offset_delta
                        found.append((offset, each.key or b"", data[each.begin : each.end]))

    story.world.run(story.machine(node_id), run())
    return found


def kinds(story: Scenario, node_id: int) -> list[EntryKind]:
    log = story.replica(node_id).log
    return [entry.kind for entry in story.world.run(story.machine(node_id), log.read(log.start_index, 1 << 30))]
