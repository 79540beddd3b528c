"""The markers of decided transactions, on their way from one coordinator's partition until all of them are written.

    due        decided, and not being sent        sent      up to 64 in one round, several rounds side by side
    paused     some markers are missing: again after 20 ms, 40 ms, and so on up to 1 s

A round is sent as soon as one may be. So a transaction that comes alone waits for nobody, and while leaders are slow
the next rounds grow. Complete is written once all markers of a transaction are there.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from itertools import count

from cluster.transactions.admission import PartitionName
from cluster.transactions.markers import TRANSACTIONS_MAX, DecidedTransaction, MarkerResult
from cluster.transactions.records import TopicPartition
from kafka_api.transactions.held_transaction import HeldTransaction
from kafka_api.transactions.transaction_counts import TransactionCounts
from kafka_api.transactions.transaction_events import Markers
from model.ids import Term
from runtime.gate import Gate

# At once; a leader that does not answer holds one of them up for the time of a round.
_ROUNDS_MAX = 16
_ROUND_TIMEOUT = 5.0
_FIRST_PAUSE = 0.02
_PAUSE_MAX = 1.0

Send = Callable[[Sequence[DecidedTransaction], float], Awaitable[list[dict[PartitionName, MarkerResult]]]]


class MarkerSender:
    """See the module.

    Args:
        send: `cluster.transactions.markers.Markers.send`; it sends nothing once the coordinator's term is over.
        term: Of the coordinator.
        now_ms: The wall clock.
        gate: Owns the rounds.
        counts: Where markers are counted.
    """

    def __init__(
        self, send: Send, term: Term, now_ms: Callable[[], int], gate: Gate, counts: TransactionCounts
    ) -> None:
        self._send = send
        self._counts = counts
        self._coordinator_epoch = term % 2**31
        self._now_ms = now_ms
        self._gate = gate
        self._due: deque[HeldTransaction] = deque()
        # Those that are due, sent or paused.
        self._known: dict[str, None] = {}
        self._paused: list[tuple[float, int, HeldTransaction]] = []
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._rounds = 0
        self._is_looking = False
        self._is_ended = False

    def add(self, held: HeldTransaction) -> None:
        """Send the markers of a decided transaction, unless they are on their way."""
        if self._is_ended or held.transactional_id in self._known:
            return
        self._known[held.transactional_id] = None
        if held.marker_pause:
            self._pause(held)
        else:
            self._due.append(held)
            self._look_soon()

    def end(self) -> None:
        """Begin no round any more; those under way send no further message and change nothing."""
        self._is_ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due.clear()
        self._paused.clear()
        self._known.clear()

    # -- rounds -------------------------------------------------------------------------------------------------

    def _look_soon(self) -> None:
        """Begin a round in the loop's next step: what else is decided in this one goes with it."""
        if self._due and self._rounds < _ROUNDS_MAX and not self._is_looking and not self._is_ended:
            self._is_looking = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._is_looking = False
        while self._due and self._rounds < _ROUNDS_MAX:
            taken = [self._due.popleft() for _ in range(min(len(self._due), TRANSACTIONS_MAX))]
            self._rounds += 1
            self._gate.spawn(self._round(taken), name="markers")

    async def _round(self, taken: Sequence[HeldTransaction]) -> None:
        found = [(held, held.machine.markers()) for held in taken]
        asked = [(held, markers) for held, markers in found if markers is not None]
        self._count(asked)
        try:
            # One that is decided without partitions needs no marker.
            results = await self._send([self._decided(each) for _, each in asked], _ROUND_TIMEOUT) if asked else []
        finally:
            self._rounds -= 1
        if self._is_ended:
            return
        for (held, markers), result in zip(asked, results, strict=True):
            for name, said in result.items():
                if said is MarkerResult.DONE:
                    held.machine.marker_written(markers.prepare, TopicPartition(*name))
        for held in taken:
            self._go_on(held)
        self._look_soon()

    def _count(self, asked: Sequence[tuple[HeldTransaction, Markers]]) -> None:
        for held, markers in asked:
            # Without a pause it is the first round of this decision.
            if held.marker_pause:
                self._counts.markers_resent += len(markers.partitions)
            else:
                self._counts.markers_sent += len(markers.partitions)

    def _decided(self, markers: Markers) -> DecidedTransaction:
        return DecidedTransaction(
            *markers.identity, markers.type, self._coordinator_epoch, markers.prepare, markers.partitions
        )

    def _go_on(self, held: HeldTransaction) -> None:
        """Write Complete if all markers are there, or try again later."""
        self._known.pop(held.transactional_id, None)
        held.marker_pause = min(_PAUSE_MAX, max(_FIRST_PAUSE, 2 * held.marker_pause))
        write = held.machine.complete(self._now_ms())
        if write is not None:
            # If it is refused the owner adds the transaction again.
            held.begin(write)
        elif held.machine.markers() is not None:
            self.add(held)

    # -- pauses -------------------------------------------------------------------------------------------------

    def _pause(self, held: HeldTransaction) -> None:
        until = asyncio.get_running_loop().time() + held.marker_pause
        heapq.heappush(self._paused, (until, next(self._numbers), held))
        self._arm()

    def _arm(self) -> None:
        if not self._paused:
            return
        at = self._paused[0][0]
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at = at
        self._timer = asyncio.get_running_loop().call_at(at, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._paused and self._paused[0][0] <= now:
            self._due.append(heapq.heappop(self._paused)[2])
        self._arm()
        self._look_soon()
