"""Takes a batch of telemetry to the leader of its partition: here, or over the node link.

Not over a Kafka connection: clients may not write to the topic, and the links know who is who. Not only to partitions
that are led here: who leads what changes, and a broker that leads nothing has as much to tell (RFC 0011).
"""

import asyncio

import msgspec

from cluster.forwarding import Forwarded, Forwarder, NoReplyError
from cluster.leadership import Leadership
from cluster.partition_manager import PartitionManager
from cluster.telemetry.telemetry_topic import TELEMETRY_LEVEL, TELEMETRY_TOPIC
from model.ids import GroupId, NodeId, Term
from model.record_batch import MalformedBatchError, check_batch
from raft.errors import RaftError
from rpc.identity import Peer
from rpc.links import Links
from rpc.methods import Method

# A leader takes no more at once, whatever a peer sends.
_BYTES_MAX = 1024 * 1024
_TIMEOUT_MAX = 10.0


class TelemetryError(Exception):
    """A batch was not taken, or nobody said that it was: its figures go into the next records."""


class PublishRequest(msgspec.Struct, frozen=True, array_like=True):
    """A batch for a partition of the topic, the payload; only while its leader's term is `term`.

    `group` is the name of the partition's group on links.

    A request that lay in the buffers of a broker that was stopped for a while, and leads again, comes too late.
    """

    group: str
    term: int
    timeout: float


class PublishReply(msgspec.Struct, frozen=True, array_like=True):
    """`error` is empty where the batch is committed."""

    error: str


PUBLISH_TELEMETRY = Method(24, "publish_telemetry", PublishRequest, PublishReply, takes_payload=True)


class TelemetryRelay:
    """Sends, and answers what others send: also where this broker publishes nothing itself."""

    def __init__(self, links: Links, partitions: PartitionManager, leadership: Leadership, self_node: NodeId) -> None:
        self._forwarder = Forwarder(links, self_node)
        self._partitions = partitions
        self._leadership = leadership
        self._self_node = self_node
        links.register_async(PUBLISH_TELEMETRY, self._answer)

    async def send(self, group: GroupId, batch: bytearray, timeout: float) -> None:
        """Let the leader of `group` append one batch, and wait until it is committed, for at most `timeout` seconds.

        Raises:
            TelemetryError: There is no leader, or it has not said that it is; the batch may be committed all the same.
        """
        leader = self._leadership.leader_of(group)
        if leader is None:
            raise TelemetryError("the partition has no leader")
        request = PublishRequest(self._partitions.link_names.name_of(group), leader.term, timeout)
        publish = Forwarded(PUBLISH_TELEMETRY, request, lambda request: self._append(request, batch), batch)
        try:
            # The leader's own deadline comes first: its answer says more than a timeout.
            reply = await self._forwarder.forward(leader.node_id, publish, timeout + 1.0)
        except NoReplyError as error:
            raise TelemetryError(str(error)) from error
        if reply.error:
            where = "" if leader.node_id == self._self_node else f"node {leader.node_id}: "
            raise TelemetryError(where + reply.error)

    async def _answer(self, _: Peer, request: PublishRequest, payload: memoryview) -> PublishReply:
        if len(payload) > _BYTES_MAX:
            return PublishReply(f"a batch of {len(payload)} bytes, at most {_BYTES_MAX} are taken")
        return await self._append(request, bytearray(payload))

    async def _append(self, request: PublishRequest, batch: bytearray) -> PublishReply:
        """Append a batch to the partition that is led here, and wait until it is committed or that has failed."""
        partition = self._partitions.named(request.group)
        if partition is None or partition.topic.name != TELEMETRY_TOPIC:
            return PublishReply("no such partition of the topic here")
        try:
            header = check_batch(batch)
        except MalformedBatchError as error:
            return PublishReply(str(error))
        deadline = asyncio.get_running_loop().time() + min(max(request.timeout, 0.0), _TIMEOUT_MAX)
        stages = partition.produce(batch, header.record_count, TELEMETRY_LEVEL, deadline, Term(request.term))
        try:
            await stages.replicated
        except RaftError as error:
            return PublishReply(f"{type(error).__name__}: {error}")
        return PublishReply("")
