"""What one replica knows of itself right now: positions, role and byte counts, for status, metrics and telemetry.

A gauge is a value that is read at one instant, as in Prometheus. Nothing here changes the replica.
"""

from typing import NamedTuple

from model.ids import NO_INDEX, Index, NodeId, Offset
from raft.consensus import Consensus
from raft.replica_state import Role


class LogIndexes(NamedTuple):
    """The last index that a replica has written, has fsynced, knows as committed, and lets consumers read."""

    dirty: Index
    flushed: Index
    commit: Index
    visible: Index


class FollowerGauges(NamedTuple):
    """What a leader knows of a follower's log, as far as that equals its own; `last_reply_at` is a loop time."""

    node_id: NodeId
    dirty: Index
    flushed: Index
    last_reply_at: float


class Position(NamedTuple):
    """A log position with the offset of the last record at or below it, -1 if there is none."""

    log_index: Index
    offset: Offset


class ReplicaGauges:
    """See the module."""

    def __init__(self, consensus: Consensus) -> None:
        self._consensus = consensus
        self._log = consensus.log
        self._state = consensus.state

    @property
    def role(self) -> Role:
        """Follower, candidate, leader or failed."""
        return self._state.role

    @property
    def is_refilling(self) -> bool:
        """Whether damage took entries that this replica still gets back from the others."""
        return self._state.is_refilling

    @property
    def voters(self) -> list[NodeId]:
        """The nodes that vote in the group, in ascending order."""
        return sorted(self._consensus.configuration.node_ids)

    @property
    def learner_count(self) -> int:
        """How many members of the newest configuration in its log get entries and do not vote."""
        return len(self._consensus.configuration.learners)

    @property
    def is_joint(self) -> bool:
        """Whether two voter sets must agree, by the newest configuration in its log."""
        return self._consensus.configuration.is_joint

    @property
    def in_sync(self) -> tuple[NodeId, ...]:
        """Leader: the voters in sync; elsewhere empty."""
        return self._consensus.in_sync

    @property
    def indexes(self) -> LogIndexes:
        """All four of one instant."""
        log, state = self._log, self._state
        return LogIndexes(log.dirty_index, log.flushed_index, state.commit_index, state.visible_index)

    @property
    def min_in_sync(self) -> int:
        """How many replicas must be in sync for acks=all to be taken: min.insync.replicas, at most the voters."""
        return self._state.min_in_sync

    @property
    def start_index(self) -> Index:
        """The index of the first entry that the log holds."""
        return self._log.start_index

    @property
    def entries(self) -> int:
        """Entries that the log holds, of all kinds."""
        return self._log.dirty_index - self._log.start_index + 1

    @property
    def unapplied_entries(self) -> int:
        """Entries that are written here and that this replica's state does not include yet."""
        return self._log.dirty_index - self._consensus.applied_index

    @property
    def unflushed_bytes(self) -> int:
        """Bytes written here and not fsynced yet."""
        return self._log.unflushed_bytes

    @property
    def unreplicated_bytes(self) -> int:
        """Leader: bytes written here that no majority has."""
        return self._state.unreplicated.total

    def followers(self) -> list[FollowerGauges]:
        """Leader: return the followers in whose log it has found its own; nothing is known of the others' positions."""
        return [
            FollowerGauges(follower.node_id, *follower.position, follower.last_reply_at)
            for follower in self._state.followers.values()
            if follower.match_index != NO_INDEX
        ]

    def end_offset_in_memory(self, index: Index) -> Offset | None:
        """Return the offset after entry `index`, None if memory does not hold it any more."""
        return self._log.end_offset(index)

    async def end_offset_on_disk(self, index: Index) -> Offset:
        """Return the offset after entry `index` from the segments.

        Raises:
            StorageError: The log cannot be read, or has changed meanwhile.
        """
        return await self._log.reader.locate_end_offset(index)

    async def position(self, index: Index) -> Position:
        """Return `index` with its offset, from memory or from the segments.

        Raises:
            StorageError: As `end_offset_on_disk`.
        """
        end = self.end_offset_in_memory(index)
        if end is None:
            end = await self.end_offset_on_disk(index)
        return Position(index, Offset(end - 1))
