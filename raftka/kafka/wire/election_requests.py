"""ElectLeaders (KIP-460), which confluent-kafka 2.16 offers and cannot send."""

from collections.abc import Sequence
from typing import NamedTuple

from raftka.kafka.wire.fields import Reader, array, i8, i32, string
from raftka.kafka.wire.requests import Request

_PREFERRED = 0
# All partitions.
_NULL_ARRAY = i32(-1)


class ElectionResult(NamedTuple):
    """What became of one partition: an error code, 0 if its preferred replica was elected, and a text or none."""

    topic: str
    partition: int
    code: int
    message: str


class Elections(NamedTuple):
    """The answer: an error code of the whole request, and the partitions."""

    code: int
    results: Sequence[ElectionResult]


def elect_preferred_leaders(partitions: Sequence[tuple[str, int]] | None, timeout_ms: int) -> Request[Elections]:
    """Ask for the preferred replicas of these partitions; None: of all, and those that need none are left out."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions or ():
        by_topic.setdefault(topic, []).append(number)
    named = array(string(topic) + array(map(i32, numbers)) for topic, numbers in by_topic.items())

    def read_topic(reader: Reader) -> list[ElectionResult]:
        topic = reader.string()
        return reader.array(lambda: ElectionResult(topic, reader.i32(), reader.i16(), reader.string()))

    def read(reader: Reader) -> Elections:
        reader.i32()  # throttle time
        code = reader.i16()
        topics = reader.array(lambda: read_topic(reader))
        return Elections(code, [each for topic in topics for each in topic])

    return Request(43, 1, i8(_PREFERRED) + (_NULL_ARRAY if partitions is None else named) + i32(timeout_ms), read)
