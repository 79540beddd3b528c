"""Offsets that groups have committed within transactions that are still open (KIP-447).

    batch of a transaction    its offsets are pending, with the index of their entry
    COMMIT                    a pending offset is applied, unless a newer one is there; all of the producer's are gone
    ABORT                     all of the producer's are gone
    plain commit              what is pending at its place is overtaken: COMMIT will not apply it
    deletion                  what is pending at its place is gone, as in Kafka

A newer offset is one whose entry lies behind that of the pending one. A pending offset that is overtaken stays until
its transaction ends: readers that ask for stable offsets wait as long as in Kafka.

A place has the index of its newest offset as long as something is pending there. So a plain commit of it costs the
same, however many producers wait there. Pure.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from cluster.groups.records import CommittedOffset, Key, OffsetKey, Value
from model.ids import NO_INDEX, Index


class PendingKey(NamedTuple):
    """Whose transaction would commit a position, whose position in what, and the entry that holds it."""

    producer_id: int
    group: str
    topic: str
    partition: int
    log_index: Index

    @property
    def place(self) -> OffsetKey:
        """What the offset is committed for."""
        return OffsetKey(self.group, self.topic, self.partition)


class EndOfTransaction(NamedTuple):
    """What a marker says: the transaction of a producer has ended. Its record has no value."""

    producer_id: int
    is_commit: bool


class PendingOffset(NamedTuple):
    """A position that waits for the end of its transaction, and the entry that holds it."""

    offset: CommittedOffset
    log_index: Index


TableKey = Key | PendingKey | EndOfTransaction
TableValue = Value
Effects = Sequence[tuple[TableKey, TableValue | None]]

_NOTHING: Mapping[OffsetKey, PendingOffset] = {}
_NOBODY: Mapping[int, None] = {}
_NOWHERE: Mapping[OffsetKey, None] = {}


class PendingOffsets:
    """By producer, in the order of their appearance; and by place. Written by `put` and `overtake` only.

    A producer has one pending offset for a place at most: it has one transaction open.
    """

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetKey, PendingOffset]] = {}
        self._producers: dict[OffsetKey, dict[int, None]] = {}
        # Places with something pending; no group without one.
        self._of_group: dict[str, dict[OffsetKey, None]] = {}
        # The entries of the newest offsets of places; only where something is pending, and came before.
        self._newest: dict[OffsetKey, Index] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[PendingKey, CommittedOffset]]:
        for producer_id, pending in self._by_producer.items():
            for place, each in pending.items():
                yield PendingKey(producer_id, *place, each.log_index), each.offset

    def get(self, key: PendingKey) -> CommittedOffset | None:
        """Return what is pending there, if it is of this entry."""
        each = self._by_producer.get(key.producer_id, _NOTHING).get(key.place)
        return each.offset if each is not None and each.log_index == key.log_index else None

    def of_producer(self, producer_id: int) -> Mapping[OffsetKey, PendingOffset]:
        """Return what a producer's transaction would commit, by place."""
        return self._by_producer.get(producer_id, _NOTHING)

    @property
    def producers(self) -> Collection[int]:
        """Return whose transactions would commit something."""
        return self._by_producer.keys()

    def producers_at(self, place: OffsetKey) -> Collection[int]:
        """Return whose transactions would commit a place."""
        return self._producers.get(place, _NOBODY).keys()

    def groups(self) -> list[str]:
        """Return every group with something pending, in the order of their appearance."""
        return list(self._of_group)

    def places(self, group_id: str) -> Collection[OffsetKey]:
        """Return for which places of a group something is pending."""
        return self._of_group.get(group_id, _NOWHERE).keys()

    def is_overtaken(self, place: OffsetKey, log_index: Index) -> bool:
        """Whether a newer offset is there than the pending one of this entry: COMMIT does not apply that."""
        return log_index <= self._newest.get(place, NO_INDEX)

    def overtake(self, place: OffsetKey, log_index: Index) -> None:
        """An offset of this entry was committed for a place."""
        if place in self._producers and log_index > self._newest.get(place, NO_INDEX):
            self._newest[place] = log_index

    def put(self, key: PendingKey, offset: CommittedOffset | None) -> None:
        """Set one in place of what is pending there of its producer; or, with None, remove that if it is of `key`."""
        place = key.place
        if offset is None:
            if self.get(key) is not None:
                self._remove(key.producer_id, place)
            return
        pending = self._by_producer.setdefault(key.producer_id, {})
        self._count += place not in pending
        pending[place] = PendingOffset(offset, key.log_index)
        self._producers.setdefault(place, {})[key.producer_id] = None
        self._of_group.setdefault(key.group, {})[place] = None

    def _remove(self, producer_id: int, place: OffsetKey) -> None:
        self._count -= 1
        pending, producers = self._by_producer[producer_id], self._producers[place]
        del pending[place], producers[producer_id]
        if not pending:
            del self._by_producer[producer_id]
        if producers:
            return
        del self._producers[place]
        self._newest.pop(place, None)
        places = self._of_group[place.group]
        del places[place]
        if not places:
            del self._of_group[place.group]


def effects_of_transactional(producer_id: int, records: Effects, index: Index) -> Effects:
    """Return what a batch of a transaction does, whose entry has this index; it holds offsets and nothing else."""
    return [
        (PendingKey(producer_id, *key, index), value)
        for key, value in records
        if isinstance(key, OffsetKey) and isinstance(value, CommittedOffset)
    ]
