"""One local replica of a partition, as the Kafka edge sees it: offsets, batches, epochs."""

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from cluster.append_clock import AppendClock
from cluster.compaction_limits import cleaning_limits
from cluster.compaction_rule import CompactionPolicy
from cluster.errors import OffsetOutOfRangeError
from cluster.partition_reader import PartitionReader, TimestampHit
from cluster.readable_end import ReadableEnd
from cluster.replica_gauges import ReplicaGauges
from cluster.retention_rule import RetentionPolicy
from cluster.retention_start import retention_start
from cluster.topic_table import Topic
from cluster.transactions.aborted import CommittedBatches
from cluster.transactions.log_state import TransactionalLogState
from model.ids import NO_INDEX, ConsistencyLevel, GroupId, Index, NodeId, Offset, Term
from model.throttled_replicas import parse_throttled_replicas
from model.topic_config import TopicConfig
from raft.consensus import Consensus
from raft.errors import RaftError
from raft.group_configuration import RaftPolicy
from raft.interval_figures import IntervalFigures
from raft.log_state import LogState
from raft.recovery_throttle import ThrottledMembers
from raft.replica_context import ReplicaLogger
from raft.replicate_item import NewEntry, ReplicateStages
from storage.entry import Buffer, EntryKind
from storage.errors import CorruptLogError, StorageError
from storage.file_range import FileRange
from storage.log import Log
from storage.log_compaction import CleaningLimits, LogCompaction
from storage.log_start import LogStart
from storage.options import LogOptions

# Asks `delete_records` for everything that consumers can see.
HIGH_WATERMARK = -1


def log_options(config: TopicConfig) -> LogOptions:
    """Return the storage options that a topic's configuration asks for."""
    # As in Kafka: no pass reads the segment that is written to, so what may wait no longer must not be in it.
    compacted_ms = config.max_compaction_lag_ms if config.is_compacted else config.segment_ms
    return LogOptions(segment_bytes=config.segment_bytes, segment_ms=min(config.segment_ms, compacted_ms))


class Partition:
    """Reads and writes go through the leader in office only; the caller checks `is_in_office` first."""

    def __init__(self, topic: Topic, partition: int, consensus: Consensus, log_state: LogState) -> None:
        self.topic = topic
        self.partition = partition
        self._consensus = consensus
        # What the replica's log has built up: producers, or in __consumer_offsets the groups.
        self.log_state = log_state
        # The same where clients' transactions may be open in the log; None: they never are.
        self.transactional = log_state if isinstance(log_state, TransactionalLogState) else None
        if self.transactional is not None:
            self.transactional.visible = lambda: consensus.state.visible_index
        self._end = ReadableEnd(consensus, self.transactional)
        self._reader = PartitionReader(consensus, self._end)
        # What is in force now; the topic is the one of the table when the replica was started.
        self.config = topic.config
        self.append_clock = AppendClock(consensus.log)
        self.gauges = ReplicaGauges(consensus)
        self._apply_throttle()
        consensus.add_leadership_listener(self._on_leadership)
        self._on_leadership(consensus)

    def _on_leadership(self, consensus: Consensus) -> None:
        # Consumers read from the leader only.
        self._log.keep_for_readers(is_kept=consensus.state.is_leader)

    def apply_config(self, config: TopicConfig) -> None:
        """The topic's configuration has changed: batches, segments and answers follow it from now on."""
        self.config = config
        self._log.configure(log_options(config))
        self._consensus.apply_policy(RaftPolicy(config.min_insync_replicas), write_caching=config.write_caching)
        self._apply_throttle()

    def _apply_throttle(self) -> None:
        leaders = parse_throttled_replicas(self.config.leader_replication_throttled_replicas)
        followers = parse_throttled_replicas(self.config.follower_replication_throttled_replicas)
        self._consensus.throttle(ThrottledMembers(leaders.of(self.partition), followers.of(self.partition)))

    @property
    def _log(self) -> Log:
        return self._consensus.log

    # -- the replica --------------------------------------------------------------------------------------------

    @property
    def group(self) -> GroupId:
        """The Raft group of the partition."""
        return self._consensus.group

    @property
    def name(self) -> str:
        """What people call it: `orders-0`."""
        return self._consensus.name

    def logger_of(self, part: str) -> ReplicaLogger:
        """Return what a part of the broker logs of this replica with; `part` is the name of its logger."""
        return self._consensus.logger_of(part)

    @property
    def failure(self) -> StorageError | RaftError | None:
        """Why this replica has stopped for good; None: it works."""
        return self._consensus.failure

    @property
    def is_leader(self) -> bool:
        """This replica was elected in the current term; it may serve once it is in office."""
        return self._consensus.state.is_leader

    @property
    def is_in_office(self) -> bool:
        """This replica leads and may serve."""
        return self._consensus.is_in_office

    @property
    def leader_epoch(self) -> Term:
        """The Kafka leader epoch: the Raft term."""
        return self._consensus.term

    @property
    def leader_id(self) -> NodeId | None:
        """Who leads the current term, as far as this replica knows."""
        return self._consensus.leader_id

    async def transfer_to(self, target: NodeId | None) -> NodeId:
        """Hand the leadership over to `target`, None: to the best voter; return who leads afterwards.

        Raises:
            RaftError: As `LeadershipTransfer.run`; this replica may still lead.
        """
        return await self._consensus.transfer.run(target)

    def check_transfer(self, target: NodeId | None) -> NodeId:
        """Return to whom `transfer_to` would begin to hand over now, and hand over nothing.

        Raises:
            RaftError: As `LeadershipTransfer.check`.
        """
        return self._consensus.transfer.check(target)

    @property
    def figures(self) -> IntervalFigures | None:
        """How long calls and fsyncs took since somebody last took the figures; None: nobody counts them."""
        return self._consensus.figures

    @property
    def snapshot_refusal(self) -> str | None:
        """Why the state is too large for a snapshot; None: it was not when it was last looked at."""
        return self._consensus.snapshot_refusal

    @property
    def state_bytes_max(self) -> int:
        """How many bytes a state may have to be saved."""
        return self._consensus.state_bytes_max

    # -- the log ------------------------------------------------------------------------------------------------

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments on disk."""
        return self._log.size_bytes

    @property
    def commit_index(self) -> Index:
        """The last index that this replica knows as committed."""
        return self._consensus.state.commit_index

    @property
    def barrier_index(self) -> Index:
        """Leader: the first entry of its term; once it is committed, so are the entries of all earlier terms."""
        return self._consensus.state.barrier_index

    @property
    def start_offset(self) -> Offset:
        """The first offset that can be read."""
        return self._log.start_offset

    @property
    def high_watermark(self) -> Offset:
        """The offset after the last visible record; defined in office, where it never goes backwards."""
        return self._end.high_watermark

    @property
    def last_stable_offset(self) -> Offset:
        """The first offset that readers at read_committed must not see yet (RFC 0021, section 3).

        Raises:
            NotLeaderError: It is not known what is open: ask again.
        """
        return self._end.last_stable_offset

    def stable_end(self, high_watermark: Offset) -> Offset | None:
        """As `last_stable_offset`, where the caller has the high watermark of this moment; None: it is not known."""
        return self._end.stable_end(high_watermark)

    @property
    def end_offset(self) -> Offset:
        """The offset of the next record, visible or not."""
        return self._log.next_offset

    # -- writing and deleting -----------------------------------------------------------------------------------

    def produce(
        self,
        batch: bytearray,
        record_count: int,
        level: ConsistencyLevel,
        deadline: float | None,
        expected_term: Term | None = None,
        *,
        guard: int | None = None,
        is_durable: bool = False,
    ) -> ReplicateStages:
        """Append one checked v2 batch, which belongs to the engine from now on; in no other term than this one.

        `guard` was taken before the coordinator was asked, in `expected_term`. Without a `deadline` (loop time) the
        call ends with the commit, a refusal, or the leadership. What `is_durable` waits for fsyncs, whatever the topic
        says of its other data.
        """
        entry = NewEntry(EntryKind.DATA, batch, record_count, guard, is_durable)
        return self._consensus.replicate([entry], level, expected_term=expected_term, deadline=deadline)

    def write_marker(self, marker: bytearray, expected_term: Term, deadline: float) -> ReplicateStages:
        """Append the batch of one marker; it has the reserves of the system's own writes."""
        entry = NewEntry(EntryKind.DATA, marker, 1, is_durable=True, is_urgent=True)
        level = ConsistencyLevel.QUORUM_ACK
        return self._consensus.replicate([entry], level, expected_term=expected_term, deadline=deadline)

    # -- compaction ---------------------------------------------------------------------------------------------

    @property
    def compaction(self) -> LogCompaction:
        """What a pass may clean of the log, and the swap of what it has written."""
        return self._log.compaction

    @property
    def compaction_policy(self) -> CompactionPolicy | None:
        """What the topic asks for; None: it is not compacted. No internal topic is, whatever is set on it."""
        config = self.config
        if not config.is_compacted or self.topic.is_internal:
            return None
        return CompactionPolicy(
            config.min_cleanable_dirty_ratio,
            config.delete_retention_ms,
            config.min_compaction_lag_ms,
            config.max_compaction_lag_ms,
            config.is_deleted,
            config.segment_bytes,
        )

    async def cleaning_limits(self, policy: CompactionPolicy, now_ms: int, map_bytes: int) -> CleaningLimits | None:
        """As `compaction_limits.cleaning_limits`, of this replica."""
        return await cleaning_limits(self._consensus, self.transactional, policy, now_ms, map_bytes)

    @property
    def holders_of_deletes(self) -> tuple[NodeId, ...]:
        """As `Consensus.holders_of_deletes`."""
        return self._consensus.holders_of_deletes

    def report_damage(self, error: CorruptLogError) -> None:
        """A pass has found damage in the log: what a read does that finds some."""
        self._log.health.report_damage(error)

    async def delete_records(self, offset: int, deadline: float) -> Offset:
        """Make `offset` the first one that can be read, on every replica and for ever; -1 is the high watermark.

        Returns the first offset that can be read now: a larger one than `offset` if that was the start already.

        Raises:
            OffsetOutOfRangeError: It lies above the high watermark.
            RaftError: Not the leader, or no majority before `deadline` (loop time).
            StorageError: The log cannot be read.
        """
        term, high_watermark = self.leader_epoch, self.high_watermark
        wanted = high_watermark if offset == HIGH_WATERMARK else offset
        if not 0 <= wanted <= high_watermark:
            raise OffsetOutOfRangeError(f"offset {wanted} is not in [0, {high_watermark}]")
        if wanted > self.start_offset:
            start = await self._start_at(Offset(wanted))
            if start.offset > self.start_offset:
                await self._consensus.move_log_start(start, term, deadline)
            # L2 of RFC 0008: the answer promises that nothing below is ever read again.
            assert self.start_offset >= start.offset
        return self.start_offset

    async def _start_at(self, offset: Offset) -> LogStart:
        """Return the start that makes `offset` the first one that can be read; it is at most the end of the log."""
        log = self._log
        while True:
            index = await log.reader.index_of_offset(offset)
            if index > log.dirty_index:
                return LogStart(index, log.next_offset, offset, log.term_at(Index(index - 1)))
            entry = (await log.read(index, 1, index))[0]
            # A pass of compaction may have put a placeholder there meanwhile, which begins earlier.
            if entry.index == index:
                return LogStart(index, entry.base_offset, offset, log.term_at(Index(index - 1)))

    async def apply_retention(self, now_ms: int, deadline: float) -> Offset | None:
        """Delete whole segments that the topic's configuration does not keep; return the new start if it moved.

        Nothing is deleted while there can be no snapshot of what the entries have led to: followers need the entries.

        Raises:
            RaftError: As `delete_records`.
        """
        if not self.config.is_deleted or self.snapshot_refusal is not None:
            return None
        policy = RetentionPolicy(self.config.retention_ms, self.config.retention_bytes)
        start = retention_start(self._log, self.commit_index, now_ms, policy)
        if start is None:
            return None
        await self._consensus.move_log_start(start, self.leader_epoch, deadline)
        return self.start_offset

    # -- reading ------------------------------------------------------------------------------------------------

    def begin_read(self) -> asyncio.Future[None]:
        """Begin a linearizable read now: the future, which other reads share, is for `confirm_read`."""
        return self._consensus.barrier.arrive()

    async def confirm_read(self, begun: asyncio.Future[None]) -> None:
        """Wait until a majority has confirmed that this replica led when the read began, for an election timeout.

        Raises:
            NotLeaderError: It did not, or leads no longer.
            ReadTimedOutError: No majority has answered in time.
        """
        await self._consensus.barrier.wait(begun)

    def is_in_memory(self, offset: Offset) -> bool:
        """Whether the entry that holds `offset` is in memory; what follows it may not be."""
        return self._log.reader.is_in_memory(offset)

    async def fetch(self, offset: Offset, max_bytes: int) -> list[Buffer]:
        """Return whole visible batches from the one that holds `offset` on, at least one if there is any.

        Raises:
            StorageError: The log cannot be read.
            NotLeaderError: This leadership has ended meanwhile.
        """
        return cast(list[Buffer], await self._reader.fetch(offset, max_bytes, from_files=False))

    async def fetch_to_send(self, offset: Offset, max_bytes: int) -> Sequence[Buffer | FileRange]:
        """As `fetch`; batches may be told as ranges of files, which need not be read to be sent.

        Raises:
            StorageError: The log cannot be read.
            NotLeaderError: This leadership has ended meanwhile.
        """
        return await self._reader.fetch(offset, max_bytes, from_files=True)

    async def fetch_committed(self, offset: Offset, max_bytes: int, *, from_files: bool) -> CommittedBatches:
        """Return batches as `fetch`, or with `from_files` as `fetch_to_send`, up to the last stable offset.

        Raises:
            StorageError: The log cannot be read.
            NotLeaderError: This leadership has ended meanwhile, or as `last_stable_offset`.
        """
        return await self._reader.fetch_committed(offset, max_bytes, from_files=from_files)

    async def find_timestamp(
        self, timestamp_ms: int, *, first: Index = NO_INDEX, read_committed: bool = False
    ) -> TimestampHit | None:
        """Return the first visible batch, in entry `first` or later, with a record at or after `timestamp_ms`.

        With `read_committed` it lies before the last stable offset.

        Raises:
            StorageError, NotLeaderError: As `fetch`.
        """
        return await self._reader.find_timestamp(timestamp_ms, first=first, read_committed=read_committed)

    def epoch_end(self, epoch: int) -> tuple[Term, Offset]:
        """Return the largest epoch at or below `epoch` and where it ended (OffsetForLeaderEpoch).

        An epoch before all that the log still holds ended, as in Kafka, where the log starts: who has read up to
        there has lost nothing. (-1, -1) for an epoch that is not there yet.
        """
        if epoch > self.leader_epoch or epoch < 0:
            return Term(-1), Offset(-1)
        if epoch == self.leader_epoch:
            return self.leader_epoch, self.high_watermark
        term, end = self._log.epoch_end(Term(epoch))
        return (term, end) if term > 0 else (Term(epoch), end)

    def epoch_of(self, offset: Offset) -> Term:
        """Return the epoch in which the record at `offset` was (or the next record would be) written."""
        return self._log.term_of_offset(offset)

    async def max_timestamp(self, *, first: Index = NO_INDEX, read_committed: bool = False) -> int | None:
        """Return the largest timestamp of any visible batch in entry `first` or later, None if there is none.

        With `read_committed` only batches before the last stable offset count.

        Raises:
            StorageError, NotLeaderError: As `fetch`.
        """
        return await self._reader.max_timestamp(first=first, read_committed=read_committed)

    def watch(self, callback: Callable[[], None]) -> int:
        """Call `callback` when more may be readable or leadership may have changed."""
        return self._consensus.monitor.watch(callback)

    def unwatch(self, watcher: int) -> None:
        """End a `watch`."""
        self._consensus.monitor.unwatch(watcher)
