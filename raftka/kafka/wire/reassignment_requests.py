"""Partitions that are being moved (KIP-455), which librdkafka does not list."""

from collections.abc import Sequence
from typing import NamedTuple

from raftka.kafka.wire.fields import Reader, i8, i32, uvarint
from raftka.kafka.wire.requests import Request

_NO_TAGS = i8(0)
# All partitions.
_NULL_ARRAY = uvarint(0)


class Reassignment(NamedTuple):
    """A partition that is being moved: the node ids of all its replicas, of those that come, and of those that go."""

    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]


class Reassignments(NamedTuple):
    """The answer: an error code, and each partition that is being moved."""

    code: int
    partitions: Sequence[Reassignment]


def list_reassignments(timeout_ms: int) -> Request[Reassignments]:
    """Ask for all partitions that are being moved."""

    def read_partition(reader: Reader, topic: str) -> Reassignment:
        number = reader.i32()
        replicas, adding, removing = (list(reader.compact_array(reader.i32)) for _ in range(3))
        reader.tags()
        return Reassignment(topic, number, replicas, adding, removing)

    def read_topic(reader: Reader) -> list[Reassignment]:
        name = reader.compact_string()
        found = list(reader.compact_array(lambda: read_partition(reader, name)))
        reader.tags()
        return found

    def read(reader: Reader) -> Reassignments:
        reader.tags()  # of the header
        reader.i32()  # throttle time
        code = reader.i16()
        reader.compact_string()  # error message
        topics = reader.compact_array(lambda: read_topic(reader))
        return Reassignments(code, [each for topic in topics for each in topic])

    return Request(46, 0, _NO_TAGS + i32(timeout_ms) + _NULL_ARRAY + _NO_TAGS, read)
