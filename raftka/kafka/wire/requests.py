"""Requests, each with the version it is sent in, and how its answer is read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from raftka.kafka.wire.fields import Reader, array, i8, i16, i32, i64, string
from raftka.kafka.wire.record_batches import AbortedTransaction

T = TypeVar("T")

LATEST, EARLIEST = -1, -2


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """One request; `read` turns the body of its answer into what it says."""

    api_key: int
    version: int
    body: bytes
    read: Callable[[Reader], T]


class PartitionState(NamedTuple):
    """One partition, as Metadata tells; leader -1: nobody leads; epoch -1: not told."""

    leader: int
    epoch: int
    replicas: list[int]
    in_sync: list[int]


class Metadata(NamedTuple):
    """What Metadata tells; brokers are (host, port) by node id, partitions by (topic, number)."""

    brokers: dict[int, tuple[str, int]]
    controller: int
    partitions: dict[tuple[str, int], PartitionState]


class Acknowledgement(NamedTuple):
    """The answer to a record; offset -1: not told."""

    error: int
    offset: int


class Fetched(NamedTuple):
    """The answer to a fetch of one partition; `batches` are not decoded. Last stable offset -1: not told."""

    error: int
    high_watermark: int
    batches: bytes
    last_stable: int = -1
    aborted: Sequence[AbortedTransaction] = ()


class OffsetAnswer(NamedTuple):
    """The answer of ListOffsets for one partition; epoch -1: not told."""

    error: int
    offset: int
    epoch: int


class ProducerIdentity(NamedTuple):
    """The answer of InitProducerId."""

    error: int
    id: int
    epoch: int


def metadata(topics: list[str]) -> Request[Metadata]:
    """Ask for brokers, controller and these topics, none of which is created by being asked for."""

    def read_broker(reader: Reader) -> tuple[int, tuple[str, int]]:
        node_id, host, port = reader.i32(), reader.string(), reader.i32()
        reader.string()  # rack
        return node_id, (host, port)

    def read_partition(reader: Reader) -> tuple[int, PartitionState]:
        error, number, leader, epoch = reader.i16(), reader.i32(), reader.i32(), reader.i32()
        replicas, in_sync, _ = (reader.array(reader.i32) for _ in range(3))
        return number, PartitionState(-1 if error else leader, epoch, replicas, in_sync)

    def read(reader: Reader) -> Metadata:
        reader.i32()  # throttle time
        brokers = dict(reader.array(lambda: read_broker(reader)))
        reader.string()  # cluster id
        controller = reader.i32()
        partitions = {}
        for _ in range(reader.i32()):
            reader.i16()  # error: a topic that does not exist has no partitions
            name = reader.string()
            reader.i8()  # is_internal
            for number, state in reader.array(lambda: read_partition(reader)):
                partitions[name, number] = state
        return Metadata(brokers, controller, partitions)

    return Request(3, 7, array(map(string, topics)) + i8(0), read)


def produce(topic: str, partition: int, batch: bytes, acks: int, timeout_ms: int) -> Request[Acknowledgement]:
    """Send one batch; acks is -1, 1 or 0, and 0 is not answered."""
    data = array([string(topic) + array([i32(partition) + i32(len(batch)) + batch])])

    def read(reader: Reader) -> Acknowledgement:
        reader.skip(reader.i32, reader.string, reader.i32, reader.i32)  # one topic, one partition
        return Acknowledgement(reader.i16(), reader.i64())

    return Request(0, 7, string(None) + i16(acks) + i32(timeout_ms) + data, read)


def fetch(
    topic: str,
    partition: int,
    offset: int,
    wait_ms: int,
    max_bytes: int,
    *,
    epoch: int = -1,
    is_committed: bool = False,
) -> Request[Fetched]:
    """Read one partition from an offset on, without a session.

    Only the leader of `epoch` (-1: any) may answer; `is_committed`: not beyond the last stable offset.
    """
    asked = i32(partition) + i32(epoch) + i64(offset) + i64(-1) + i32(max_bytes)
    head = i32(-1) + i32(wait_ms) + i32(1) + i32(max_bytes) + i8(is_committed) + i32(0) + i32(-1)

    def read(reader: Reader) -> Fetched:
        reader.i32()  # throttle time
        error = reader.i16()
        reader.i32()  # session id
        if reader.i32() == 0:  # topics
            return Fetched(error or -1, -1, b"")
        reader.skip(reader.string, reader.i32, reader.i32)
        error = error or reader.i16()
        high_watermark, last_stable = reader.i64(), reader.i64()
        reader.i64()  # start of the log
        aborted = reader.array(lambda: AbortedTransaction(reader.i64(), reader.i64()))
        reader.i32()  # preferred replica
        return Fetched(error, high_watermark, reader.data(), last_stable, aborted)

    return Request(1, 11, head + array([string(topic) + array([asked])]) + array([]) + string(""), read)


def list_offsets(topic: str, partition: int, timestamp: int, *, is_committed: bool = False) -> Request[OffsetAnswer]:
    """Ask for the offset at a timestamp, LATEST or EARLIEST; `is_committed`: as readers at read_committed see it."""
    asked = i32(partition) + i32(-1) + i64(timestamp)

    def read(reader: Reader) -> OffsetAnswer:
        reader.skip(reader.i32, reader.i32, reader.string, reader.i32, reader.i32)
        error = reader.i16()
        reader.i64()  # timestamp
        return OffsetAnswer(error, reader.i64(), reader.i32())

    return Request(2, 5, i32(-1) + i8(int(is_committed)) + array([string(topic) + array([asked])]), read)


def init_producer_id() -> Request[ProducerIdentity]:
    """Ask for the identity of an idempotent producer."""

    def read(reader: Reader) -> ProducerIdentity:
        reader.i32()  # throttle time
        return ProducerIdentity(reader.i16(), reader.i64(), reader.i16())

    return Request(22, 1, string(None) + i32(60_000), read)


def create_topic(
    name: str, partitions: int, replicas: int, timeout_ms: int, *, validate_only: bool = False
) -> Request[int]:
    """Create a topic, or only ask whether it could be; the answer is an error code."""
    topic = string(name) + i32(partitions) + i16(replicas) + array([]) + array([])

    def read(reader: Reader) -> int:
        reader.skip(reader.i32, reader.i32, reader.string)
        return reader.i16()

    return Request(19, 4, array([topic]) + i32(timeout_ms) + i8(validate_only), read)


def delete_topic(name: str, timeout_ms: int) -> Request[int]:
    """Delete a topic; the answer is an error code."""

    def read(reader: Reader) -> int:
        reader.skip(reader.i32, reader.i32, reader.string)
        return reader.i16()

    return Request(20, 3, array([string(name)]) + i32(timeout_ms), read)
