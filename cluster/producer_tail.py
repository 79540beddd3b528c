"""The uncommitted part of the producer state: entries of producers, in log order, and the same by producer."""

from collections import deque
from collections.abc import Iterator, Sequence

from cluster.producer_table import PlacedBatch, PlacedMark
from model.ids import Index

Placed = PlacedBatch | PlacedMark


class ProducerTail:
    """`add`, `truncate` and `settle` follow the log."""

    def __init__(self) -> None:
        self._entries: deque[Placed] = deque()
        # The same entries by producer; nobody without any.
        self._by_producer: dict[int, deque[Placed]] = {}

    def __iter__(self) -> Iterator[Placed]:
        return iter(self._entries)

    @property
    def producers(self) -> Iterator[int]:
        """Who has an entry here."""
        return iter(self._by_producer)

    def of(self, producer_id: int) -> Sequence[Placed]:
        """Return a producer's entries, oldest first."""
        return self._by_producer.get(producer_id, ())

    def add(self, placed: Placed) -> None:
        """Take an entry that got its place at the end of the log."""
        assert not self._entries or self._entries[-1].log_index < placed.log_index, "entries are noted in log order"
        self._entries.append(placed)
        self._by_producer.setdefault(producer_of(placed), deque()).append(placed)

    def truncate(self, first_removed: Index) -> None:
        """Forget the entries from `first_removed` on."""
        while self._entries and self._entries[-1].log_index >= first_removed:
            placed = self._entries.pop()
            of_producer = self._by_producer[producer_of(placed)]
            # I2 of RFC 0007: the newest entry of the log is the newest of its producer. Otherwise the removed batch
            # would stay here, and its retry would be answered as a duplicate.
            assert of_producer[-1] is placed
            of_producer.pop()
            if not of_producer:
                del self._by_producer[producer_of(placed)]

    def reaches(self, index: Index) -> bool:
        """Whether there is an entry at or below `index`."""
        return bool(self._entries) and self._entries[0].log_index <= index

    def settle(self, index: Index) -> Iterator[Placed]:
        """Take out the entries up to `index`, and yield them in log order."""
        while self._entries and self._entries[0].log_index <= index:
            placed = self._entries.popleft()
            of_producer = self._by_producer[producer_of(placed)]
            # I2 of RFC 0007: the oldest entry of the log is the oldest of its producer.
            assert of_producer[0] is placed
            of_producer.popleft()
            if not of_producer:
                del self._by_producer[producer_of(placed)]
            yield placed

    def clear(self) -> None:
        """Begin from nothing."""
        self._entries.clear()
        self._by_producer.clear()


def producer_of(placed: Placed) -> int:
    """Return whose an entry is."""
    return placed.producer_id if isinstance(placed, PlacedMark) else placed.sequence.producer_id
