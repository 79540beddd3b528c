"""Committed offsets and group metadata, as the committed records of one partition of `__consumer_offsets` leave them.

The state bytes are the same records once more: format u8 = 1, then key and value, each as u32 length and bytes, first
the groups, then the offsets, each in the order in which they first appeared. So they are the same on every replica.

Format 2 is for partitions that know transactional producers. It has what is pending in open transactions, and at its
end what is known of the producers, in a format of its own (`cluster.producer_table`):

    format u8 = 2 | pending u32 | records u32 | pending offsets | records as in format 1 | producers
    pending offset   producer id i64 | index of its entry i64 | is overtaken u8 | key and value as in format 1
"""

import struct
from collections.abc import Generator, Iterable, Iterator, Mapping

from cluster.groups.pending_offsets import EndOfTransaction, PendingKey, PendingOffsets, TableKey, TableValue
from cluster.groups.records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    StoredGroup,
    decode_record,
    encode_record,
    encoded_size,
)
from cluster.record_reader import UnreadableRecordError, read_part, read_sized_part
from model.ids import NO_INDEX, Index
from model.key_value_batch import KeyValue
from storage.errors import CorruptLogError

FORMAT_WITHOUT_TRANSACTIONS = 1
FORMAT_VERSION = 2

_U32 = struct.Struct(">I")
# Of format 2, behind the format: how many pending offsets, how many records.
_COUNTS = struct.Struct(">II")
# Producer id, index of the entry, whether it is overtaken.
_PENDING = struct.Struct(">qq?")
_WHAT = "group state"
_RECORDS_PER_STEP = 100
# The lengths of key and value.
_FRAMING_BYTES = 2 * _U32.size
# The state bytes of an empty table: the format.
EMPTY_BYTES = 1
# What format 2 takes beside records, pending offsets and producers.
FORMAT_2_BYTES = EMPTY_BYTES + _COUNTS.size

_NO_OFFSETS: Mapping[tuple[str, int], CommittedOffset] = {}


class GroupTable:
    """Groups by id, offsets by group and (topic, partition). Written by `apply` and `decode` only.

    Attributes:
        pending: Offsets of transactions that are open.
        size_bytes: What `encode` yields in format 1, with a row for each pending offset; in bytes.
        record_count: Groups, offsets and pending offsets together.
    """

    def __init__(self) -> None:
        self._groups: dict[str, StoredGroup] = {}
        self._offsets: dict[str, dict[tuple[str, int], CommittedOffset]] = {}
        self.pending = PendingOffsets()
        self.size_bytes = EMPTY_BYTES
        self.record_count = 0

    def group(self, group_id: str) -> StoredGroup | None:
        """Return the last generation that was stored."""
        return self._groups.get(group_id)

    def offsets(self, group_id: str) -> Mapping[tuple[str, int], CommittedOffset]:
        """Return what a group has committed, by topic and partition."""
        return self._offsets.get(group_id, _NO_OFFSETS)

    def group_ids(self) -> list[str]:
        """Return every group that has metadata, offsets or pending ones, in the order of their appearance."""
        return list(dict.fromkeys((*self._groups, *self._offsets, *self.pending.groups())))

    def committed_group_ids(self) -> list[str]:
        """Return every group that has offsets, in the order of their first commits."""
        return list(self._offsets)

    def size_of(self, key: TableKey) -> int:
        """Return what the record of `key` takes of the state bytes; 0 without one."""
        value = self._value(key)
        return 0 if value is None else record_size(key, value)

    def apply(self, key: TableKey, value: TableValue | None, log_index: Index = NO_INDEX) -> None:
        """Take one committed record of an entry; None deletes.

        A pending offset takes the place of none: the former one of its producer was removed, if there was one.
        """
        before = self.size_of(key)
        match key, value:
            case PendingKey(), CommittedOffset() | None:
                self.pending.put(key, value)
            case GroupKey(), StoredGroup():
                self._groups[key.group] = value
            case GroupKey(), None:
                self._groups.pop(key.group, None)
            case OffsetKey(), CommittedOffset():
                self._offsets.setdefault(key.group, {})[key.topic, key.partition] = value
                self.pending.overtake(key, log_index)
            case OffsetKey(), _:
                self._remove_offset(key)
        after = self.size_of(key)
        self.size_bytes += after - before
        self.record_count += (after > 0) - (before > 0)

    def _value(self, key: TableKey) -> TableValue | None:
        if isinstance(key, PendingKey):
            return self.pending.get(key)
        if isinstance(key, GroupKey):
            return self._groups.get(key.group)
        if isinstance(key, EndOfTransaction):
            return None
        return self._offsets.get(key.group, _NO_OFFSETS).get((key.topic, key.partition))

    def _remove_offset(self, key: OffsetKey) -> None:
        offsets = self._offsets.get(key.group, {})
        offsets.pop((key.topic, key.partition), None)
        if not offsets:
            self._offsets.pop(key.group, None)

    # -- state bytes --------------------------------------------------------------------------------------------

    def encode(self, producers: Iterable[bytes] | None = None) -> Iterator[bytes]:
        """Yield the state bytes, part by part. The table must not change before the end.

        Args:
            producers: What is known of transactional producers, for format 2; None: nothing, and nothing is pending.
        """
        assert producers is not None or not self.pending, "what is pending has a producer"
        if producers is None:
            yield bytes([FORMAT_WITHOUT_TRANSACTIONS])
        else:
            counts = (len(self.pending), self.record_count - len(self.pending))
            yield bytes([FORMAT_VERSION]) + _COUNTS.pack(*counts)
        parts: list[bytes] = []
        for part in self._parts():
            parts.append(part)
            if len(parts) >= _RECORDS_PER_STEP:
                yield b"".join(parts)
                parts.clear()
        yield b"".join(parts)
        if producers is not None:
            yield from producers

    def _parts(self) -> Iterator[bytes]:
        for key, value in self.pending:
            is_overtaken = self.pending.is_overtaken(key.place, key.log_index)
            packed = _PENDING.pack(key.producer_id, key.log_index, is_overtaken)
            yield packed + _framed(encode_record(key.place, value))
        for record in self._records():
            yield _framed(record)

    def _records(self) -> Iterator[KeyValue]:
        for group_id, group in self._groups.items():
            yield encode_record(GroupKey(group_id), group)
        for group_id, offsets in self._offsets.items():
            for (topic, partition), offset in offsets.items():
                yield encode_record(OffsetKey(group_id, topic, partition), offset)

    def decode(self, state: bytes) -> Generator[None, None, bytes]:
        """Fill this empty table with what `encode` has yielded, in steps; no bytes at all are an empty table.

        Returns, at its end, what is known of producers; no bytes of a state in format 1.

        Raises:
            CorruptLogError: Not written by `encode`, or by a newer version.
        """
        if not state:
            return b""
        if state[0] not in (FORMAT_WITHOUT_TRANSACTIONS, FORMAT_VERSION):
            raise CorruptLogError(f"{_WHAT} of format {state[0]}, this version reads up to {FORMAT_VERSION}")
        position, pending, records = EMPTY_BYTES, 0, None
        if state[0] == FORMAT_VERSION:
            counts, position = read_part(state, position, _COUNTS.size, _WHAT)
            pending, records = _COUNTS.unpack(counts)
        number = 0
        # Of format 1 the records end with the bytes.
        while position < len(state) if records is None else number < pending + records:
            position = self._decode_row(state, position, is_pending=number < pending)
            number += 1
            if number % _RECORDS_PER_STEP == 0:
                yield
        return state[position:]

    def _decode_row(self, state: bytes, position: int, *, is_pending: bool) -> int:
        """Apply the pending offset or the record at `position`; return where it ends."""
        packed = None
        if is_pending:
            packed, position = read_part(state, position, _PENDING.size, _WHAT)
        key, position = read_sized_part(state, position, _WHAT)
        value, position = read_sized_part(state, position, _WHAT)
        try:
            place, said = decode_record(KeyValue(key, value))
        except UnreadableRecordError as error:
            raise CorruptLogError(f"{_WHAT} cannot be read: {error}") from error
        if packed is None:
            self.apply(place, said)
            return position
        if not isinstance(place, OffsetKey) or not isinstance(said, CommittedOffset):
            raise CorruptLogError(f"{_WHAT} cannot be read: something else than an offset is pending")
        producer_id, index, is_overtaken = _PENDING.unpack(packed)
        self.apply(PendingKey(producer_id, *place, Index(index)), said)
        if is_overtaken:
            # By what is not said any more: nothing that is pending lies between the two.
            self.pending.overtake(place, Index(index))
        return position


def record_size(key: TableKey, value: TableValue | None) -> int:
    """Return what a record takes of the state bytes; 0 for one that deletes."""
    if value is None:
        return 0
    assert not isinstance(key, EndOfTransaction), "it has no value"
    if isinstance(key, PendingKey):
        return _PENDING.size + _FRAMING_BYTES + encoded_size(key.place, value)
    return _FRAMING_BYTES + encoded_size(key, value)


def _framed(record: KeyValue) -> bytes:
    key, value = record.key, record.value
    assert value is not None, "what is deleted is not in the table"
    return b"".join((_U32.pack(len(key)), key, _U32.pack(len(value)), value))
