"""The records of `__consumer_offsets` in Kafka's own formats, so that tools can read the topic.

Keys begin with a version that tells what they name: 0 and 1 an offset, 2 a group. Values are written in version 3.

    offset   key    i16 = 1 | group string | topic string | partition i32
             value  i16 = 3 | offset i64 | leader epoch i32 | metadata string | commit timestamp i64
    group    key    i16 = 2 | group string
             value  i16 = 3 | protocol type string | generation i32 | protocol nullable string
                    | leader nullable string | timestamp of the state i64 | members i32, of each:
                      member id string | instance id nullable string | client id string | client host string
                      | rebalance timeout i32 | session timeout i32 | subscription bytes | assignment bytes

Source: Apache Kafka's field tables of OffsetCommitKey and -Value, GroupMetadataKey and -Value (NOTICE).
"""

import struct
from dataclasses import dataclass
from typing import NamedTuple

from cluster.record_reader import STRING_BYTES_MAX, RecordReader, UnreadableRecordError
from model.key_value_batch import KeyValue

_OFFSET_KEY_VERSIONS = (0, 1)
_GROUP_KEY_VERSION = 2
_VALUE_VERSION = 3

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")


class OffsetKey(NamedTuple):
    """Whose position in what."""

    group: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    """Whose metadata."""

    group: str


class CommittedOffset(NamedTuple):
    """A group's position: the next offset to read, -1 as the epoch if the client told none; milliseconds."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int


class StoredMember(NamedTuple):
    """One member of a generation; `subscription` is its metadata for the protocol that was chosen."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A generation with its assignment; without members: an empty group, since `state_timestamp` (milliseconds)."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp: int
    members: tuple[StoredMember, ...]


Key = OffsetKey | GroupKey
Value = CommittedOffset | StoredGroup


def encode_record(key: Key, value: Value | None) -> KeyValue:
    """Return the record that sets `key`, or deletes it. Strings may have STRING_BYTES_MAX bytes."""
    if value is None:
        return KeyValue(_encode_key(key), None)
    return KeyValue(
        _encode_key(key), _encode_offset(value) if isinstance(value, CommittedOffset) else _encode_group(value)
    )


def encoded_size(key: Key, value: Value) -> int:
    """Return how many bytes `encode_record` makes of a key and its value, without making them."""
    if isinstance(key, OffsetKey):
        size = 2 + _string_size(key.group) + _string_size(key.topic) + 4
    else:
        size = 2 + _string_size(key.group)
    if isinstance(value, CommittedOffset):
        return size + 2 + 8 + 4 + _string_size(value.metadata) + 8
    size += (
        2 + _string_size(value.protocol_type) + 4 + _string_size(value.protocol) + _string_size(value.leader) + 8 + 4
    )
    return size + sum(_member_size(member) for member in value.members)


def decode_record(record: KeyValue) -> tuple[Key, Value | None]:
    """Read one record.

    Raises:
        UnreadableRecordError: Of another version, or damaged.
    """
    key = _decode_key(RecordReader(record.key))
    if record.value is None:
        return key, None
    reader = RecordReader(record.value)
    if (version := reader.i16()) != _VALUE_VERSION:
        raise UnreadableRecordError(f"a value of version {version}")
    return key, _decode_offset(reader) if isinstance(key, OffsetKey) else _decode_group(reader)


def _string(text: str) -> bytes:
    encoded = text.encode()
    assert len(encoded) <= STRING_BYTES_MAX
    return _I16.pack(len(encoded)) + encoded


def _nullable_string(text: str | None) -> bytes:
    return _I16.pack(-1) if text is None else _string(text)


def _string_size(text: str | None) -> int:
    if text is None:
        return 2
    return 2 + (len(text) if text.isascii() else len(text.encode()))


def _member_size(member: StoredMember) -> int:
    names = (member.member_id, member.instance_id, member.client_id, member.client_host)
    return sum(map(_string_size, names)) + 4 + 4 + 4 + len(member.subscription) + 4 + len(member.assignment)


def _bytes(data: bytes) -> bytes:
    return _I32.pack(len(data)) + data


def _encode_key(key: Key) -> bytes:
    if isinstance(key, OffsetKey):
        return _I16.pack(1) + _string(key.group) + _string(key.topic) + _I32.pack(key.partition)
    return _I16.pack(_GROUP_KEY_VERSION) + _string(key.group)


def _encode_offset(value: CommittedOffset) -> bytes:
    return b"".join(
        (
            _I16.pack(_VALUE_VERSION),
            _I64.pack(value.offset),
            _I32.pack(value.leader_epoch),
            _string(value.metadata),
            _I64.pack(value.commit_timestamp),
        )
    )


def _encode_group(value: StoredGroup) -> bytes:
    parts = [
        _I16.pack(_VALUE_VERSION),
        _string(value.protocol_type),
        _I32.pack(value.generation),
        _nullable_string(value.protocol),
        _nullable_string(value.leader),
        _I64.pack(value.state_timestamp),
        _I32.pack(len(value.members)),
    ]
    for member in value.members:
        parts += (
            _string(member.member_id),
            _nullable_string(member.instance_id),
            _string(member.client_id),
            _string(member.client_host),
            _I32.pack(member.rebalance_timeout_ms),
            _I32.pack(member.session_timeout_ms),
            _bytes(member.subscription),
            _bytes(member.assignment),
        )
    return b"".join(parts)


def _decode_key(reader: RecordReader) -> Key:
    version = reader.i16()
    if version in _OFFSET_KEY_VERSIONS:
        return OffsetKey(reader.string(), reader.string(), reader.i32())
    if version == _GROUP_KEY_VERSION:
        return GroupKey(reader.string())
    raise UnreadableRecordError(f"a key of version {version}")


def _decode_offset(reader: RecordReader) -> CommittedOffset:
    return CommittedOffset(reader.i64(), reader.i32(), reader.string(), reader.i64())


def _decode_group(reader: RecordReader) -> StoredGroup:
    head = (reader.string(), reader.i32(), reader.nullable_string(), reader.nullable_string(), reader.i64())
    members = tuple(_decode_member(reader) for _ in range(reader.i32()))
    return StoredGroup(*head, members)


def _decode_member(reader: RecordReader) -> StoredMember:
    return StoredMember(
        reader.string(),
        reader.nullable_string(),
        reader.string(),
        reader.string(),
        reader.i32(),
        reader.i32(),
        reader.blob(),
        reader.blob(),
    )
