"""Markers on their way: from the coordinator that has decided to the leaders of the partitions (RFC 0021, section 5).

    Markers.send ---- write_markers (52) ----> MarkerWriter, at the leader of each partition

A leader that has answered DONE has the marker committed, or has confirmed with a majority that there is nothing to end.
A request names the term of each leader. A copy that comes late, after another leader has said DONE, is refused by its
term; one that comes late to the same leadership is known by the log, or by what the leader remembers of its term.

A coordinator that was deposed may look the leaders up after its successor has finished, and then name a newer term. So
it confirms its own office between the look-up and the first message. If it led after it had seen those terms, its
successor's messages go to the same terms or to newer ones.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from enum import IntEnum
from typing import Annotated, NamedTuple

import msgspec

from cluster.errors import ClusterError
from cluster.forwarding import Forwarded, Forwarder, NoReplyError
from cluster.leadership import Leadership
from cluster.partition import Partition
from cluster.partition_manager import PartitionManager
from cluster.producer_errors import InvalidProducerEpochError, MarkerRefusedError
from cluster.topic_table import TopicTable
from cluster.transactions.admission import PartitionName
from cluster.transactions.log_state import TransactionalLogState
from model.control_batch import NO_PREPARE, Marker, MarkerType, Prepare, encode_marker
from model.ids import NO_INDEX, GroupId, Index, NodeId, Term
from raft.errors import NotLeaderError, RaftError
from rpc.identity import Peer
from rpc.links import Links
from rpc.methods import Method
from runtime.clock import WallClock
from storage.errors import StorageError

# Of one message.
TRANSACTIONS_MAX = 64
PARTITIONS_MAX = 1000
# Seconds: a sender asks again.
_TIMEOUT_MAX = 30.0

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
    """Up to 64 transactions with 1,000 partitions; `timeout`: for how many seconds the sender waits, at most 30."""

    transactions: Annotated[list[EndingTransaction], msgspec.Meta(max_length=TRANSACTIONS_MAX)]
    timeout: float


class WriteMarkersReply(msgspec.Struct, frozen=True, array_like=True):
    """For each transaction a `MarkerResult` of each of its partitions, in the order of the request."""

    results: list[list[int]]


WRITE_MARKERS = Method(52, "write_markers", WriteMarkersRequest, WriteMarkersReply)


class MarkerWriter:
    """At the leaders of partitions."""

    def __init__(self, partitions: PartitionManager, clock: WallClock) -> None:
        self._partitions = partitions
        self._clock = clock

    async def write(self, request: WriteMarkersRequest) -> WriteMarkersReply:
        """Answer for every partition before the sender's time is over; never raises."""
        deadline = asyncio.get_running_loop().time() + min(max(0.0, request.timeout), _TIMEOUT_MAX)
        if sum(len(ending.partitions) for ending in request.transactions) > PARTITIONS_MAX:
            # No sender asks for so many: each takes a task here.
            return WriteMarkersReply([[MarkerResult.FAILED] * len(each.partitions) for each in request.transactions])
        asked = [(ending, *place) for ending in request.transactions for place in ending.partitions]
        found = iter(await asyncio.gather(*(self._write_one(*each, deadline) for each in asked)))
        return WriteMarkersReply([[next(found) for _ in ending.partitions] for ending in request.transactions])

    async def _write_one(self, ending: EndingTransaction, group: str, term: int, deadline: float) -> MarkerResult:
        partition = self._partitions.get(GroupId(group))
        if partition is None or partition.failure is not None:
            return MarkerResult.NOT_LEADER
        try:
            async with asyncio.timeout_at(deadline):
                result = None
                while result is None:
                    _require_term(partition, Term(term))
                    # A batch or a marker may get its place between the look at what is open and the marker's own place.
                    with contextlib.suppress(MarkerRefusedError, InvalidProducerEpochError):
                        result = await self._end(partition, ending, deadline)
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
        now = asyncio.get_running_loop().time()
        if not _is_open(state, ending, prepare):
            placed = state.last_marker(producer_id)
            if placed > partition.commit_index:
                # X3 of RFC 0021: without it what it has ended is open again.
                await _until_committed(partition, placed, lambda: state.last_marker(producer_id))
                return None
            if prepare != NO_PREPARE:
                state.fences.fence(producer_id, now)
                state.fences.decide(producer_id, now, term, prepare)
            # Without a confirmed leadership a deposed leader would say so of an old log.
            await partition.confirm_read(partition.begin_read())
            return MarkerResult.NOTHING_OPEN if prepare == NO_PREPARE else MarkerResult.DONE
        state.fences.fence(producer_id, now)
        batch = encode_marker(_marker(state, ending, prepare), self._clock.now_ms())
        await partition.write_marker(batch, term, deadline).replicated
        if prepare != NO_PREPARE:
            state.fences.decide(producer_id, asyncio.get_running_loop().time(), term, prepare)
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


class DecidedTransaction(NamedTuple):
    """A transaction whose markers are to be written.

    Attributes:
        producer_id: Whose.
        epoch: The producer's from now on: that of the transaction, or a later one.
        type: COMMIT or ABORT.
        coordinator_epoch: The term of the coordinator's partition, modulo 2^31.
        prepare: The decision; NO_PREPARE for an administrator's marker, which ends exactly a transaction of `epoch`.
        partitions: Where it may be open.
    """

    producer_id: int
    epoch: int
    type: MarkerType
    coordinator_epoch: int
    prepare: Prepare
    partitions: Sequence[PartitionName]


class _Place(NamedTuple):
    """One partition of one of the transactions, with its leader."""

    number: int
    partition: PartitionName
    group: GroupId
    term: Term


class Markers:
    """Sends markers to the leaders, and writes those that are sent here.

    Args:
        links: To the other brokers.
        partitions: Of this node.
        leadership: Who leads which partition.
        topics: The table of topics here.
        self_node: This node.
        clock: For the timestamps of markers.
        catch_up: Makes `topics` as new as raft0's leader knows; raises ClusterError where nobody says how new that is.
        tables_index: Returns raft0's index that `topics` is as of.
    """

    def __init__(
        self,
        links: Links,
        partitions: PartitionManager,
        leadership: Leadership,
        topics: TopicTable,
        self_node: NodeId,
        clock: WallClock,
        catch_up: Callable[[float], Awaitable[None]],
        tables_index: Callable[[], Index],
    ) -> None:
        self._leadership = leadership
        self._topics = topics
        self._forwarder = Forwarder(links, self_node)
        self._catch_up = catch_up
        self._tables_index = tables_index
        # What the table of topics must be as of before a name in it says which partition a transaction has written to.
        self._needed: Index | None = NO_INDEX
        # How often that was raised.
        self._raised = 0
        self.writer = MarkerWriter(partitions, clock)
        links.register_async(WRITE_MARKERS, self._answer)

    async def _answer(self, _: Peer, request: WriteMarkersRequest, __: memoryview) -> WriteMarkersReply:
        return await self.writer.write(request)

    def expect_tables(self, index: Index | None = None) -> None:
        """Send nothing before the table of topics is as of `index`; None: before raft0's leader was asked.

        A topic may be deleted and created again under its name. A leader that asks for a transaction has seen its own
        topic; a new coordinator does not know what the leaders have seen that asked the one before.
        """
        if index is not None and self._needed is not None and index <= self._needed:
            return
        self._needed = None if index is None or self._needed is None else index
        self._raised += 1

    async def send(
        self, decided: Sequence[DecidedTransaction], timeout: float, confirm: Callable[[], Awaitable[bool]]
    ) -> list[dict[PartitionName, MarkerResult]]:
        """Send each marker once; return what became of each, for each transaction. `timeout` is in seconds.

        A partition that was deleted is DONE. Where a result is NOT_LEADER or FAILED, send again: it does no harm.
        Nothing is sent while the table of topics may name partitions that are no more. `confirm` tells whether the
        coordinator still leads at the time of its call; if not, nothing is sent.
        """
        results: list[dict[PartitionName, MarkerResult]] = [
            dict.fromkeys(each.partitions, MarkerResult.NOT_LEADER) for each in decided
        ]
        if not await self._settle_topics(results, timeout):
            return results
        by_node: dict[NodeId, list[_Place]] = {}
        for number, result in enumerate(results):
            for name, found in result.items():
                group = None if found is MarkerResult.DONE else self._group(name)
                leader = None if group is None else self._leadership.leader_of(group)
                if group is not None and leader is not None:
                    by_node.setdefault(leader.node_id, []).append(_Place(number, name, group, Term(leader.term)))
        # Behind the look-up: a term that is heard of after the confirmation may be newer than a successor (the module).
        if not by_node or not await confirm():
            return results
        sent = [
            self._send_some(node, some, decided, results, timeout)
            for node, places in by_node.items()
            for some in _in_messages(places)
        ]
        await asyncio.gather(*sent)
        return results

    async def _settle_topics(self, results: Sequence[dict[PartitionName, MarkerResult]], timeout: float) -> bool:
        """Settle the partitions of deleted topics; return whether each other name is that of the partition to ask."""
        raised = self._raised
        is_old = self._needed is None or self._tables_index() < self._needed
        if not is_old and all(self._group(name) is not None for result in results for name in result):
            return True
        try:
            # This table may be older than the topic: "deleted" would leave the transaction open for ever.
            await self._catch_up(timeout)
        except ClusterError:
            return not is_old
        if self._raised == raised:
            self._needed = NO_INDEX
        for result in results:
            result.update({name: MarkerResult.DONE for name in result if self._group(name) is None})
        return True

    def _group(self, name: PartitionName) -> GroupId | None:
        topic = self._topics.get(name[0])
        return topic.group(name[1]) if topic is not None and 0 <= name[1] < len(topic.replicas) else None

    async def _send_some(
        self,
        node: NodeId,
        places: Sequence[_Place],
        decided: Sequence[DecidedTransaction],
        results: Sequence[dict[PartitionName, MarkerResult]],
        timeout: float,
    ) -> None:
        by_transaction: dict[int, list[_Place]] = {}
        for place in places:
            by_transaction.setdefault(place.number, []).append(place)
        endings = [_ending(decided[number], own) for number, own in by_transaction.items()]
        request = WriteMarkersRequest(endings, timeout)
        sent = [place for own in by_transaction.values() for place in own]
        try:
            reply = await self._forwarder.forward(node, Forwarded(WRITE_MARKERS, request, self.writer.write), timeout)
            codes = [MarkerResult(code) for own in reply.results for code in own]
        except (NoReplyError, ValueError):
            codes = []
        if len(codes) != len(sent):
            codes = [MarkerResult.FAILED] * len(sent)
        for place, code in zip(sent, codes, strict=True):
            results[place.number][place.partition] = code


def _ending(decided: DecidedTransaction, places: Sequence[_Place]) -> EndingTransaction:
    is_commit = decided.type is MarkerType.COMMIT
    return EndingTransaction(
        decided.producer_id,
        decided.epoch,
        is_commit,
        decided.coordinator_epoch,
        *decided.prepare,
        [(place.group, place.term) for place in places],
    )


def _in_messages(places: Sequence[_Place]) -> list[list[_Place]]:
    """Split what one node gets: `places` are in the order of their transactions."""
    messages: list[list[_Place]] = []
    transactions: set[int] = set()
    for place in places:
        is_full = len(transactions | {place.number}) > TRANSACTIONS_MAX
        if not messages or is_full or len(messages[-1]) >= PARTITIONS_MAX:
            messages.append([])
            transactions = set()
        messages[-1].append(place)
        transactions.add(place.number)
    return messages
