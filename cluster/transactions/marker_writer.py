"""The ends of transactions at the leaders of partitions: what `write_markers` (52) asks, and who answers it (RFC 0021,
section 5).

A leader that has answered DONE has the marker committed, or has confirmed with a majority that there is nothing to end.
A request names the term of each leader. A copy that comes late, after another leader has said DONE, is refused by its
term; one that comes late to the same leadership is known by the log, or by what the leader remembers of its term.

A message is answered while some of its partitions hang: the sender asks for those again.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from enum import IntEnum
from typing import Annotated

import msgspec

from cluster.partition import Partition
from cluster.partition_manager import PartitionManager
from cluster.producer_errors import InvalidProducerEpochError, MarkerRefusedError
from cluster.transactions.log_state import TransactionalLogState
from model.control_batch import NO_PREPARE, Marker, MarkerType, Prepare, encode_marker
from model.ids import GroupId, Index, Term
from raft.errors import NotLeaderError, RaftError
from raft.replicate_item import ReplicateResult
from rpc.methods import Method
from runtime.clock import WallClock
from storage.errors import StorageError

# Of one message.
TRANSACTIONS_MAX = 64
PARTITIONS_MAX = 1000
# Seconds: a sender asks again.
_TIMEOUT_MAX = 30.0
# So long all partitions of a message are waited for. After that, those that are settled do not wait for the others.
_PATIENCE = 0.5

_Int16 = Annotated[int, msgspec.Meta(ge=0, le=2**15 - 1)]
_Int32 = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Int64 = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class MarkerResult(IntEnum):
    """What became of the marker of one transaction in one partition."""

    # It is committed, or nothing of the transaction is open here and nothing will be.
    DONE = 0
    # Only for an administrator's marker: there is no such transaction.
    NOTHING_OPEN = 1
    # Ask again, at the leader.
    NOT_LEADER = 2
    # Ask again: the outcome is unknown.
    FAILED = 3


class EndingTransaction(msgspec.Struct, frozen=True, array_like=True):
    """One transaction that ends; `partitions` are those that the receiver leads: group, and the term of its leader."""

    producer_id: _Int64
    epoch: _Int16
    is_commit: bool
    coordinator_epoch: _Int32
    prepare_term: _Int64
    prepare_index: _Int64
    partitions: list[tuple[str, _Int64]]


class WriteMarkersRequest(msgspec.Struct, frozen=True, array_like=True):
    """Up to 64 transactions with 1,000 partitions; `timeout`: seconds until it must be answered, at most 30."""

    transactions: Annotated[list[EndingTransaction], msgspec.Meta(max_length=TRANSACTIONS_MAX)]
    timeout: float


class WriteMarkersReply(msgspec.Struct, frozen=True, array_like=True):
    """For each transaction a `MarkerResult` of each of its partitions, in the order of the request."""

    results: list[list[int]]


WRITE_MARKERS = Method(52, "write_markers", WriteMarkersRequest, WriteMarkersReply)


class _SharedLimit:
    """Until when the partitions of one message are waited for: `deadline` (loop time), sooner once one is settled.

    Without that a partition that hangs would hold up the markers of all others in its message.
    """

    def __init__(self, deadline: float) -> None:
        self.deadline = self._end = deadline
        self._now = asyncio.get_running_loop().time
        self._patience_end = self._now() + _PATIENCE
        self._waiting: dict[asyncio.Timeout, None] = {}

    @contextlib.asynccontextmanager
    async def of_one(self) -> AsyncIterator[None]:
        """Raise TimeoutError if the work on one partition takes longer."""
        async with asyncio.timeout_at(self._end) as timeout:
            self._waiting[timeout] = None
            try:
                yield
            finally:
                del self._waiting[timeout]

    def settle(self) -> None:
        """The answer for one partition is there."""
        end = max(self._patience_end, self._now())
        if end < self._end:
            self._end = end
            for timeout in self._waiting:
                if not timeout.expired():
                    timeout.reschedule(end)


class MarkerWriter:
    """At the leaders of partitions."""

    def __init__(self, partitions: PartitionManager, clock: WallClock) -> None:
        self._partitions = partitions
        self._clock = clock

    async def write(self, request: WriteMarkersRequest) -> WriteMarkersReply:
        """Answer for every partition before the request's time is over; never raises.

        After half a second it is FAILED for those that are not settled, if one is: the sender asks again.
        """
        deadline = asyncio.get_running_loop().time() + min(max(0.0, request.timeout), _TIMEOUT_MAX)
        if sum(len(ending.partitions) for ending in request.transactions) > PARTITIONS_MAX:
            # No sender asks for so many: each takes a task here.
            return WriteMarkersReply([[MarkerResult.FAILED] * len(each.partitions) for each in request.transactions])
        asked = [(ending, *place) for ending in request.transactions for place in ending.partitions]
        limit = _SharedLimit(deadline)
        found = iter(await asyncio.gather(*(self._write_one(*each, limit) for each in asked)))
        return WriteMarkersReply([[next(found) for _ in ending.partitions] for ending in request.transactions])

    async def _write_one(self, ending: EndingTransaction, group: str, term: int, limit: "_SharedLimit") -> MarkerResult:
        partition = self._partitions.get(GroupId(group))
        if partition is None or partition.failure is not None:
            return MarkerResult.NOT_LEADER
        try:
            async with limit.of_one():
                result = None
                while result is None:
                    _require_term(partition, Term(term))
                    # A batch or a marker may get its place between the look at what is open and the marker's own place.
                    with contextlib.suppress(MarkerRefusedError, InvalidProducerEpochError):
                        result = await self._end(partition, ending, limit.deadline)
                limit.settle()
                return result
        except NotLeaderError:
            return MarkerResult.NOT_LEADER
        except (RaftError, StorageError, TimeoutError):
            return MarkerResult.FAILED

    async def _end(self, partition: Partition, ending: EndingTransaction, deadline: float) -> MarkerResult | None:
        """End what is open, or return why there is nothing to end; None: the log has changed, so judge it again.

        Raises:
            MarkerRefusedError: Something else is open by now.
            InvalidProducerEpochError: A marker of a later epoch has got its place.
            RaftError, StorageError, TimeoutError: The outcome is unknown.
        """
        term, prepare = partition.leader_epoch, Prepare(ending.prepare_term, ending.prepare_index)
        state, producer_id = partition.transactional, ending.producer_id
        if state is None:
            return MarkerResult.DONE
        if prepare != NO_PREPARE:
            known, placed = state.last_prepare(producer_id)
            if prepare <= known:
                if placed <= partition.commit_index:
                    return MarkerResult.DONE
                await _until_committed(partition, placed, lambda: state.last_prepare(producer_id)[1])
                return None
            if state.fences.was_decided(producer_id, term, prepare):
                await partition.confirm_read(partition.begin_read())
                return MarkerResult.DONE
        now = asyncio.get_running_loop().time
        if not _is_open(state, ending, prepare):
            placed = state.last_marker(producer_id)
            if placed > partition.commit_index:
                # X3 of RFC 0021: without it what it has ended is open again.
                await _until_committed(partition, placed, lambda: state.last_marker(producer_id))
                return None
            if prepare != NO_PREPARE:
                state.fences.fence(producer_id, now())
                state.fences.decide(producer_id, now(), term, prepare)
            # Without a confirmed leadership a deposed leader would say so of an old log.
            await partition.confirm_read(partition.begin_read())
            return MarkerResult.NOTHING_OPEN if prepare == NO_PREPARE else MarkerResult.DONE
        state.fences.fence(producer_id, now())
        batch = encode_marker(_marker(state, ending, prepare), self._clock.now_ms())
        replicated = partition.write_marker(batch, term, deadline).replicated

        def remember(done: "asyncio.Future[ReplicateResult]") -> None:
            if not done.cancelled() and done.exception() is None and prepare != NO_PREPARE:
                state.fences.decide(producer_id, now(), term, prepare)

        # Also if it is committed after this answer was due.
        replicated.add_done_callback(remember)
        await asyncio.shield(replicated)
        return MarkerResult.DONE


def _is_open(state: TransactionalLogState, ending: EndingTransaction, prepare: Prepare) -> bool:
    """Whether the transaction that ends is open. One of a later epoch is another one."""
    transaction = state.transactions.open_of(ending.producer_id)
    if transaction is None:
        return False
    return transaction.epoch == ending.epoch if prepare == NO_PREPARE else transaction.epoch <= ending.epoch


def _marker(state: TransactionalLogState, ending: EndingTransaction, prepare: Prepare) -> Marker:
    transaction = state.transactions.open_of(ending.producer_id)
    assert transaction is not None
    kind = MarkerType.COMMIT if ending.is_commit else MarkerType.ABORT
    place = (ending.coordinator_epoch, transaction.first_offset, prepare)
    return Marker(ending.producer_id, ending.epoch, kind, *place)


def _require_term(partition: Partition, term: Term) -> None:
    if not partition.is_in_office or partition.leader_epoch != term:
        raise NotLeaderError(f"{partition.name} is not led here in term {term}")


async def _until_committed(partition: Partition, index: Index, look: Callable[[], Index]) -> None:
    """Wait until the marker at `index` is committed, or `look` says that it is gone or another one is the newest.

    A leader without followers takes back what its disk refuses, and stays in its term. Then another entry may get the
    index. So the caller judges again.
    """
    changed = asyncio.Event()
    watcher, term = partition.watch(changed.set), partition.leader_epoch
    try:
        while look() == index and partition.commit_index < index:
            changed.clear()
            await changed.wait()
            _require_term(partition, term)
    finally:
        partition.unwatch(watcher)
