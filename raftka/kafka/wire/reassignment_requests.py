"""Partitions that are being moved (KIP-455), which librdkafka does not list."""

from collections.abc import Sequence
from typing import NamedTuple

from raftka.kafka.wire.fields import Reader, i8, i32, uvarint
from raftka.kafka.wire.requests import Request

_NO_TAGS = i8(0)
# All partitions.
_NULL_ARRAY = uvarint(0)


class Reassignments(NamedTuple):
    """The answer: an error code, and (topic, number) of each partition that is being moved."""

    code: int
    partitions: Sequence[tuple[str, int]]


def list_reassignments(timeout_ms: int) -> Request[Reassignments]:
    """Ask for all partitions that are being moved."""

    def read_partition(reader: Reader) -> int:
        number = reader.i32()
        for _ in range(3):  # replicas: all, added, removed
            reader.compact_array(reader.i32)
        reader.tags()
        return number

    def read_topic(reader: Reader) -> list[tuple[str, int]]:
        name = reader.compact_string()
        found = [(name, number) for number in reader.compact_array(lambda: read_partition(reader))]
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
