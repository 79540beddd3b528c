"""The markers of decided transactions, on their way from one coordinator's partition until all of them are written.

    way        where the markers of a partition go: to its leader's node, or nowhere while it has no leader
    errand     markers of one transaction that go one way
    due        decided, and not being sent
    sent       up to 64 errands in one round, several rounds of each way side by side
    paused     some markers are missing: again after 20 ms, 40 ms, and so on up to 1 s

A round is sent as soon as one may be. So a transaction that comes alone waits for nobody, and while leaders are slow
the next rounds grow. Complete is written once all markers of a transaction are there.

A broker that hangs takes requests and answers none. It holds up the rounds of its own way only: a transaction without
markers for it is never behind one of those. An errand looks for its way anew before each round, so what was due to a
broker that hangs goes to the next leader.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from cluster.transactions.admission import PartitionName
from cluster.transactions.marker_writer import TRANSACTIONS_MAX, MarkerResult
from cluster.transactions.markers import DecidedTransaction, Nowhere
from cluster.transactions.records import TopicPartition
from kafka_api.transactions.held_transaction import HeldTransaction
from kafka_api.transactions.transaction_counts import TransactionCounts
from kafka_api.transactions.transaction_events import Markers
from model.ids import NodeId, Term
from runtime.gate import Gate

# Of one way at once: so many messages may lie in the link to a broker that hangs.
_ROUNDS_MAX = 16
_ROUND_TIMEOUT = 5.0
_FIRST_PAUSE = 0.02
_PAUSE_MAX = 1.0

Send = Callable[[Sequence[DecidedTransaction], float], Awaitable[list[dict[PartitionName, MarkerResult]]]]
Way = NodeId | Nowhere


class _Errand(NamedTuple):
    """Markers of one transaction that go one way.

    Attributes:
        held: The transaction.
        markers: With the partitions that lie this way.
        pause: Seconds for which it waited last.
        is_repeated: They were sent before.
    """

    held: HeldTransaction
    markers: Markers
    pause: float
    is_repeated: bool


class _Lane:
    """What goes one way."""

    __slots__ = ("due", "is_looking", "rounds")

    def __init__(self) -> None:
        self.due: deque[_Errand] = deque()
        self.rounds = 0
        self.is_looking = False


class MarkerSender:
    """See the module.

    Args:
        send: `cluster.transactions.markers.Markers.send`; it sends nothing once the coordinator's term is over.
        way_to: `cluster.transactions.markers.Markers.way_to`.
        term: Of the coordinator.
        now_ms: The wall clock.
        gate: Owns the rounds.
        counts: Where markers are counted.
    """

    def __init__(
        self,
        send: Send,
        way_to: Callable[[PartitionName], Way],
        term: Term,
        now_ms: Callable[[], int],
        gate: Gate,
        counts: TransactionCounts,
    ) -> None:
        self._send = send
        self._way_to = way_to
        self._counts = counts
        self._coordinator_epoch = term % 2**31
        self._now_ms = now_ms
        self._gate = gate
        self._lanes: dict[Way, _Lane] = {}
        # The errands that are due, sent or paused of each transaction. With none all its markers are there.
        self._known: dict[str, int] = {}
        self._paused: list[tuple[float, int, _Errand]] = []
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._is_ended = False

    def add(self, held: HeldTransaction) -> None:
        """Send the markers of a decided transaction, unless they are on their way."""
        if self._is_ended or held.transactional_id in self._known:
            return
        markers = held.machine.markers()
        if markers is None:
            # One that is decided without partitions needs no marker, and one whose end was refused has them.
            self._known[held.transactional_id] = 0
            asyncio.get_running_loop().call_later(held.end_pause, self._finish, held)
            return
        self._known[held.transactional_id] = 1
        errand = _Errand(held, markers, held.end_pause, is_repeated=bool(held.end_pause))
        if held.end_pause:
            self._pause(errand)
        else:
            self._go(errand)

    def end(self) -> None:
        """Begin no round any more; those under way send no further message and change nothing."""
        self._is_ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._lanes.clear()
        self._paused.clear()
        self._known.clear()

    # -- rounds -------------------------------------------------------------------------------------------------

    def _go(self, errand: _Errand) -> None:
        """Make it due on its way, in parts if its partitions lie on several."""
        parts = self._parts(errand)
        self._known[errand.held.transactional_id] += len(parts) - 1
        for way, part in parts.items():
            if way is Nowhere.NO_LEADER:
                self._pause(part._replace(pause=_longer(part.pause)))
                continue
            lane = self._lanes.setdefault(way, _Lane())
            lane.due.append(part)
            self._look_soon(way, lane)

    def _parts(self, errand: _Errand) -> dict[Way, _Errand]:
        partitions: dict[Way, list[TopicPartition]] = {}
        for each in errand.markers.partitions:
            partitions.setdefault(self._way_to(each), []).append(each)
        return {way: _only(errand, some) for way, some in partitions.items()}

    def _look_soon(self, way: Way, lane: _Lane) -> None:
        """Begin a round in the loop's next step: what else is decided in this one goes with it."""
        if lane.due and lane.rounds < _ROUNDS_MAX and not lane.is_looking and not self._is_ended:
            lane.is_looking = True
            asyncio.get_running_loop().call_soon(self._begin, way, lane)

    def _begin(self, way: Way, lane: _Lane) -> None:
        lane.is_looking = False
        while not self._is_ended and lane.rounds < _ROUNDS_MAX and (taken := self._take(way, lane)):
            lane.rounds += 1
            self._gate.spawn(self._round(way, lane, taken), name="markers")

    def _take(self, way: Way, lane: _Lane) -> list[_Errand]:
        """Take what is due and still goes this way, 64 at most; the others go theirs."""
        taken: list[_Errand] = []
        while lane.due and len(taken) < TRANSACTIONS_MAX:
            errand = lane.due.popleft()
            if all(self._way_to(each) == way for each in errand.markers.partitions):
                taken.append(errand)
            else:
                self._go(errand)
        return taken

    async def _round(self, way: Way, lane: _Lane, taken: Sequence[_Errand]) -> None:
        for errand in taken:
            if errand.is_repeated:
                self._counts.markers_resent += len(errand.markers.partitions)
            else:
                self._counts.markers_sent += len(errand.markers.partitions)
        try:
            results = await self._send([self._decided(each.markers) for each in taken], _ROUND_TIMEOUT)
        finally:
            lane.rounds -= 1
        if self._is_ended:
            return
        for errand, result in zip(taken, results, strict=True):
            self._go_on(errand, result)
        self._look_soon(way, lane)

    def _decided(self, markers: Markers) -> DecidedTransaction:
        return DecidedTransaction(
            *markers.identity, markers.type, self._coordinator_epoch, markers.prepare, markers.partitions
        )

    def _go_on(self, errand: _Errand, result: Mapping[PartitionName, MarkerResult]) -> None:
        """Try again later what is missing; without anything missing, and no other errand, the transaction ends."""
        held, markers = errand.held, errand.markers
        missing = []
        for each in markers.partitions:
            if result[each] is MarkerResult.DONE:
                held.machine.marker_written(markers.prepare, each)
            else:
                missing.append(each)
        if missing:
            self._pause(_only(errand, missing)._replace(pause=_longer(errand.pause), is_repeated=True))
            return
        self._known[held.transactional_id] -= 1
        if not self._known[held.transactional_id]:
            self._finish(held)

    def _finish(self, held: HeldTransaction) -> None:
        """Write Complete."""
        if self._is_ended:
            return
        del self._known[held.transactional_id]
        held.end_pause = _longer(held.end_pause)
        write = held.machine.complete(self._now_ms())
        if write is not None:
            # If it is refused the owner adds the transaction again.
            held.begin(write)
        elif held.machine.markers() is not None:
            self.add(held)

    # -- pauses -------------------------------------------------------------------------------------------------

    def _pause(self, errand: _Errand) -> None:
        until = asyncio.get_running_loop().time() + errand.pause
        heapq.heappush(self._paused, (until, next(self._numbers), errand))
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
            self._go(heapq.heappop(self._paused)[2])
        self._arm()


def _only(errand: _Errand, partitions: Sequence[TopicPartition]) -> _Errand:
    return errand._replace(markers=errand.markers._replace(partitions=tuple(partitions)))


def _longer(pause: float) -> float:
    return min(_PAUSE_MAX, max(_FIRST_PAUSE, 2 * pause))
