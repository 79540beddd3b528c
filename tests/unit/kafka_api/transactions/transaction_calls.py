"""A transactional producer of a few lines, as its client sends the requests, and a broker that coordinates it."""

import asyncio
import functools
import inspect
from dataclasses import dataclass

from cluster.transactions.transactions_topic import TRANSACTIONS_TOPIC, transactions_partition
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    WriteTxnMarkersRequest,
)
from kafka_api.transactions.options import TransactionOptions
from model.control_batch import decode_marker
from model.features import MEMBERSHIP, TRANSACTION_VERSION, LevelRange
from model.record_batch import read_header
from tests.unit.cluster.cluster_nodes import run
from tests.unit.kafka_api.wire_client import broker_in, produce_request
from tests.unit.model.record_batches import TRANSACTIONAL, build_batch

# Of Produce: from 12 on the broker adds partitions to transactions (KIP-890).
PLAIN_PRODUCE, ADDING_PRODUCE = 11, 12
PLAIN_END, RAISING_END = 4, 5


def features(level=2):
    """What brokers offer; a new cluster begins at the highest level."""
    return {MEMBERSHIP: LevelRange(0, 1), TRANSACTION_VERSION: LevelRange(0, level)}


QUICK = TransactionOptions(topic_partitions=2, timeout_check_interval_ms=20)


@dataclass
class Producer:
    """One transactional id as a client of it knows it. `client` is connected with its coordinator.

    `is_raising`: by KIP-890, where Produce adds partitions and each end raises the epoch.
    """

    client: object
    name: str = "sink"
    is_raising: bool = True
    timeout_ms: int = 60_000
    producer_id: int = -1
    epoch: int = -1

    def __post_init__(self):
        self.sequences = {}

    async def find(self, version=6):
        request = FindCoordinatorRequest(key=self.name, key_type=1, coordinator_keys=[self.name])
        answer = await self.client.call(ApiKey.FIND_COORDINATOR, version, request)
        return answer.coordinators[0] if version >= 4 else answer

    async def init_once(self, version=5, *, timeout_ms=None, known=(-1, -1), name=None):
        """Return the answer to one InitProducerId."""
        request = InitProducerIdRequest(
            transactional_id=self.name if name is None else name,
            transaction_timeout_ms=self.timeout_ms if timeout_ms is None else timeout_ms,
            producer_id=known[0],
            producer_epoch=known[1],
        )
        return await self.client.call(ApiKey.INIT_PRODUCER_ID, version, request)

    async def init(self, version=5, **fields):
        """Become the only producer of the id, as soon as the last transaction has ended."""
        again = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
        while (answer := await self.init_once(version, **fields)).error_code in again:
            await asyncio.sleep(0.01)
        assert answer.error_code == 0, ErrorCode(answer.error_code)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences = {}
        return self

    async def add(self, *partitions, version=3, topic="t", **fields):
        """Return the code of AddPartitionsToTxn; all partitions have the same one."""
        codes = await self.add_each(topic, partitions or (0,), version=version, **fields)
        (code,) = set(codes)
        return ErrorCode(code)

    async def add_each(
        self, topic, partitions, *, version=3, epoch=None, name=None, verify_only=False, producer_id=None
    ):
        topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))]
        producer_id = self.producer_id if producer_id is None else producer_id
        epoch, name = self.epoch if epoch is None else epoch, self.name if name is None else name
        if version < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=topics,
            )
            answer = await self.client.call(ApiKey.ADD_PARTITIONS_TO_TXN, version, request)
            results = answer.results_by_topic_v3_and_below
        else:
            one = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                transactional_id=name,
                producer_id=producer_id,
                producer_epoch=epoch,
                verify_only=verify_only,
                topics=topics,
            )
            request = AddPartitionsToTxnRequest(transactions=[one])
            answer = await self.client.call(ApiKey.ADD_PARTITIONS_TO_TXN, version, request)
            results = answer.results_by_transaction[0].topic_results
        return [each.partition_error_code for each in results[0].results_by_partition]

    async def add_offsets(self, group="g", version=4, *, name=None, producer_id=None, epoch=None):
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name if name is None else name,
            producer_id=self.producer_id if producer_id is None else producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            group_id=group,
        )
        return ErrorCode((await self.client.call(ApiKey.ADD_OFFSETS_TO_TXN, version, request)).error_code)

    async def send(self, *values, partition=0, topic="t", client=None):
        """Append one batch, as the client of the protocol does; return its code.

        `client` is connected with the partition's leader.
        """
        is_first = (topic, partition) not in self.sequences
        if not self.is_raising and is_first and (code := await self.add(partition, topic=topic)):
            return code
        version = ADDING_PRODUCE if self.is_raising else PLAIN_PRODUCE
        return await self.produce(partition, *values, version=version, topic=topic, client=client)

    def batch(self, *values, partition=0, topic="t", **fields):
        """The next batch of the producer in a partition, but for `fields`."""
        own = {
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "base_sequence": self.sequences.get((topic, partition), 0),
            "attributes": TRANSACTIONAL,
        }
        return build_batch(*(values or (b"v",)), **own | fields)

    async def produce(self, partition, *values, version=PLAIN_PRODUCE, topic="t", client=None):
        """Return the code of Produce with one batch."""
        values = values or (b"v",)
        first = self.sequences.get((topic, partition), 0)
        batch = self.batch(*values, partition=partition, topic=topic)
        request = produce_request(topic, batch, partition=partition, transactional_id=self.name)
        answer = await (client or self.client).call(ApiKey.PRODUCE, version, request)
        code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        if code is ErrorCode.NONE:
            self.sequences[(topic, partition)] = first + len(values)
        return code

    async def end_once(self, is_commit=True, *, version=None, epoch=None, name=None, producer_id=None):
        """Return the answer to one EndTxn."""
        request = EndTxnRequest(
            transactional_id=self.name if name is None else name,
            producer_id=self.producer_id if producer_id is None else producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            committed=is_commit,
        )
        if version is None:
            version = RAISING_END if self.is_raising else PLAIN_END
        return await self.client.call(ApiKey.END_TXN, version, request)

    async def end(self, is_commit=True, **fields):
        """End the transaction; an epoch that was raised is the producer's from then on."""
        answer = await self.end_once(is_commit, **fields)
        if not answer.error_code and answer.producer_id >= 0:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences = {}
        return ErrorCode(answer.error_code)

    async def describe(self, name=None):
        request = DescribeTransactionsRequest(transactional_ids=[self.name if name is None else name])
        return (await self.client.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, request)).transaction_states[0]

    async def state(self):
        return (await self.describe()).transaction_state

    async def until_state(self, *states):
        async with asyncio.timeout(10):
            while (state := await self.state()) not in states:
                await asyncio.sleep(0.01)
        return state

    async def write_marker(self, topic, partition, *, version=2, is_commit=False, **producer):
        """Return the code of an administrator's marker for one partition."""
        return (await self.write_markers({topic: [partition]}, version, is_commit=is_commit, **producer))[
            topic, partition
        ]

    async def write_markers(self, topics, version=2, *, is_commit=False, **producer):
        """Return the codes of an administrator's marker for several partitions, by topic and number."""
        wanted = [
            WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=name, partition_indexes=list(numbers))
            for name, numbers in topics.items()
        ]
        marker = WriteTxnMarkersRequest.WritableTxnMarker(transaction_result=is_commit, topics=wanted, **producer)
        answer = await self.client.call(ApiKey.WRITE_TXN_MARKERS, version, WriteTxnMarkersRequest(markers=[marker]))
        return {
            (topic.name, each.partition_index): ErrorCode(each.error_code)
            for topic in answer.markers[0].topics
            for each in topic.partitions
        }

    async def list(self, version=2, **filters):
        request = ListTransactionsRequest(**filters)
        async with asyncio.timeout(10):
            while (answer := await self.client.call(ApiKey.LIST_TRANSACTIONS, version, request)).error_code:
                assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                await asyncio.sleep(0.01)
        return {each.transactional_id: each.transaction_state for each in answer.transaction_states}


async def readable(client, topic="t", partition=0):
    """Return high watermark and last stable offset."""
    result = await client.fetch(topic, 0, partition=partition, isolation_level=1)
    assert result.error_code == 0
    return result.high_watermark, result.last_stable_offset


async def markers(client, topic="t", partition=0):
    """Return the markers in a partition, each as its type and its producer's epoch."""
    result = await client.fetch(topic, 0, partition=partition)
    records, found = bytes(result.records), []
    for position, size in batch_sizes(records):
        batch = records[position : position + size]
        if read_header(batch).is_control:
            marker = decode_marker(batch)
            found.append((marker.type, marker.epoch))
    return found


def batch_sizes(records):
    """Yield where each batch begins, and how many bytes it has."""
    position = 0
    while position < len(records):
        size = 12 + int.from_bytes(records[position + 8 : position + 12], "big")
        yield position, size
        position += size


async def found(producer):
    """Return once the coordinator answers."""
    elsewhere = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    async with asyncio.timeout(10):
        while (await producer.find()).error_code or (await producer.describe()).error_code in elsewhere:
            await asyncio.sleep(0.01)
    return producer


def kept_of(broker, name="sink"):
    """What the broker keeps of the partition of an id, and the id's machine if it is held."""
    topic = broker.node.controller.topics.get(TRANSACTIONS_TOPIC)
    group = topic.group(transactions_partition(name, len(topic.replicas)))
    return broker.server._transactions._active[group]


def let_time_pass(broker, ms, name="sink"):
    """Let the coordinator of an id, which looks for time-outs all the time, be so much later."""
    kept = kept_of(broker, name)
    now_ms = kept.now_ms
    kept.now_ms = kept.timeouts._now_ms = lambda: now_ms() + ms


def with_transactions(options=QUICK, *, level=2, partitions=3, seconds=30, **of_broker):
    """Run a test with a broker, topic "t", and a producer of "sink" whose coordinator is found."""

    def decorate(test):
        @functools.wraps(test)
        def wrapped(tmp_path, **fixtures):
            async def whole():
                async with broker_in(tmp_path, transactions=options, features=features(level), **of_broker) as broker:
                    client = await broker.client()
                    await client.create_topic("t", partitions)
                    producer = await found(Producer(client, is_raising=level == 2))
                    await test(broker, producer, **fixtures)

            run(whole, seconds=seconds)

        # What pytest passes: not the broker and its producer.
        signature = inspect.signature(test)
        own = list(signature.parameters.values())[2:]
        directory = inspect.Parameter("tmp_path", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        wrapped.__signature__ = signature.replace(parameters=[directory, *own])
        return wrapped

    return decorate
