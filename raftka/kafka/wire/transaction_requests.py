"""Transactions: ids at their coordinators, producers of partitions, and markers (KIP-664).

librdkafka has no such requests. Kafka knows all of them since 3.0.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from raftka.kafka.wire.fields import Reader, compact_array, compact_string, i8, i16, i32, i64, string
from raftka.kafka.wire.requests import Request

_NO_TAGS = i8(0)
_TRANSACTION = 1

# (topic, number of the partition)
Partition = tuple[str, int]


class Coordinator(NamedTuple):
    """Who coordinates a transactional id; `error` is a code, `address` HOST:PORT."""

    error: int
    message: str
    node_id: int
    address: str


class ListedTransaction(NamedTuple):
    """A transactional id, as the list of its coordinator has it."""

    transactional_id: str
    producer_id: int
    state: str


class TransactionList(NamedTuple):
    """What one broker coordinates; `unknown_states` are filters that it does not know."""

    error: int
    unknown_states: Sequence[str]
    transactions: Sequence[ListedTransaction]


class DescribedTransaction(NamedTuple):
    """A transactional id.

    Attributes:
        error: A code.
        transactional_id: The id.
        state: Kafka's word for it.
        timeout_ms: After so long the coordinator aborts the transaction.
        started_ms: When the transaction began, in ms since 1970; -1: none is open.
        producer_id: Of the producer that may use the id.
        epoch: The epoch of that producer.
        partitions: What the transaction has written to.
    """

    error: int
    transactional_id: str
    state: str
    timeout_ms: int
    started_ms: int
    producer_id: int
    epoch: int
    partitions: Sequence[Partition]


class ActiveProducer(NamedTuple):
    """A producer that a partition remembers.

    Attributes:
        producer_id: Its id.
        epoch: Its epoch.
        last_timestamp: Of its last batch, in ms since 1970; -1: not known.
        coordinator_epoch: Of the last marker; -1: there was none.
        start_offset: Where its open transaction begins; -1: it has none.
    """

    producer_id: int
    epoch: int
    last_timestamp: int
    coordinator_epoch: int
    start_offset: int


class PartitionProducers(NamedTuple):
    """The producers of one partition; `error` is a code."""

    error: int
    message: str
    producers: Sequence[ActiveProducer]


def find_coordinator(transactional_id: str) -> Request[Coordinator]:
    """Ask any broker who coordinates a transactional id."""

    def read(reader: Reader) -> Coordinator:
        reader.i32()  # throttle time
        error, message, node_id = reader.i16(), reader.string(), reader.i32()
        return Coordinator(error, message, node_id, f"{reader.string()}:{reader.i32()}")

    return Request(10, 2, string(transactional_id) + i8(_TRANSACTION), read)


def list_transactions(states: Sequence[str], producer_ids: Sequence[int]) -> Request[TransactionList]:
    """Ask one broker for the ids that it coordinates; filters that are empty let all through."""

    def read_transaction(reader: Reader) -> ListedTransaction:
        found = ListedTransaction(reader.compact_string(), reader.i64(), reader.compact_string())
        reader.tags()
        return found

    def read(reader: Reader) -> TransactionList:
        reader.tags()  # of the header
        reader.i32()  # throttle time
        error, unknown = reader.i16(), reader.compact_array(reader.compact_string)
        return TransactionList(error, unknown, reader.compact_array(lambda: read_transaction(reader)))

    filters = compact_array(map(compact_string, states)) + compact_array(map(i64, producer_ids))
    return Request(66, 0, _NO_TAGS + filters + _NO_TAGS, read)


def describe_transactions(transactional_ids: Sequence[str]) -> Request[Sequence[DescribedTransaction]]:
    """Ask their coordinator for transactional ids."""

    def read_topic(reader: Reader) -> list[Partition]:
        name = reader.compact_string()
        found = [(name, number) for number in reader.compact_array(reader.i32)]
        reader.tags()
        return found

    def read_transaction(reader: Reader) -> DescribedTransaction:
        head = (reader.i16(), reader.compact_string(), reader.compact_string(), reader.i32())
        started_ms, producer_id, epoch = reader.i64(), reader.i64(), reader.i16()
        topics = reader.compact_array(lambda: read_topic(reader))
        reader.tags()
        partitions = [each for topic in topics for each in topic]
        return DescribedTransaction(*head, started_ms, producer_id, epoch, partitions)

    def read(reader: Reader) -> Sequence[DescribedTransaction]:
        reader.tags()  # of the header
        reader.i32()  # throttle time
        return reader.compact_array(lambda: read_transaction(reader))

    return Request(65, 0, _NO_TAGS + compact_array(map(compact_string, transactional_ids)) + _NO_TAGS, read)


def describe_producers(partitions: Sequence[Partition]) -> Request[Mapping[Partition, PartitionProducers]]:
    """Ask a broker for the producers of partitions that have a replica on it."""

    def read_producer(reader: Reader) -> ActiveProducer:
        producer_id, epoch, _ = reader.i64(), reader.i32(), reader.i32()  # last sequence number
        found = ActiveProducer(producer_id, epoch, reader.i64(), reader.i32(), reader.i64())
        reader.tags()
        return found

    def read_partition(reader: Reader) -> tuple[int, PartitionProducers]:
        number, error, message = reader.i32(), reader.i16(), reader.compact_string()
        producers = reader.compact_array(lambda: read_producer(reader))
        reader.tags()
        return number, PartitionProducers(error, message, producers)

    def read_topic(reader: Reader) -> dict[Partition, PartitionProducers]:
        name = reader.compact_string()
        found = {(name, number): each for number, each in reader.compact_array(lambda: read_partition(reader))}
        reader.tags()
        return found

    def read(reader: Reader) -> Mapping[Partition, PartitionProducers]:
        reader.tags()  # of the header
        reader.i32()  # throttle time
        topics = reader.compact_array(lambda: read_topic(reader))
        return {where: each for topic in topics for where, each in topic.items()}

    numbers: dict[str, list[int]] = {}
    for topic, number in partitions:
        numbers.setdefault(topic, []).append(number)
    asked = [compact_string(topic) + compact_array(map(i32, each)) + _NO_TAGS for topic, each in numbers.items()]
    return Request(61, 0, _NO_TAGS + compact_array(asked) + _NO_TAGS, read)


def write_abort_marker(
    partition: Partition, producer_id: int, epoch: int, coordinator_epoch: int
) -> Request[Mapping[Partition, int]]:
    """Have the leader of a partition abort what a producer has open there; the answer is a code by partition."""

    def read_result(reader: Reader) -> tuple[int, int]:
        found = (reader.i32(), reader.i16())
        reader.tags()
        return found

    def read_topic(reader: Reader) -> dict[Partition, int]:
        name = reader.compact_string()
        found = {(name, number): code for number, code in reader.compact_array(lambda: read_result(reader))}
        reader.tags()
        return found

    def read_marker(reader: Reader) -> dict[Partition, int]:
        reader.i64()  # producer id
        topics = reader.compact_array(lambda: read_topic(reader))
        reader.tags()
        return {where: code for topic in topics for where, code in topic.items()}

    def read(reader: Reader) -> Mapping[Partition, int]:
        reader.tags()  # of the header
        markers = reader.compact_array(lambda: read_marker(reader))
        return {where: code for marker in markers for where, code in marker.items()}

    topic = compact_string(partition[0]) + compact_array([i32(partition[1])]) + _NO_TAGS
    marker = i64(producer_id) + i16(epoch) + i8(False) + compact_array([topic]) + i32(coordinator_epoch) + _NO_TAGS
    return Request(27, 1, _NO_TAGS + compact_array([marker]) + _NO_TAGS, read)
