"""What raft0's tables take of its state bytes, known without encoding all of them for each command. Pure.

A topic names its replicas by their place in one list, in one byte as long as that list has at most 128 of them. With
more, each place is counted as if it were the last one: then the size is an upper bound.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from cluster.commands import BrokerRecord
from model.ids import Replica

_encoder = msgspec.msgpack.Encoder()
# Format of the state, length of a block.
_FORMAT_BYTES = 1
_LENGTH_BYTES = 4
# Largest number that msgpack writes in so many bytes.
_WIDTHS = ((127, 1), (255, 2), (2**16 - 1, 3), (2**32 - 1, 5))
# By how much counts and headers may grow that are not counted one by one.
_HEADER_BYTES_MAX = 16
_PLACE_BYTES_MAX = 5


class TopicPart(NamedTuple):
    """What one topic adds.

    Attributes:
        size_bytes: Its block, each place in one byte; and what is kept of its moved partitions.
        places: How often it names a replica.
        replicas: Which it names, and how often.
        moved: How many of its partitions were ever moved.
    """

    size_bytes: int
    places: int
    replicas: Counter[Replica]
    moved: int = 0


def topic_part(
    name: str,
    topic_id: str,
    replicas: Sequence[Sequence[Replica]],
    overrides: Mapping[str, str],
    older_producers: int,
    placements: Sequence[bytes] = (),
) -> TopicPart:
    """Measure a topic; the fields are those of a saved one, and what is saved of its moved partitions."""
    saved = (name, topic_id, [[0] * len(partition) for partition in replicas], dict(overrides), older_producers)
    uses = Counter(replica for partition in replicas for replica in partition)
    size_bytes = _LENGTH_BYTES + _encoded(saved) + sum(map(len, placements))
    return TopicPart(size_bytes, uses.total(), uses, len(placements))


def reserve_bytes(changed: object, replicas: Sequence[Sequence[Replica]] = ()) -> int:
    """Return the most that a change can add, whatever is applied before it.

    Args:
        changed: What it adds or replaces, as far as it is no replica.
        replicas: The replicas that it names.
    """
    uses = Counter(replica for partition in replicas for replica in partition)
    pairs = sum(_encoded(tuple(replica)) for replica in uses)
    arrays = _PLACE_BYTES_MAX * len(replicas)
    return _encoded(changed) + pairs + arrays + _PLACE_BYTES_MAX * uses.total() + _HEADER_BYTES_MAX


class ControllerSizes:
    """Sums over all topics."""

    def __init__(self) -> None:
        self._topics = 0
        self._size_bytes = 0
        self._places = 0
        self._replicas: Counter[Replica] = Counter()
        # Partitions that were ever moved.
        self.moved = 0

    def replace(self, before: TopicPart | None, after: TopicPart | None) -> None:
        """One topic has changed; None where there is none."""
        if before is not None:
            self._topics -= 1
            self._size_bytes -= before.size_bytes
            self._places -= before.places
            self._replicas -= before.replicas
            self.moved -= before.moved
        if after is not None:
            self._topics += 1
            self._size_bytes += after.size_bytes
            self._places += after.places
            self._replicas += after.replicas
            self.moved += after.moved

    def total(
        self,
        brokers: Sequence[BrokerRecord],
        next_producer_id: int,
        before: TopicPart | None = None,
        after: TopicPart | None = None,
    ) -> int:
        """Return the state bytes with these brokers, and as if one topic had changed."""
        topics, size, places, replicas = self._topics, self._size_bytes, self._places, self._replicas
        if before is not None or after is not None:
            changed = ControllerSizes()
            changed._topics, changed._size_bytes, changed._places = topics, size, places
            changed._replicas = replicas.copy()
            changed.replace(before, after)
            return changed.total(brokers, next_producer_id)
        head = (list(brokers), next_producer_id, [tuple(replica) for replica in replicas], topics)
        extra = _width(max(0, len(replicas) - 1)) - 1
        return _FORMAT_BYTES + _LENGTH_BYTES + _encoded(head) + size + extra * places


def _encoded(value: object) -> int:
    return len(_encoder.encode(value))


def _width(number: int) -> int:
    return next(width for largest, width in _WIDTHS if number <= largest)
