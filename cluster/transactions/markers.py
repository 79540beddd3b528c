"""Markers on their way: from the coordinator that has decided to the leaders of the partitions (RFC 0021, section 5).

    Markers.send ---- write_markers (52) ----> MarkerWriter, at the leader of each partition

A coordinator that was deposed may look the leaders up after its successor has finished, and then name a newer term. So
it confirms its own office between the look-up and the first message. If it led after it had seen those terms, its
successor's messages go to the same terms or to newer ones.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import NamedTuple

from cluster.errors import ClusterError
from cluster.forwarding import Forwarded, Forwarder, NoReplyError
from cluster.leadership import Leadership
from cluster.partition_manager import PartitionManager
from cluster.topic_table import TopicTable
from cluster.transactions.admission import PartitionName
from cluster.transactions.marker_writer import (
    PARTITIONS_MAX,
    TRANSACTIONS_MAX,
    WRITE_MARKERS,
    EndingTransaction,
    MarkerResult,
    MarkerWriter,
    WriteMarkersReply,
    WriteMarkersRequest,
)
from model.control_batch import MarkerType, Prepare
from model.ids import NO_INDEX, GroupId, Index, NodeId, Term
from rpc.identity import Peer
from rpc.links import Links
from runtime.clock import WallClock

# Of a sender's time, for the work of a leader: its answer arrives before the sender has given up.
_SHARE_OF_LEADER = 0.8


class Nowhere(Enum):
    """Why the marker of a partition has nobody to go to."""

    # It is elected, as a rule.
    NO_LEADER = 0
    # The table of topics does not know the partition: it was deleted, or the table is too old.
    NO_PARTITION = 1


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

    def way_to(self, name: PartitionName) -> NodeId | Nowhere:
        """Return which node the marker of a partition goes to at the moment."""
        group = self._group(name)
        if group is None:
            return Nowhere.NO_PARTITION
        leader = self._leadership.leader_of(group)
        return Nowhere.NO_LEADER if leader is None else leader.node_id

    async def send(
        self, decided: Sequence[DecidedTransaction], timeout: float, confirm: Callable[[], Awaitable[bool]]
    ) -> list[dict[PartitionName, MarkerResult]]:
        """Send each marker once; return what became of each, for each transaction. `timeout` is in seconds.

        A message to a leader that hangs holds up all results: whoever sends many gives those of one `way_to` at a time.
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
        request = WriteMarkersRequest(endings, _SHARE_OF_LEADER * timeout)
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
    producer, is_commit = (decided.producer_id, decided.epoch), decided.type is MarkerType.COMMIT
    partitions: list[tuple[str, int]] = [(place.group, place.term) for place in places]
    return EndingTransaction(*producer, is_commit, decided.coordinator_epoch, *decided.prepare, partitions)


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
