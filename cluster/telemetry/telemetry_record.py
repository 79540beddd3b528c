"""One record of `__raftka_telemetry`: what a replica is and knows at one moment, and what it did since the last one.

Everything is read off what the replica keeps anyway. Nothing waits but for the offset of an entry that memory does not
hold any more: that of a follower that is far behind, as a rule.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import msgspec

from cluster.partition import Partition
from model.duration_histogram import Durations
from model.ids import ConsistencyLevel, GroupId, Index, NodeId, Offset, Term
from raft.call_figures import AppendedEntries
from raft.interval_figures import TakenFigures
from raft.replica_state import Role
from storage.entry import EntryKind

RECORD_VERSION = 1
QUORUM, LEADER, DATA = ConsistencyLevel.QUORUM_ACK, ConsistencyLevel.LEADER_ACK, EntryKind.DATA
T = TypeVar("T")

_ROLES = {Role.FOLLOWER: "follower", Role.CANDIDATE: "candidate", Role.LEADER: "leader"}


class FollowerRecord(msgspec.Struct, frozen=True):
    """What a leader knows of another replica: ends of its log (Kafka offsets), and how old the newest answer is."""

    dirty: int
    flushed: int
    age_ms: int


class ReplicateRecord(msgspec.Struct, frozen=True):
    """How long producers' calls took, by level."""

    quorum_ack: Durations | None
    leader_ack: Durations | None


class OtherCallsRecord(msgspec.Struct, frozen=True):
    """How long calls took whose entries are no producer's, by level and kind."""

    quorum_ack: dict[str, Durations]
    leader_ack: dict[str, Durations]


class FailedCallsRecord(msgspec.Struct, frozen=True):
    """How many calls have failed, by level and kind, those of producers included."""

    quorum_ack: dict[str, int]
    leader_ack: dict[str, int]


class AppendedRecord(msgspec.Struct, frozen=True):
    """Entries written as leader and as follower, by kind."""

    leader: dict[str, AppendedEntries]
    follower: dict[str, AppendedEntries]


class TelemetryRecord(msgspec.Struct, frozen=True):
    """See RFC 0011. Offsets are Kafka's, of the record after the last one that is dirty, flushed, committed, visible.

    Readers ignore what they do not know, so a field may be added; one that changes its meaning needs another `v`.
    """

    v: int
    at: int
    interval_ms: int
    broker: int
    boot: str
    topic: str
    topic_id: str
    partition: int
    role: str
    in_office: bool
    term: int
    leader: int | None
    voters: list[int]
    in_sync: list[int] | None
    log_start: int
    dirty: int
    flushed: int
    commit: int
    visible: int
    followers: dict[str, FollowerRecord] | None
    replicate: ReplicateRecord
    fsync: Durations | None
    recovery_bytes: int
    # What follows is missing in records of earlier versions. What did not happen is left out or null.
    entries: int
    unapplied: int
    min_in_sync: int
    in_sync_min: int | None
    appended: AppendedRecord | None
    replicate_other: OtherCallsRecord | None
    replicate_failed: FailedCallsRecord | None
    apply: dict[str, Durations] | None
    apply_failed: dict[str, int] | None


class Moment(NamedTuple):
    """Who looks, and when.

    Attributes:
        broker: This node.
        boot: Another one after each start of the process.
        at_ms: Wall clock.
        now: Loop time.
    """

    broker: NodeId
    boot: str
    at_ms: int
    now: float


class FarOffsets:
    """End offsets of entries that memory does not hold any more, as far as they were asked for in the last round.

    A follower that is down stays where it is: its entry is read from disk once and not each second.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[GroupId, Term, Index], Offset] = {}
        self._before: dict[tuple[GroupId, Term, Index], Offset] = {}

    def begin_round(self) -> None:
        """Forget what the last round did not ask for."""
        self._before, self._known = self._known, {}

    async def end_offset(self, partition: Partition, index: Index) -> Offset:
        """Return the offset after an entry, or where the log starts if the entry lies before that.

        Raises:
            StorageError: The log cannot be read, or has changed meanwhile.
        """
        gauges = partition.gauges
        index = Index(max(index, gauges.start_index - 1))
        end = gauges.end_offset_in_memory(index)
        if end is not None:
            return end
        # What is committed keeps its place, and a leader truncates nothing; anything else is looked up each time.
        if not partition.is_leader and index > partition.commit_index:
            return await gauges.end_offset_on_disk(index)
        key = (partition.group, partition.leader_epoch, index)
        end = self._before.get(key)
        if end is None:
            end = await gauges.end_offset_on_disk(index)
        self._known[key] = end
        return end


def is_told_of(partition: Partition) -> bool:
    """Whether a replica has anything to tell: one that has failed does not know where it stands."""
    return partition.figures is not None and partition.gauges.role is not Role.FAILED


def record_key(partition: Partition) -> bytes:
    """Return the key of a replica's records: all replicas of a partition share it."""
    return f"{partition.topic.name}-{partition.partition}".encode()


async def read_replica(
    partition: Partition, moment: Moment, taken: TakenFigures, far: FarOffsets
) -> TelemetryRecord | None:
    """Return what a replica says of itself and, where it leads, of the others; all of one instant.

    None where its term has ended while offsets were looked up: they may be those of another log by then.

    Raises:
        StorageError: The log cannot be read, or has changed meanwhile.
    """
    gauges, term = partition.gauges, partition.leader_epoch
    role, in_office, leader = _ROLES[gauges.role], partition.is_in_office, partition.leader_id
    in_sync = list(map(int, gauges.in_sync)) if partition.is_leader else None
    log_start, dirty = partition.start_offset, partition.end_offset
    entries, unapplied, min_in_sync = gauges.entries, gauges.unapplied_entries, gauges.min_in_sync
    # The dirty end is known without a look at its entry.
    _, *indexes = gauges.indexes
    others = gauges.followers()
    followers: dict[str, FollowerRecord] | None = {} if partition.is_leader else None
    flushed, commit, visible = [await far.end_offset(partition, index) for index in indexes]
    if followers is not None:
        for other in others:
            written = await far.end_offset(partition, other.dirty)
            fsynced = await far.end_offset(partition, other.flushed)
            age = max(moment.now - other.last_reply_at, 0.0)
            followers[str(other.node_id)] = FollowerRecord(written, fsynced, round(age * 1000))
    if partition.leader_epoch != term:
        return None
    return TelemetryRecord(
        v=RECORD_VERSION,
        at=moment.at_ms,
        interval_ms=max(round((moment.now - taken.since) * 1000), 0),
        broker=moment.broker,
        boot=moment.boot,
        topic=partition.topic.name,
        topic_id=partition.topic.topic_id,
        partition=partition.partition,
        role=role,
        in_office=in_office,
        term=term,
        leader=leader,
        voters=list(map(int, gauges.voters)),
        in_sync=in_sync,
        log_start=log_start,
        dirty=dirty,
        flushed=flushed,
        commit=commit,
        visible=visible,
        followers=followers,
        replicate=ReplicateRecord(taken.replicated(QUORUM, DATA), taken.replicated(LEADER, DATA)),
        fsync=taken.fsync,
        recovery_bytes=taken.recovery_bytes,
        entries=entries,
        unapplied=unapplied,
        min_in_sync=min_in_sync,
        in_sync_min=None if in_sync is None else min(len(in_sync), taken.in_sync_min or len(in_sync)),
        appended=_appended(taken),
        replicate_other=_other_calls(taken),
        replicate_failed=_failed_calls(taken),
        apply=_by_name(taken.apply) or None,
        apply_failed=_by_name(taken.apply_failed) or None,
    )


def _by_name(by_kind: Mapping[EntryKind, T]) -> dict[str, T]:
    return {kind.name.lower(): each for kind, each in sorted(by_kind.items())}


def _appended(taken: TakenFigures) -> AppendedRecord | None:
    if not taken.leader_appended and not taken.follower_appended:
        return None
    return AppendedRecord(_by_name(taken.leader_appended), _by_name(taken.follower_appended))


def _other_calls(taken: TakenFigures) -> OtherCallsRecord | None:
    others = {
        level: {kind: each for kind, each in by_kind.items() if kind is not DATA}
        for level, by_kind in taken.replicate.items()
    }
    if not any(others.values()):
        return None
    return OtherCallsRecord(_by_name(others[QUORUM]), _by_name(others[LEADER]))


def _failed_calls(taken: TakenFigures) -> FailedCallsRecord | None:
    failed = taken.replicate_failed
    if not any(failed.values()):
        return None
    return FailedCallsRecord(_by_name(failed[QUORUM]), _by_name(failed[LEADER]))
