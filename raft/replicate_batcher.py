"""Coalesces concurrent `replicate` calls of all levels into few rounds, bounded in bytes.

Whatever arrives while a round is being written forms the next round: the batch grows by itself while the disk is
busy, with no linger to tune. Memory is bounded by `batcher_bytes` per group; a call beyond it waits in `enqueued`,
which is how back-pressure reaches a producer.

Source: Redpanda's RFC 20220119 (one path for all levels) and its replicate_batcher.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from model.ids import ConsistencyLevel, Index, Offset, Term
from model.record_batch import stamp
from raft.errors import (
    LeadershipLostError,
    NotLeaderError,
    RaftError,
    ReplicateTimedOutError,
    ShuttingDownError,
    StorageFullError,
)
from raft.replica_context import ReplicaContext
from raft.replica_flusher import ReplicaFlusher
from raft.replicate_entries_stm import ReplicateEntriesStm
from raft.replicate_item import NewEntry, ReplicateItem, ReplicateResult, ReplicateStages
from raft.replication_monitor import ReplicationMonitor
from runtime.byte_budget import ByteBudget
from storage.entry import Entry, EntryKind
from storage.errors import DiskFullError, StorageError


@dataclass(slots=True)
class _Placed:
    """A round: who takes part, the entries, and the range that waits for a flush."""

    items: list[ReplicateItem]
    entries: list[Entry]
    asked: tuple[Index, Index] | None


class ReplicateBatcher:
    """The leader's queue between `Consensus.replicate` and the rounds."""

    def __init__(self, context: ReplicaContext, flusher: ReplicaFlusher, monitor: ReplicationMonitor) -> None:
        self._context = context
        self._flusher = flusher
        self._monitor = monitor
        self._budget = ByteBudget(context.options.batcher_bytes)
        # Items that wait for the budget, in the order of their calls.
        self._waiting: dict[ReplicateItem, None] = {}
        self._items: list[ReplicateItem] = []
        # Items whose round is being written: told at once if leadership ends meanwhile.
        self._in_round: list[ReplicateItem] = []
        self._flush_pending = False

    def replicate(
        self,
        entries: Sequence[NewEntry],
        level: ConsistencyLevel,
        *,
        expected_term: Term | None = None,
        deadline: float | None = None,
    ) -> ReplicateStages:
        """Queue `entries` for the next round; see `Consensus.replicate`."""
        item = ReplicateItem(entries, level, expected_term)
        if not self._admits(item):
            return item.stages
        if deadline is not None:
            loop = asyncio.get_running_loop()
            item.expire_with(loop.call_at(deadline, self._on_deadline, item))
        # Whoever waits already goes first, also before its fiber has taken its first step.
        units = 0 if self._waiting else self._budget.try_acquire(max(item.size, 1))
        if units:
            self._enqueue(item, units)
        else:
            self._waiting[item] = None
            self._context.gate.spawn(self._enqueue_in_turn(item), name="batcher-wait")
        return item.stages

    def fail_pending(self, error: RaftError) -> None:
        """Leadership has ended: end every item that has not been answered."""
        for item in [*self._waiting, *self._items, *self._in_round]:
            item.fail(error)

    def _admits(self, item: ReplicateItem) -> bool:
        state = self._context.state
        if state.is_leader and item.expected_term in (None, state.term):
            return True
        item.fail(NotLeaderError(f"not the leader of {self._context.group} in term {item.expected_term or state.term}"))
        return False

    def _on_deadline(self, item: ReplicateItem) -> None:
        self._context.probe.replicate_timeouts += 1
        item.fail(ReplicateTimedOutError("the deadline passed before the level was reached"))

    async def _enqueue_in_turn(self, item: ReplicateItem) -> None:
        try:
            units = await self._budget.acquire(max(item.size, 1))
        except asyncio.CancelledError:
            item.fail(ShuttingDownError("the replica is being stopped"))
            raise
        finally:
            del self._waiting[item]
        if item.is_done:
            self._budget.release(units)
        else:
            self._enqueue(item, units)

    def _enqueue(self, item: ReplicateItem, units: int) -> None:
        item.units = units
        item.mark_enqueued()
        self._items.append(item)
        # One pending flush takes every item cached before it runs; a second one would find nothing.
        if not self._flush_pending:
            self._flush_pending = True
            self._context.gate.spawn(self._flush(), name="batcher")

    async def _flush(self) -> None:
        async with self._context.op_lock:
            self._flush_pending = False
            items, self._items = self._items, []
            # Leadership is checked after the lock: a vote may have deposed us while we waited for it.
            self._in_round = [item for item in items if not item.is_done and self._admits(item)]
            try:
                if self._in_round:
                    await self._run_round(self._in_round)
            except asyncio.CancelledError:
                self.fail_pending(ShuttingDownError("the replica is being stopped"))
                raise
            finally:
                self._in_round = []
                self._budget.release(sum(item.units for item in items))

    async def _run_round(self, items: Sequence[ReplicateItem]) -> None:
        context = self._context
        term = context.state.term
        placed = self._place(items, term)
        items = placed.items
        try:
            if placed.entries:
                await ReplicateEntriesStm(context, self._flusher, term, placed.entries, placed.asked).apply()
        except DiskFullError as error:
            # First: stepping down would call the outcome unknown, and nothing of the round stays.
            context.log_state.truncate(placed.entries[0].index)
            self._fail(items, StorageFullError(str(error)))
            context.step_down(f"the disk is full: {error}")
        except StorageError as error:
            self._fail(items, context.fail(error))
        except LeadershipLostError as error:
            self._fail(items, error)
        else:
            self._resolve(items)

    def _place(self, items: Sequence[ReplicateItem], term: Term) -> _Placed:
        """Give every entry its index and offset. Duplicates take none: their result is the original's place."""
        log = self._context.log
        placed = _Placed([], [], None)
        index, offset = Index(log.last_index + 1), log.next_offset
        for item in items:
            first, base_offset = index, offset
            if not self._is_admitted(item):
                continue
            placed.items.append(item)
            if item.result is not None:
                continue
            for new in item.entries:
                if new.kind is EntryKind.DATA:
                    assert isinstance(new.payload, bytearray)
                    stamp(new.payload, offset, term)
                entry = Entry(index, term, new.kind, offset, new.record_count, new.payload)
                self._context.log_state.note(entry)
                placed.entries.append(entry)
                index, offset = Index(index + 1), Offset(offset + new.record_count)
            last = Index(index - 1)
            item.result = ReplicateResult(first, last, base_offset, term)
            if item.level is ConsistencyLevel.QUORUM_ACK:
                placed.asked = (first if placed.asked is None else placed.asked[0], last)
        return placed

    def _is_admitted(self, item: ReplicateItem) -> bool:
        """Whether the item takes part in the round; a duplicate has its result afterwards."""
        for new in item.entries:
            verdict = self._context.log_state.admit(new)
            if isinstance(verdict, RaftError):
                item.fail(verdict)
                return False
            if verdict is not None:
                assert len(item.entries) == 1, "a duplicate is a call of one entry"
                item.result = verdict
        return True

    def _resolve(self, items: Sequence[ReplicateItem]) -> None:
        for item in items:
            if item.level is ConsistencyLevel.QUORUM_ACK:
                self._monitor.add(item)
            else:
                item.succeed()
        # A group of one may have committed while the round was being dispatched.
        self._monitor.on_moved()

    @staticmethod
    def _fail(items: Sequence[ReplicateItem], error: RaftError) -> None:
        for item in items:
            item.fail(error)
