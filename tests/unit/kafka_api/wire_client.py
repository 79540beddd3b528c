"""A Kafka client of a few lines over the generated codec, and a broker of one node to talk to."""

import asyncio
import struct
import threading
from contextlib import asynccontextmanager, suppress

from cluster.commands import BrokerRecord
from kafka_api.options import KafkaOptions
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.codec import decode_response, encode_request
from kafka_api.protocol.messages import (
    CreateTopicsRequest,
    FetchRequest,
    ListOffsetsRequest,
    ProduceRequest,
)
from kafka_api.server import KafkaServer
from runtime.workers import POOL_THREADS, Pool
from tests.unit.cluster.cluster_nodes import Cluster, run, until
from tests.unit.model.record_batches import build_batch

PRODUCE, FETCH, LIST_OFFSETS, CREATE_TOPICS = 7, 12, 9, 7


class Client:
    """One connection. `call` is a request and its response; `send` and `receive` are for pipelining."""

    def __init__(self, reader, writer):
        self._reader = reader
        self._writer = writer
        self._correlation_id = 0
        self._sent = {}

    def send(self, key, version, message):
        """Write a request and return its correlation id."""
        self._correlation_id += 1
        self._sent[self._correlation_id] = (key, version)
        self.write(b"".join(encode_request(key, version, self._correlation_id, "test", message)))
        return self._correlation_id

    def write(self, data):
        self._writer.write(data)

    async def receive_frame(self):
        """Return the next response frame; raises IncompleteReadError or ConnectionError at the end."""
        (length,) = struct.unpack(">i", await self._reader.readexactly(4))
        return await self._reader.readexactly(length)

    async def receive(self):
        """Return the correlation id and the message of the next response."""
        frame = await self.receive_frame()
        (correlation_id,) = struct.unpack_from(">i", frame)
        return decode_response(*self._sent.pop(correlation_id), frame)

    async def call(self, key, version, message):
        correlation_id = self.send(key, version, message)
        answered, response = await self.receive()
        assert answered == correlation_id
        return response

    async def is_closed(self):
        """Wait until the broker ends the connection without another byte."""
        try:
            return await self._reader.read(1) == b""
        except ConnectionError:
            return True

    async def close(self):
        self._writer.transport.abort()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    # -- requests that most tests need --------------------------------------------------------------------------

    async def create_topic(self, name, partitions=1, **configs):
        topic = CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        (result,) = (await self.call(ApiKey.CREATE_TOPICS, CREATE_TOPICS, request)).topics
        assert result.error_code == 0, result.error_message
        return result.topic_id

    async def produce(self, topic, batch=None, *, version=PRODUCE, **fields):
        """Return the result of the one partition."""
        request = produce_request(topic, build_batch() if batch is None else batch, **fields)
        return (await self.call(ApiKey.PRODUCE, version, request)).responses[0].partition_responses[0]

    async def fetch(self, topic, offset, *, version=FETCH, **fields):
        """Return the result of the one partition; answers at once unless told otherwise."""
        response = await self.call(ApiKey.FETCH, version, fetch_request(topic, offset, **fields))
        return response.responses[0].partitions[0]

    async def list_offsets(self, topic, timestamp, *, version=LIST_OFFSETS, partition=0, epoch=-1):
        asked = ListOffsetsRequest.ListOffsetsPartition(
            partition_index=partition, current_leader_epoch=epoch, timestamp=timestamp
        )
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[asked])]
        )
        return (await self.call(ApiKey.LIST_OFFSETS, version, request)).topics[0].partitions[0]


def produce_request(topic, *batches, acks=-1, timeout_ms=10_000, partition=0, topic_id=None, transactional_id=None):
    """One topic; the batches go to partitions `partition`, `partition` + 1, ..."""
    data = ProduceRequest.TopicProduceData(
        name=topic or "",
        partition_data=[
            ProduceRequest.PartitionProduceData(index=number, records=batch)
            for number, batch in enumerate(batches, start=partition)
        ],
    )
    if topic_id is not None:
        data.topic_id = topic_id
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=[data])


def fetch_request(
    topic,
    offset,
    *,
    partition=0,
    max_wait_ms=0,
    min_bytes=1,
    max_bytes=10_000_000,
    partition_max_bytes=1_000_000,
    epoch=-1,
    topic_id=None,
    session_id=0,
    session_epoch=-1,
    isolation_level=0,
):
    asked = FetchRequest.FetchPartition(
        partition=partition,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        partition_max_bytes=partition_max_bytes,
    )
    named = FetchRequest.FetchTopic(topic=topic or "", partitions=[asked])
    if topic_id is not None:
        named.topic_id = topic_id
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        isolation_level=isolation_level,
        topics=[named],
    )


class Broker:
    """A cluster of one with a Kafka listener."""

    def __init__(self, cluster, server, port):
        self.cluster = cluster
        self.node = cluster[1]
        self.server = server
        self.port = port
        self._clients = []

    async def client(self):
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        self._clients.append(client)
        return client

    def partition(self, topic, number=0):
        return self.cluster.leader_of(topic, number)

    async def close(self):
        for client in self._clients:
            await client.close()
        await self.server.stop()
        await self.cluster.stop()


@asynccontextmanager
async def broker_in(directory, *, defaults=None, state=None, raft=None, features=None, founded=None, **options):
    """A broker with raft0 in office and its own address registered; `options` are those of KafkaOptions.

    `founded` is what the version has offered that founded the cluster; None: this one has, with `features`.
    """
    cluster = Cluster(directory, 1, defaults=defaults, state=state, raft=raft, features=features)
    if founded is not None:
        cluster.features = founded
        await cluster.start()
        await cluster.stop()
        cluster.features = features
    node = cluster.make(1)
    await node.start()
    server = KafkaServer(node.env, node, KafkaOptions(**options))
    broker = Broker(cluster, server, await server.start("127.0.0.1", 0))
    try:
        await until(lambda: node.controller.is_in_office)
        node.register(BrokerRecord(1, node.replica.directory_id, "127.0.0.1", broker.port, "r", 1, "a", 2))
        await node.is_registered.wait()
        yield broker
    finally:
        await broker.close()


async def in_office():
    """A coordinator of transactions whose leadership a majority confirms."""
    return True


@asynccontextmanager
async def stuck_disk(broker):
    """Every fsync waits until the event that is yielded is set."""
    release = threading.Event()
    workers = broker.node.env.workers
    blockers = [asyncio.create_task(workers.run(Pool.FSYNC, release.wait)) for _ in range(POOL_THREADS[Pool.FSYNC])]
    await asyncio.sleep(0)
    try:
        yield release
    finally:
        release.set()
        await asyncio.gather(*blockers)


def with_client(path, test, **options):
    """Run `test(broker, client)` against a broker of its own."""

    async def whole():
        async with broker_in(path, **options) as broker:
            await test(broker, await broker.client())

    run(whole)
