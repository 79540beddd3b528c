"""A coordinator's table behind the log of its partition: of groups and offsets, or of transactional ids.

    note       the records of an entry are decoded and wait     truncate   those of removed entries are forgotten
    commit     they change the table, in log order              snapshot, restore   the table as bytes

What an entry does to the table may be something else than its records say (`effects`), and more than them
(`settle_beside`): it may depend on what lies before it in the log, and on nothing else.

Every replica keeps it up to date, so that the next coordinator has nothing to read. Nothing uncommitted is ever seen.
But what is noted counts where the leader admits an entry: the table must have room for all that lies in the log.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from cluster.noted_sizes import NotedSizes
from cluster.record_reader import UnreadableRecordError
from cluster.state_bounds import Fill, StateBound, StateFullError
from model.ids import NO_INDEX, Index, Term
from model.key_value_batch import KeyValue, read_key_values
from model.record_codec import CorruptRecordsError
from raft.errors import RaftError
from raft.replicate_item import NewEntry, ReplicateResult
from storage.entry import Buffer, Entry, EntryKind

_logger = logging.getLogger("cluster")

# Records that entries change in one step beside their own: two or three milliseconds' work.
_CHANGES_PER_STEP = 200

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Records = Sequence[tuple[K, V | None]]


class Place(NamedTuple):
    """Where a record lies in the log."""

    log_index: Index
    term: Term


class StateTable(Protocol):
    """What committed records have left; beside these methods it is a `noted_sizes.SizedTable`."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all records."""
        ...

    @property
    def record_count(self) -> int:
        """How many records there are."""
        ...

    def encode(self) -> Iterator[bytes]:
        """Yield the state bytes, part by part."""
        ...

    def decode(self, state: bytes) -> Iterator[None]:
        """Fill this empty table with what `encode` has yielded, in steps."""
        ...


T = TypeVar("T", bound=StateTable)


class CoordinatorLogState(ABC, Generic[K, V, T]):
    """A `raft.log_state.LogState`.

    Args:
        new_table: Makes an empty table.
        new_sizes: Counts what is noted, ahead of a table.
        bytes_bound: Of the table's state bytes.
        count_bound: Of its records.

    Attributes:
        table: As of `applied_index`.
        applied_index: The last entry whose records, if it holds any, have changed the table.
        on_applied: Called after each step of that; must not block.
    """

    # The topic, for operators.
    topic: str

    def __init__(
        self,
        new_table: Callable[[], T],
        new_sizes: Callable[[T], NotedSizes[K, V]],
        bytes_bound: StateBound,
        count_bound: StateBound,
    ) -> None:
        self._new_table = new_table
        self._new_sizes = new_sizes
        self._bytes_bound = bytes_bound
        self._count_bound = count_bound
        self.table = new_table()
        self.applied_index = NO_INDEX
        self.on_applied: Callable[[], None] = lambda: None
        # Noted and not committed, oldest first.
        self._tail: deque[tuple[Place, Records[K, V]]] = deque()
        self._ahead = new_sizes(self.table)
        # What was admitted last, which is noted next: its records need not be decoded twice.
        self._admitted: tuple[Buffer, Records[K, V]] | None = None
        self._waiters: list[tuple[Index, asyncio.Future[None]]] = []

    @abstractmethod
    def decode_record(self, record: KeyValue) -> tuple[K, V | None]:
        """Read one record.

        Raises:
            UnreadableRecordError: Of another version, or damaged.
        """

    @abstractmethod
    def apply(self, key: K, value: V | None, place: Place) -> None:
        """Let one committed record change the table."""

    def may_add(self, records: Sequence[tuple[K, V | None]]) -> int | None:
        """Return up to how many bytes the table may have behind these records; None: up to its bound."""
        return None

    def judge_more(self, effects: Records[K, V]) -> StateFullError | None:
        """Return why these effects are refused, by another bound than those of all tables; None: they are not."""
        return None

    def effects(self, payload: Buffer, records: Records[K, V], index: Index) -> Records[K, V]:
        """Return what an entry with these records does to the table, behind all that is noted.

        Args:
            payload: Of the entry.
            records: That can be read of it.
            index: Of the entry; NO_INDEX where it has no place yet. The sizes of the effects must not depend on it.
        """
        return records

    def on_noted(self, effects: Records[K, V]) -> None:
        """An entry that does this to the table was noted."""

    def on_truncated(self, effects: Records[K, V]) -> None:
        """It is gone."""

    def on_committed(self, effects: Records[K, V]) -> None:
        """The table has it."""

    def settle_beside(self, effects: Records[K, V], room: int) -> int | None:
        """Change in the table what an entry changes beside its own effects, which it is about to take.

        Args:
            effects: Of the entry.
            room: How many records may be changed.

        Returns:
            How many more may be changed; None: that was not all of it, and it goes on in another step.
        """
        return room

    async def wait_applied(self, index: Index) -> None:
        """Return once `index` is applied. The caller bounds the wait with `asyncio.timeout`."""
        if self.applied_index >= index:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((index, waiter))
        try:
            await waiter
        finally:
            self._waiters = [each for each in self._waiters if each[1] is not waiter]

    # -- LogState -----------------------------------------------------------------------------------------------

    def admit(self, entry: NewEntry) -> ReplicateResult | RaftError | None:
        """Refuse what the table would have no room for, behind all that lies in the log; see `state_bounds`."""
        if entry.kind is not EntryKind.DATA:
            return None
        records, ahead = self.decode(entry.payload), self._ahead
        effects = self.effects(entry.payload, records, NO_INDEX)
        size, count = ahead.with_records(effects)
        refusal = self._bytes_bound.judge(ahead.size_bytes, size, allowed=self.may_add(effects))
        refusal = refusal or self._count_bound.judge(ahead.record_count, count) or self.judge_more(effects)
        self._admitted = (entry.payload, records) if refusal is None else None
        return refusal

    def note(self, entry: Entry) -> None:
        """Take an entry that got its place at the end of the log."""
        admitted, self._admitted = self._admitted, None
        if entry.kind is EntryKind.DATA and entry.index > self.applied_index:
            is_admitted = admitted is not None and admitted[0] is entry.payload
            records = admitted[1] if admitted is not None and is_admitted else self.decode(entry.payload)
            effects = self.effects(entry.payload, records, entry.index)
            if effects:
                # G3 of RFC 0009: every replica applies the records in the order of the log.
                assert not self._tail or self._tail[-1][0].log_index < entry.index
                self._tail.append((Place(entry.index, entry.term), effects))
                self._ahead.note(effects)
                self.on_noted(effects)

    def truncate(self, first_removed: Index) -> None:
        """Forget the records of the entries from `first_removed` on; none of them is committed."""
        while self._tail and self._tail[-1][0].log_index >= first_removed:
            _, effects = self._tail.pop()
            self._ahead.truncate(effects)
            self.on_truncated(effects)

    def commit(self, index: Index) -> None:
        """Apply everything up to `index`."""
        while self.commit_some(index) < index:
            pass

    def commit_some(self, index: Index) -> Index:
        """As `raft.log_state.PacedLogState` has it."""
        room = _CHANGES_PER_STEP
        while self._tail and self._tail[0][0].log_index <= index:
            place, records = self._tail[0]
            left = self.settle_beside(records, room)
            if left is None:
                index = Index(place.log_index - 1)
                break
            room = left
            self._tail.popleft()
            # G3 of RFC 0009: no record changes the table twice.
            assert place.log_index > self.applied_index
            for key, value in records:
                self._ahead.commit(key)
                self.apply(key, value, place)
            self.on_committed(records)
        # B2 of RFC 0008: what is counted ahead is what the table has once all of it is applied.
        assert self._tail or self._ahead.size_bytes == self.table.size_bytes
        assert self._tail or self._ahead.record_count == self.table.record_count
        self._advance_applied(index)
        return index

    def fills(self) -> list[Fill]:
        """Return how full the table is, by each of its bounds; what is noted counts."""
        return [self._bytes_bound.fill(self._ahead.size_bytes), self._count_bound.fill(self._ahead.record_count)]

    def snapshot(self) -> Iterator[bytes]:
        """Yield the table as of the last `commit`, part by part."""
        return self.table.encode()

    def restore(self, state: bytes, applied_index: Index) -> Iterator[None]:
        """Begin from a snapshot; entries at or below `applied_index` are in it and are skipped when noted.

        Raises:
            CorruptLogError: The state cannot be read.
        """
        table = self._new_table()
        yield from table.decode(state)
        self._begin(table)
        self._advance_applied(applied_index)

    def reset(self) -> None:
        """Begin from nothing."""
        self._begin(self._new_table())
        self.applied_index = NO_INDEX

    def _begin(self, table: T) -> None:
        self._tail.clear()
        self.table, self._ahead = table, self._new_sizes(table)

    def _advance_applied(self, index: Index) -> None:
        self.applied_index = max(self.applied_index, index)
        for wanted, waiter in self._waiters:
            if wanted <= self.applied_index and not waiter.done():
                waiter.set_result(None)
        self.on_applied()

    def decode(self, batch: Buffer) -> Records[K, V]:
        """Return what can be read: a record of a newer version is skipped, as in Kafka, and so is what clients once
        wrote to a topic of that name. All replicas skip the same."""
        found = []
        try:
            for record in read_key_values(batch):
                try:
                    found.append(self.decode_record(record))
                except UnreadableRecordError as error:
                    _logger.warning("a record of %s is left out: %s", self.topic, error)
        except CorruptRecordsError as error:
            _logger.warning("records of %s are left out: %s", self.topic, error)
        return found
