"""The uncommitted part of the producer state: entries of producers, in log order, and the same by producer.

What is known of a producer is looked for here first, then in the table.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cluster.producer_table import PlacedBatch, PlacedMark, Producer
from model.ids import Index

Placed = PlacedBatch | PlacedMark

NO_SEQUENCE = -1


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

    def newest(self, producer_id: int) -> Placed | None:
        """Return a producer's newest entry."""
        of_producer = self._by_producer.get(producer_id)
        return of_producer[-1] if of_producer else None

    def add(self, placed: Placed, producer_id: int) -> None:
        """Take an entry of a producer that got its place at the end of the log."""
        assert not self._entries or self._entries[-1].log_index < placed.log_index, "entries are noted in log order"
        self._entries.append(placed)
        of_producer = self._by_producer.get(producer_id)
        if of_producer is None:
            of_producer = self._by_producer[producer_id] = deque()
        of_producer.append(placed)

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
            producer_id = producer_of(placed)
            of_producer = self._by_producer[producer_id]
            # I2 of RFC 0007: the oldest entry of the log is the oldest of its producer.
            assert of_producer[0] is placed
            of_producer.popleft()
            if not of_producer:
                del self._by_producer[producer_id]
            yield placed

    def clear(self) -> None:
        """Begin from nothing."""
        self._entries.clear()
        self._by_producer.clear()


def producer_of(placed: Placed) -> int:
    """Return whose an entry is."""
    return placed.sequence.producer_id if isinstance(placed, PlacedBatch) else placed.producer_id


class LastKnown(NamedTuple):
    """The newest epoch of a producer; its newest batch in it, None where only a marker has told the epoch."""

    epoch: int
    batch: PlacedBatch | None

    @property
    def sequence(self) -> int:
        """The last sequence number; the next one is 0 without any."""
        return NO_SEQUENCE if self.batch is None else self.batch.sequence.last

    @property
    def term(self) -> int:
        """In which the batch got its place; 0 without one."""
        return 0 if self.batch is None else self.batch.term


def last_known(tail: Sequence[Placed], producer: Producer | None) -> LastKnown | None:
    """Return the newest epoch of a producer, and its newest batch in that epoch.

    Args:
        tail: Its entries that are not committed.
        producer: What committed entries say of it.
    """
    epoch = None
    for placed in reversed(tail):
        if isinstance(placed, PlacedMark):
            epoch = placed.epoch if epoch is None else epoch
        elif epoch in (None, placed.sequence.epoch):
            return LastKnown(placed.sequence.epoch, placed)
        else:
            assert epoch is not None
            return LastKnown(epoch, None)
    if producer is None or epoch not in (None, producer.epoch):
        return None if epoch is None else LastKnown(epoch, None)
    return LastKnown(producer.epoch, producer.batches[-1] if producer.batches else None)
