"""The time-outs of the transactions of one partition of `__transaction_state`.

A transaction that is open for too long is aborted. A deadline is looked at when it has passed. One that was put off
meanwhile is armed anew then.
"""

import heapq
import logging
from collections.abc import Callable, Mapping
from itertools import count

from cluster.transactions.level import transactions_level
from kafka_api.transactions.coordinator_means import CoordinatorMeans
from kafka_api.transactions.held_transaction import HeldTransaction
from kafka_api.transactions.transaction import Transaction
from kafka_api.transactions.transaction_events import Later, Write

# Time-outs of machines that are gone are removed once they are more than those that are held, and this.
_STALE_DEADLINES_MAX = 100
_logger = logging.getLogger("kafka.transactions")


class TransactionTimeouts:
    """See the module.

    Args:
        means: Of the broker.
        now_ms: The wall clock.
        held: The ids that are held, by name; those that are gone from it are not watched any more.
    """

    def __init__(self, means: CoordinatorMeans, now_ms: Callable[[], int], held: Mapping[str, HeldTransaction]) -> None:
        self._means = means
        self._now_ms = now_ms
        self._held = held
        # By the time at which a time-out is looked at; each held id is in it once at most.
        self._deadlines: list[tuple[int, int, HeldTransaction]] = []
        self._numbers = count()
        self._is_ended = False

    def watch(self, held: HeldTransaction) -> None:
        """Abort its transaction at the deadline that its machine has, if any."""
        # Also a write that was under way when the clock went back has a start that is ahead.
        held.machine.clock_shows(self._now_ms())
        deadline = held.machine.deadline_ms
        # One that is armed for an earlier moment is armed anew then.
        if deadline is not None and (held.armed_ms is None or deadline < held.armed_ms):
            self.arm(held, deadline)

    def arm(self, held: HeldTransaction, at_ms: int) -> None:
        """Look at an id at a time, in milliseconds."""
        held.armed_ms = at_ms
        heapq.heappush(self._deadlines, (at_ms, next(self._numbers), held))
        if len(self._deadlines) > 2 * len(self._held) + _STALE_DEADLINES_MAX:
            # A machine that is not held would stay in memory until its time.
            self._deadlines = [each for each in self._deadlines if self._is_armed(each[2], each[0])]
            heapq.heapify(self._deadlines)

    def look(self) -> None:
        """Abort transactions that are open for too long; only a coordinator in office may."""
        now_ms = self._now_ms()
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            at_ms, _, held = heapq.heappop(self._deadlines)
            if not self._is_armed(held, at_ms):
                continue
            held.armed_ms = None
            self._time_out(held, now_ms)

    def clock_went_back(self) -> None:
        """Watch all anew: deadlines of a clock that was ahead would come too late by what it has gone back."""
        for held in self._held.values():
            self.watch(held)

    def end(self) -> None:
        """The term is over."""
        self._is_ended = True
        self._deadlines.clear()

    def _is_armed(self, held: HeldTransaction, at_ms: int) -> bool:
        return held.armed_ms == at_ms and self._held.get(held.transactional_id) is held

    def _time_out(self, held: HeldTransaction, now_ms: int) -> None:
        level = transactions_level(self._means.node)
        outcome = held.machine.time_out(now_ms, level)
        if isinstance(outcome, Write):
            self._note(held)
            held.begin(outcome)
        elif outcome is Later.WAIT:
            self.arm(held, now_ms + self._means.options().busy_wait_ms)
        elif outcome is Later.NEEDS_PRODUCER_ID:
            self._means.gate.spawn(self._time_out_with_new_id(held, level), name="time out")
        else:
            self.watch(held)

    async def _time_out_with_new_id(self, held: HeldTransaction, level: int) -> None:
        def step(machine: Transaction, now_ms: int, fresh_id: int | None) -> Write | Later | None:
            outcome = machine.time_out(now_ms, level, fresh_id)
            if isinstance(outcome, Write):
                self._note(held)
            return outcome

        await held.ask(step)
        if not self._is_ended:
            # Where it was refused, it is tried again.
            self.watch(held)

    def _note(self, held: HeldTransaction) -> None:
        """An abort begins. While no producer id can be had for it nothing is counted."""
        _logger.info("transactional id %s: its transaction has timed out", held.transactional_id[:100])
        self._means.counts.timed_out += 1
