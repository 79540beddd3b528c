"""Bugs where a log begins, and in its snapshots (RFC 0008)."""

import pytest

import cluster.partition
from cluster.partition import HIGH_WATERMARK, Partition
from cluster.retention_rule import RetentionPolicy
from model.ids import ConsistencyLevel, Index
from raft.consensus import Consensus
from raft.replica_log_state import ReplicaLogState
from raft.replicate_item import NewEntry
from raft.stepped_log_state import SteppedLogState
from storage.entry import EntryKind
from storage.log_start import LogStart, decode_log_start, encode_log_start
from storage.snapshot_file import Snapshot
from tests.engine import consensus_of


def each_replica_deletes_by_itself(patch: pytest.MonkeyPatch) -> None:
    """DeleteRecords and retention move the start of the leader only, without an entry."""

    async def move_log_start(consensus: Consensus, start, term, deadline) -> None:
        consensus.log.advance_start(start)

    patch.setattr(Consensus, "move_log_start", move_log_start)


def start_moves_before_its_entry_is_committed(patch: pytest.MonkeyPatch) -> None:
    """A replica begins where an entry says as soon as it holds that entry."""
    whole_note = ReplicaLogState.note

    def note(stm: ReplicaLogState, entry) -> None:
        whole_note(stm, entry)
        if entry.kind is EntryKind.LOG_START and stm._owner is not None:
            start = decode_log_start(entry.payload)
            if start.index <= stm._log.flushed_index + 1:
                stm._log.advance_start(start)

    patch.setattr(ReplicaLogState, "note", note)


def snapshot_is_later_than_its_state(patch: pytest.MonkeyPatch) -> None:
    """A snapshot names the newest entry, but its state is as of a committed one."""
    true_take = ReplicaLogState.take_snapshot

    async def take(stm: ReplicaLogState) -> Snapshot:
        index = stm._log.dirty_index
        snapshot = await true_take(stm)
        return Snapshot(snapshot.start, index, stm._log.term_at(index), snapshot.state)

    patch.setattr(ReplicaLogState, "take_snapshot", take)


def snapshot_names_what_is_committed_and_not_yet_settled(patch: pytest.MonkeyPatch) -> None:
    """A snapshot is filed under the commit index, while the state settles in steps behind it."""

    async def take(stepped: SteppedLogState) -> Snapshot:
        async with stepped.unchanged():
            index = stepped.committed
            term = stepped._log.term_at(index) if index >= stepped._log.start_index else stepped.applied_term
            return Snapshot(stepped._log.start, index, term, b"".join(stepped.state.snapshot()))

    patch.setattr(SteppedLogState, "take_snapshot", take)


def retention_keeps_only_the_newest_segment(patch: pytest.MonkeyPatch) -> None:
    """Retention keeps no more than the newest segment, whatever the topic's configuration says."""
    retention_start = cluster.partition.retention_start

    def start(log, commit, now_ms, policy):
        return retention_start(log, commit, now_ms, RetentionPolicy(policy.ms, 0))

    patch.setattr(cluster.partition, "retention_start", start)


def delete_records_goes_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """DeleteRecords removes everything that consumers can see, whatever offset it was asked for."""
    start_at = Partition._start_at

    async def start(partition: Partition, offset) -> LogStart:
        return await start_at(partition, partition.high_watermark)

    patch.setattr(Partition, "_start_at", start)


def delete_records_is_answered_without_effect(patch: pytest.MonkeyPatch) -> None:
    """DeleteRecords is answered with the offset that it was asked for, and deletes nothing."""

    async def delete_records(partition: Partition, offset, deadline: float):
        return partition.high_watermark if offset == HIGH_WATERMARK else offset

    patch.setattr(Partition, "delete_records", delete_records)


def delete_records_is_answered_before_it_is_committed(patch: pytest.MonkeyPatch) -> None:
    """DeleteRecords is answered as soon as its leader has begun to move the start of the log."""

    async def delete_records(partition: Partition, offset, deadline: float):
        wanted = partition.high_watermark if offset == HIGH_WATERMARK else offset
        if wanted > partition.start_offset:
            start = await partition._start_at(wanted)
            entry = NewEntry(EntryKind.LOG_START, encode_log_start(start), 0)
            consensus_of(partition).replicate(
                [entry], ConsistencyLevel.QUORUM_ACK, expected_term=partition.leader_epoch
            )
        return max(wanted, partition.start_offset)

    patch.setattr(Partition, "delete_records", delete_records)


def delete_records_takes_the_whole_batch(patch: pytest.MonkeyPatch) -> None:
    """DeleteRecords removes the entry that holds the offset which is to be the first one to be read."""
    start_at = Partition._start_at

    async def start(partition: Partition, offset) -> LogStart:
        found = await start_at(partition, offset)
        log = partition._log
        if found.index > min(log.flushed_index, consensus_of(partition).state.commit_index):
            return found
        entry = (await log.read(found.index, 1, found.index))[0]
        return LogStart(Index(found.index + 1), entry.end_offset, entry.end_offset, entry.term)

    patch.setattr(Partition, "_start_at", start)
