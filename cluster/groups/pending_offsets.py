"""Offsets that groups have committed within transactions that are still open (KIP-447), and what entries do to them.

    batch of a transaction    its offsets are pending, with the index of their entry
    COMMIT                    a pending offset is applied, unless a newer one is there; all of the producer's are gone
    ABORT                     all of the producer's are gone
    plain commit              what is pending at its place is overtaken: COMMIT will not apply it
    deletion                  what is pending at its place is gone, as in Kafka

A newer offset is one whose entry lies behind that of the pending one. A pending offset that is overtaken stays until
its transaction ends: readers that ask for stable offsets wait as long as in Kafka.

What an entry does depends on the entries before it, committed or not. So it is said when the entry gets its place, in
terms of single records, and it is undone with them. Pure.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from cluster.groups.records import CommittedOffset, Key, OffsetKey, Value
from model.ids import Index


class PendingKey(NamedTuple):
    """Whose transaction would commit a position, and whose position in what."""

    producer_id: int
    group: str
    topic: str
    partition: int

    @property
    def place(self) -> OffsetKey:
        """What the offset is committed for."""
        return OffsetKey(self.group, self.topic, self.partition)


class PendingOffset(NamedTuple):
    """A position that waits for the end of its transaction.

    Attributes:
        offset: The position.
        log_index: The entry that holds it.
        is_overtaken: A newer offset is there: COMMIT does not apply this one.
    """

    offset: CommittedOffset
    log_index: Index
    is_overtaken: bool = False


TableKey = Key | PendingKey
TableValue = Value | PendingOffset
Effects = Sequence[tuple[TableKey, TableValue | None]]

_NOTHING: Mapping[OffsetKey, PendingOffset] = {}
_NOBODY: Mapping[int, None] = {}
_NOWHERE: Mapping[OffsetKey, None] = {}


class PendingOffsets:
    """By producer, in the order of their appearance; and by place. Written by `put` only."""

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetKey, PendingOffset]] = {}
        self._producers: dict[OffsetKey, dict[int, None]] = {}
        # Places with something pending; no group without one.
        self._of_group: dict[str, dict[OffsetKey, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[PendingKey, PendingOffset]]:
        for producer_id, pending in self._by_producer.items():
            for place, each in pending.items():
                yield PendingKey(producer_id, *place), each

    def get(self, key: PendingKey) -> PendingOffset | None:
        """Return what is pending there."""
        return self._by_producer.get(key.producer_id, _NOTHING).get(key.place)

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

    def put(self, key: PendingKey, value: PendingOffset | None) -> PendingOffset | None:
        """Set or, with None, remove one; return what was there."""
        before = self.get(key)
        if value is not None:
            self._by_producer.setdefault(key.producer_id, {})[key.place] = value
        if before is None and value is not None:
            self._producers.setdefault(key.place, {})[key.producer_id] = None
            self._of_group.setdefault(key.group, {})[key.place] = None
            self._count += 1
        elif before is not None and value is None:
            self._remove(key)
        return before

    def _remove(self, key: PendingKey) -> None:
        self._count -= 1
        pending, producers = self._by_producer[key.producer_id], self._producers[key.place]
        del pending[key.place], producers[key.producer_id]
        if not pending:
            del self._by_producer[key.producer_id]
        if producers:
            return
        del self._producers[key.place]
        places = self._of_group[key.group]
        del places[key.place]
        if not places:
            del self._of_group[key.group]

    def copy(self) -> "PendingOffsets":
        """Return another one with the same content in the same order."""
        other = PendingOffsets()
        for key, value in self:
            other.put(key, value)
        return other


# -- what entries do; `pending` is what is pending before the entry


def effects_of_plain(records: Effects, pending: PendingOffsets) -> Effects:
    """Return what an entry outside of transactions does."""
    if not pending:
        return records
    effects: list[tuple[TableKey, TableValue | None]] = []
    # An entry may name a place more than once.
    changed: dict[PendingKey, PendingOffset | None] = {}
    for key, value in records:
        effects.append((key, value))
        if isinstance(key, OffsetKey):
            for producer_id in pending.producers_at(key):
                own = PendingKey(producer_id, *key)
                known = changed[own] if own in changed else pending.get(own)
                if known is not None and (value is None or not known.is_overtaken):
                    changed[own] = None if value is None else known._replace(is_overtaken=True)
                    effects.append((own, changed[own]))
    return effects


def effects_of_transactional(producer_id: int, records: Effects, index: Index) -> Effects:
    """Return what a batch of a transaction does, whose entry has this index; it holds offsets and nothing else."""
    return [
        (PendingKey(producer_id, *key), PendingOffset(value, index))
        for key, value in records
        if isinstance(key, OffsetKey) and isinstance(value, CommittedOffset)
    ]


def effects_of_marker(producer_id: int, pending: PendingOffsets, *, is_commit: bool) -> Effects:
    """Return what the end of a producer's transaction does."""
    effects: list[tuple[TableKey, TableValue | None]] = []
    for place, each in pending.of_producer(producer_id).items():
        effects.append((PendingKey(producer_id, *place), None))
        if not is_commit or each.is_overtaken:
            continue
        effects.append((place, each.offset))
        for other_id in pending.producers_at(place):
            other = PendingKey(other_id, *place)
            known = pending.get(other)
            assert known is not None
            if known.log_index < each.log_index and not known.is_overtaken:
                effects.append((other, known._replace(is_overtaken=True)))
    return effects
