"""Committed offsets and group metadata, as the committed records of one partition of `__consumer_offsets` leave them.

The state bytes are the same records once more: format u8 = 1, then key and value, each as u32 length and bytes, first
the groups, then the offsets, each in the order in which they first appeared. So they are the same on every replica.
"""

import struct
from collections.abc import Iterator, Mapping

from cluster.groups.records import (
    CommittedOffset,
    GroupKey,
    Key,
    OffsetKey,
    StoredGroup,
    Value,
    decode_record,
    encode_record,
    encoded_size,
)
from cluster.record_reader import UnreadableRecordError, read_sized_part
from model.key_value_batch import KeyValue
from storage.errors import CorruptLogError

FORMAT_VERSION = 1

_U32 = struct.Struct(">I")
_RECORDS_PER_STEP = 100
# The lengths of key and value.
_FRAMING_BYTES = 2 * _U32.size
# The state bytes of an empty table: the format.
EMPTY_BYTES = 1

_NO_OFFSETS: Mapping[tuple[str, int], CommittedOffset] = {}


class GroupTable:
    """Groups by id, offsets by group and (topic, partition). Written by `apply` and `decode` only.

    Attributes:
        size_bytes: What `encode` yields, in bytes.
        record_count: Groups and offsets together.
    """

    def __init__(self) -> None:
        self._groups: dict[str, StoredGroup] = {}
        self._offsets: dict[str, dict[tuple[str, int], CommittedOffset]] = {}
        self.size_bytes = EMPTY_BYTES
        self.record_count = 0

    def group(self, group_id: str) -> StoredGroup | None:
        """Return the last generation that was stored."""
        return self._groups.get(group_id)

    def offsets(self, group_id: str) -> Mapping[tuple[str, int], CommittedOffset]:
        """Return what a group has committed, by topic and partition."""
        return self._offsets.get(group_id, _NO_OFFSETS)

    def group_ids(self) -> list[str]:
        """Return every group that has metadata or offsets, in the order of their appearance."""
        return list(dict.fromkeys((*self._groups, *self._offsets)))

    def committed_group_ids(self) -> list[str]:
        """Return every group that has offsets, in the order of their first commits."""
        return list(self._offsets)

    def size_of(self, key: Key) -> int:
        """Return what the record of `key` takes of the state bytes; 0 without one."""
        value = self._value(key)
        return 0 if value is None else record_size(key, value)

    def apply(self, key: Key, value: Value | None) -> None:
        """Take one committed record; None deletes."""
        before = self.size_of(key)
        match key, value:
            case GroupKey(), StoredGroup():
                self._groups[key.group] = value
            case GroupKey(), None:
                self._groups.pop(key.group, None)
            case OffsetKey(), CommittedOffset():
                self._offsets.setdefault(key.group, {})[key.topic, key.partition] = value
            case OffsetKey(), _:
                self._remove_offset(key)
        after = self.size_of(key)
        self.size_bytes += after - before
        self.record_count += (after > 0) - (before > 0)

    def _value(self, key: Key) -> Value | None:
        if isinstance(key, GroupKey):
            return self._groups.get(key.group)
        return self._offsets.get(key.group, _NO_OFFSETS).get((key.topic, key.partition))

    def _remove_offset(self, key: OffsetKey) -> None:
        offsets = self._offsets.get(key.group, {})
        offsets.pop((key.topic, key.partition), None)
        if not offsets:
            self._offsets.pop(key.group, None)

    # -- state bytes --------------------------------------------------------------------------------------------

    def encode(self) -> Iterator[bytes]:
        """Yield the state bytes, part by part. The table must not change before the end."""
        yield bytes([FORMAT_VERSION])
        parts: list[bytes] = []
        for record in self._records():
            for data in (record.key, record.value):
                assert data is not None, "what is deleted is not in the table"
                parts += (_U32.pack(len(data)), data)
            if len(parts) >= 4 * _RECORDS_PER_STEP:
                yield b"".join(parts)
                parts.clear()
        yield b"".join(parts)

    def _records(self) -> Iterator[KeyValue]:
        for group_id, group in self._groups.items():
            yield encode_record(GroupKey(group_id), group)
        for group_id, offsets in self._offsets.items():
            for (topic, partition), offset in offsets.items():
                yield encode_record(OffsetKey(group_id, topic, partition), offset)

    def decode(self, state: bytes) -> Iterator[None]:
        """Fill this empty table with what `encode` has yielded, in steps; no bytes at all are an empty table.

        Raises:
            CorruptLogError: Not written by `encode`, or by a newer version.
        """
        if not state:
            return
        if state[0] != FORMAT_VERSION:
            raise CorruptLogError(f"group state of format {state[0]}, this version reads {FORMAT_VERSION}")
        position, number = 1, 0
        while position < len(state):
            key, position = read_sized_part(state, position, "group state")
            value, position = read_sized_part(state, position, "group state")
            try:
                self.apply(*decode_record(KeyValue(key, value)))
            except UnreadableRecordError as error:
                raise CorruptLogError(f"group state cannot be read: {error}") from error
            number += 1
            if number % _RECORDS_PER_STEP == 0:
                yield


def record_size(key: Key, value: Value | None) -> int:
    """Return what a record takes of the state bytes; 0 for one that deletes."""
    return 0 if value is None else _FRAMING_BYTES + encoded_size(key, value)
