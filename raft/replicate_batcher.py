"""Coalesces concurrent `replicate` calls of all levels into few rounds, bounded in bytes.

Whatever arrives while a round is being written forms the next round: the batch grows by itself while the disk is
busy, with no linger to tune. Back-pressure reaches a producer as a wait in `enqueued`. Its batch waits in line, in the
order of the calls, while

    the leader has run too far ahead of its majority, or of its own disk     unreplicated_bytes, unflushed_bytes
    this group's batchers hold too much                                      batcher_bytes
    all groups of the node hold too much, the reserve left out               node_batcher_bytes

and what is not a producer's (barriers, configurations, commands, markers, internal topics) waits only for the last, its
reserve included (counterexample 12).

Source: Redpanda's RFC 20220119 (one path for all levels) and its replicate_batcher.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from model.ids import ConsistencyLevel, Index, Offset, Term
from model.record_batch import stamp
from raft.errors import (
    LeadershipLostError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderError,
    RaftError,
    ReadTimedOutError,
    ReplicateTimedOutError,
    ShuttingDownError,
    StorageFullError,
)
from raft.linearizable_barrier import LinearizableBarrier
from raft.replica_context import ReplicaContext
from raft.replica_flusher import ReplicaFlusher
from raft.replicate_entries_stm import ReplicateEntriesStm
from raft.replicate_item import NewEntry, ReplicateItem, ReplicateResult, ReplicateStages
from raft.replication_monitor import ReplicationMonitor
from runtime.byte_budget import BudgetWaiter, ByteBudget
from storage.entry import Entry, EntryKind
from storage.errors import DiskFullError, RefusedError, StorageError


@dataclass(slots=True)
class _Placed:
    """A round: who takes part, the entries, and the range that waits for a flush."""

    items: list[ReplicateItem]
    entries: list[Entry]
    asked: tuple[Index, Index] | None


class ReplicateBatcher:
    """The leader's queue between `Consensus.replicate` and the rounds."""

    def __init__(
        self,
        context: ReplicaContext,
        flusher: ReplicaFlusher,
        monitor: ReplicationMonitor,
        barrier: LinearizableBarrier,
    ) -> None:
        self._context = context
        self._barrier = barrier
        self._flusher = flusher
        self._monitor = monitor
        self._node_budget = context.limits.batcher_budget
        self._budget = ByteBudget(min(context.options.batcher_bytes, self._node_budget.share))
        # Producers' items that have no bytes of the budgets yet, in the order of their calls.
        self._waiting: dict[ReplicateItem, None] = {}
        # Who stands in the node's line: at most the first of `_waiting`, and every urgent item without bytes.
        self._in_line: dict[ReplicateItem, BudgetWaiter] = {}
        self._items: list[ReplicateItem] = []
        # Items whose round is being written: told at once if leadership ends meanwhile.
        self._in_round: list[ReplicateItem] = []
        # Items that are refused once the leadership is confirmed.
        self._in_doubt: dict[ReplicateItem, None] = {}
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
        item = ReplicateItem(entries, level, expected_term, self._context.counts)
        if not self._admits(item):
            return item.stages
        if deadline is not None:
            loop = asyncio.get_running_loop()
            item.expire_with(loop.call_at(deadline, self._on_deadline, item))
        if self._is_producers(item):
            self._waiting[item] = None
            self.admit_waiting()
            if item in self._waiting:
                self._context.probe.producers_held += 1
        else:
            units = self._node_budget.try_acquire(max(item.size, 1), urgent=True)
            if units:
                self._enqueue(item, units)
            else:
                self._stand_in_line(item, item.size, urgent=True)
        return item.stages

    def admit_waiting(self) -> None:
        """Let producers go on in the order of their calls, as far as bounds and budgets allow."""
        while self._waiting:
            item = next(iter(self._waiting))
            if self._in_line or self._is_held():
                return
            units = self._budget.try_acquire(max(item.size, 1))
            if not units:
                return
            if not self._node_budget.try_acquire(units):
                self._budget.release(units)
                self._stand_in_line(item, units, urgent=False)
                return
            del self._waiting[item]
            self._enqueue(item, units)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is on its way into the log."""
        return not (self._waiting or self._in_line or self._items or self._in_round)

    def fail_pending(self, error: RaftError) -> None:
        """Leadership has ended: end every item that has not been answered."""
        self.fail_waiting(error)
        for item in [*self._items, *self._in_round]:
            item.fail(error)
        for item in self._in_doubt:
            item.fail(NotLeaderError(f"nothing was written: {error}"))

    def fail_waiting(self, error: RaftError) -> None:
        """End every item that has no place in the order yet: nothing of it will be written."""
        for item in [*self._waiting, *self._in_line]:
            item.fail(error)
        self._waiting.clear()
        waiters = list(self._in_line.values())
        self._in_line.clear()
        self._node_budget.forget(waiters)

    def close(self, error: RaftError) -> None:
        """No fiber runs any more: end what they have left, and give back what it holds."""
        self.fail_pending(error)
        self._release(self._items)
        self._items = []

    def _is_producers(self, item: ReplicateItem) -> bool:
        return item.is_data and not self._context.is_internal and not item.is_urgent

    def _is_held(self) -> bool:
        context = self._context
        return (
            context.state.unreplicated.total >= context.options.unreplicated_bytes
            or context.log.unflushed_bytes >= context.options.unflushed_bytes
        )

    def _admits(self, item: ReplicateItem) -> bool:
        refusal = self._refusal(item)
        if refusal is not None:
            item.fail(refusal)
        return refusal is None

    def _refusal(self, item: ReplicateItem) -> RaftError | None:
        """Return why nothing of the item may be written now."""
        context, state = self._context, self._context.state
        if not state.is_leader or item.expected_term not in (None, state.term):
            return NotLeaderError(f"not the leader of {context.name} in term {item.expected_term or state.term}")
        if not self._is_producers(item):
            return None
        disk = context.limits.disk
        if not disk.admits(state.commit_quorums, context.client.is_up):
            return StorageFullError(f"the disks of nodes {list(disk.nodes_below)} are below disk.reserve.bytes")
        if (
            item.level is ConsistencyLevel.QUORUM_ACK
            and state.counts_in_sync
            and not state.has_enough_in_sync(context.now() - context.options.replica_lag_max)
        ):
            return NotEnoughReplicasError(f"{context.name} has fewer replicas in sync than min.insync.replicas")
        return None

    def _on_deadline(self, item: ReplicateItem) -> None:
        self._context.probe.replicate_timeouts += 1
        # Held or in line it would keep its batch in memory, while its client sends the next.
        self._waiting.pop(item, None)
        waiter = self._in_line.pop(item, None)
        if item.result is not None and self._context.state.commit_index >= item.result.last_index:
            item.fail(NotEnoughReplicasAfterAppendError("committed, but not on as many replicas as the answer needs"))
        else:
            item.fail(ReplicateTimedOutError("the deadline passed before the level was reached"))
        if waiter is not None:
            self._node_budget.forget([waiter])
            self.admit_waiting()

    def _stand_in_line(self, item: ReplicateItem, size: int, *, urgent: bool) -> None:
        def go_on() -> None:
            units = self._in_line.pop(item).units
            if not urgent:
                del self._waiting[item]
                # The group's bytes were free when it went into line, and nobody overtakes the first in line.
                taken = self._budget.try_acquire(units)
                assert taken == units
            self._enqueue(item, units)
            self.admit_waiting()

        self._in_line[item] = self._node_budget.wait(max(size, 1), go_on, urgent=urgent)

    def _enqueue(self, item: ReplicateItem, units: int) -> None:
        # Section 9: an item takes its bytes once, and gives them back once.
        assert units > 0
        assert not item.units
        item.units = units
        item.mark_enqueued()
        self._items.append(item)
        # One pending flush takes every item cached before it runs; a second one would find nothing.
        if not self._flush_pending:
            self._flush_pending = True
            self._context.gate.spawn(self._flush(), name="batcher")

    def _release(self, items: Sequence[ReplicateItem]) -> None:
        self._budget.release(sum(item.units for item in items if self._is_producers(item)))
        self._node_budget.release(sum(item.units for item in items))

    async def _flush(self) -> None:
        async with self._context.op_lock:
            self._flush_pending = False
            # One round at a time: who is told of the end of a leadership is who waits in this one.
            assert not self._in_round
            items, self._items = self._items, []
            # Leadership is checked after the lock: a vote may have deposed us while we waited for it. Without this
            # check the log would get entries of a term that this replica does not lead.
            self._in_round = [item for item in items if not item.is_done and self._admits(item)]
            try:
                if self._in_round:
                    await self._run_round(self._in_round)
            except BaseException:
                # Cancelled, or a mistake of ours that ends the broker: in both cases nobody waits for ever.
                self.fail_pending(ShuttingDownError("the replica is being stopped"))
                raise
            finally:
                self._in_round = []
                self._release(items)
                self.admit_waiting()

    async def _run_round(self, items: Sequence[ReplicateItem]) -> None:
        context = self._context
        term = context.state.term
        placed = self._place(items, term)
        items = placed.items
        try:
            if placed.entries:
                await ReplicateEntriesStm(context, self._flusher, term, placed.entries, placed.asked).apply()
        except RefusedError as error:
            # First: stepping down would call the outcome unknown, and nothing of the round stays.
            context.log_state.truncate(placed.entries[0].index)
            self._fail(items, StorageFullError(str(error)))
            if isinstance(error, DiskFullError):
                context.limits.disk.on_disk_full(sum(entry.size for entry in placed.entries))
            # A replica alone has nobody to make way for: it goes on serving what it has. Without its barrier it serves
            # nothing: if it did not step down and stand again, nobody would ever write one.
            if context.state.followers or not context.state.is_in_office:
                context.effects.step_down(f"the append was refused: {error}")
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
        index, offset = Index(log.dirty_index + 1), log.next_offset
        refusals: list[tuple[ReplicateItem, RaftError]] = []
        for item in items:
            first, base_offset = index, offset
            refusal = self._judge(item)
            if refusal is not None:
                refusals.append((item, refusal))
                continue
            placed.items.append(item)
            # Only what producers send may be answered without an fsync: terms, configurations and transactions are
            # always durable.
            item.asks_flush = item.level is ConsistencyLevel.QUORUM_ACK and not (
                self._context.state.write_caching and item.is_data and not item.is_durable
            )
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
            if item.asks_flush:
                placed.asked = (first if placed.asked is None else placed.asked[0], last)
        if refusals:
            self._refuse(refusals)
        return placed

    def _judge(self, item: ReplicateItem) -> RaftError | None:
        """Return why the item does not take part in the round; a duplicate that does has its result afterwards."""
        for new in item.entries:
            verdict = self._context.log_state.admit(new)
            if isinstance(verdict, RaftError):
                return verdict
            if verdict is not None:
                assert len(item.entries) == 1, "a duplicate is a call of one entry"
                item.result = verdict
        return None

    def _refuse(self, refusals: Sequence[tuple[ReplicateItem, RaftError]]) -> None:
        """A refusal speaks of the whole log, so it is a read: a deposed leader that does not know it gives none."""
        arrived = self._barrier.arrive()
        for item, _ in refusals:
            item.drop_entries()
            self._in_doubt[item] = None
        self._context.gate.spawn(self._confirm(refusals, arrived), name="refusals")

    async def _confirm(
        self, refusals: Sequence[tuple[ReplicateItem, RaftError]], arrived: asyncio.Future[None]
    ) -> None:
        doubt: RaftError | None = None
        try:
            await self._barrier.wait(arrived)
        except (NotLeaderError, ReadTimedOutError) as error:
            doubt = NotLeaderError(f"refused by a leader that may have been deposed: {error}")
        for item, refusal in refusals:
            del self._in_doubt[item]
            item.fail(doubt or refusal)

    def _resolve(self, items: Sequence[ReplicateItem]) -> None:
        dirty_index = self._context.log.dirty_index
        # Section 4: the end of the leadership answers all that wait. Whoever came later would wait for ever.
        assert self._context.state.is_leader
        for item in items:
            # Who is answered, or waits from now on, has its entries in the log; a duplicate has its original there.
            assert item.result is not None
            assert item.result.last_index <= dirty_index
            item.drop_entries()
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
