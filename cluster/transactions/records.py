"""The records of `__transaction_state` in Kafka's own formats, so that tools can read the topic.

    key      i16 = 0 | transactional id string
    value    i16 = 1 | producer id i64 | producer epoch i16 | timeout i32 | state i8
             | topics compact nullable array, of each: name compact string | partitions compact array of i32 | no tags
             | last update i64 | start i64 | tagged fields:
                 0 previous producer id i64, -1   1 next producer id i64, -1   2 client transaction version i16, 0

Values are written in version 1, and a tagged field that has its default is left out. Version 0 is read, too: it has
plain strings and arrays, and no tagged fields. Partitions are written by topic, in order, so that a value has one
encoding on every replica.

Source: Apache Kafka's field tables of TransactionLogKey and TransactionLogValue, and its states' numbers (NOTICE).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from typing import NamedTuple

from cluster.record_reader import STRING_BYTES_MAX, RecordReader, UnreadableRecordError
from model.key_value_batch import KeyValue

NO_PRODUCER_ID = -1
NO_EPOCH = -1
# The start of a transaction that has not begun.
NO_TIME = -1

_KEY_VERSION = 0
_PLAIN_VERSION = 0
_VALUE_VERSION = 1
_PREVIOUS_TAG, _NEXT_TAG, _CLIENT_TAG = range(3)

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_HEAD = struct.Struct(">hqhib")
_TIMES = struct.Struct(">qq")
# The count of tagged fields, and the tag and size before each of them.
_TAG_COUNT_BYTES = 1
_TAG_HEAD_BYTES = 2


class TransactionState(IntEnum):
    """Kafka's states and their numbers in records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    # Neither is ever written: an id that is forgotten has no value, and a fence is a PREPARE_ABORT with a new epoch.
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def shown(self) -> str:
        """The name that DescribeTransactions and ListTransactions use."""
        return "".join(word.title() for word in self.name.split("_"))

    @property
    def is_prepare(self) -> bool:
        """The transaction is decided, and its markers are on their way."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_complete(self) -> bool:
        """The last transaction has ended everywhere, and none has begun since."""
        return self in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


_WRITTEN_STATES = frozenset(range(TransactionState.DEAD))


class TopicPartition(NamedTuple):
    """A partition by the name of its topic."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class StoredTransaction:
    """What is stored of a transactional id.

    Attributes:
        producer_id: The producer's.
        epoch: Its epoch, from 0 to 32,767.
        timeout_ms: How long a transaction may be open.
        state: Of its last transaction.
        partitions: What belongs to a transaction that is open or decided.
        updated_ms: When the record was made, by the coordinator's clock.
        started_ms: When the last transaction began; NO_TIME if there was none.
        previous_producer_id: The id before, if this record has changed it; else NO_PRODUCER_ID.
        next_producer_id: The id that follows once a decided transaction is complete; else NO_PRODUCER_ID.
        client_version: Of the transaction protocol by which the last transaction was begun or ended: 2 since KIP-890,
            else 0.
    """

    producer_id: int
    epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition]
    updated_ms: int
    started_ms: int = NO_TIME
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0


def encode_record(transactional_id: str, value: StoredTransaction | None) -> KeyValue:
    """Return the record that sets the state of an id, or deletes it. Strings may have STRING_BYTES_MAX bytes."""
    name = transactional_id.encode()
    assert len(name) <= STRING_BYTES_MAX
    key = _I16.pack(_KEY_VERSION) + _I16.pack(len(name)) + name
    return KeyValue(key, None if value is None else _encode_value(value))


def encoded_size(transactional_id: str, value: StoredTransaction) -> int:
    """Return how many bytes `encode_record` makes of a key and its value, without making them."""
    size = 2 + 2 + _text_size(transactional_id) + _HEAD.size + _TIMES.size + _TAG_COUNT_BYTES
    size += sum(_TAG_HEAD_BYTES + field.size for _, field, _ in _tagged(value))
    if value.state is TransactionState.EMPTY:
        return size + 1
    topics: dict[str, int] = {}
    for topic, _ in value.partitions:
        topics[topic] = topics.get(topic, 0) + 1
    size += _varint_size(len(topics) + 1)
    for topic, count in topics.items():
        length = _text_size(topic)
        size += _varint_size(length + 1) + length + _varint_size(count + 1) + _I32.size * count + 1
    return size


def decode_record(record: KeyValue) -> tuple[str, StoredTransaction | None]:
    """Read one record.

    Raises:
        UnreadableRecordError: Of another version, or damaged.
    """
    reader = RecordReader(record.key)
    if (version := reader.i16()) != _KEY_VERSION:
        raise UnreadableRecordError(f"a key of version {version}")
    transactional_id = reader.text(reader.i16())
    if record.value is None:
        return transactional_id, None
    reader = RecordReader(record.value)
    if (version := reader.i16()) not in (_PLAIN_VERSION, _VALUE_VERSION):
        raise UnreadableRecordError(f"a value of version {version}")
    return transactional_id, _decode_value(reader, version == _VALUE_VERSION)


def _encode_value(value: StoredTransaction) -> bytes:
    assert value.state in _WRITTEN_STATES
    parts = [_HEAD.pack(_VALUE_VERSION, value.producer_id, value.epoch, value.timeout_ms, value.state)]
    if value.state is TransactionState.EMPTY:
        # Kafka writes null here, and nothing for transactions that have partitions no more.
        assert not value.partitions
        parts.append(_varint(0))
    else:
        parts += _encode_partitions(value.partitions)
    parts.append(_TIMES.pack(value.updated_ms, value.started_ms))
    tagged = list(_tagged(value))
    parts.append(_varint(len(tagged)))
    for tag, field, number in tagged:
        parts += (_varint(tag), _varint(field.size), field.pack(number))
    return b"".join(parts)


def _encode_partitions(partitions: frozenset[TopicPartition]) -> Iterator[bytes]:
    topics = [(topic, [each.partition for each in group]) for topic, group in groupby(sorted(partitions), _topic_of)]
    yield _varint(len(topics) + 1)
    for topic, numbers in topics:
        name = topic.encode()
        assert len(name) <= STRING_BYTES_MAX
        yield _varint(len(name) + 1) + name + _varint(len(numbers) + 1)
        yield struct.pack(f">{len(numbers)}i", *numbers)
        yield _varint(0)


def _topic_of(partition: TopicPartition) -> str:
    return partition.topic


def _tagged(value: StoredTransaction) -> Iterator[tuple[int, struct.Struct, int]]:
    """Yield tag, layout and number of each tagged field that has not its default."""
    if value.previous_producer_id != NO_PRODUCER_ID:
        yield _PREVIOUS_TAG, _I64, value.previous_producer_id
    if value.next_producer_id != NO_PRODUCER_ID:
        yield _NEXT_TAG, _I64, value.next_producer_id
    if value.client_version:
        yield _CLIENT_TAG, _I16, value.client_version


def _varint(value: int) -> bytes:
    """Encode a number of at least 0 as an unsigned varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _varint_size(value: int) -> int:
    return max(1, -(-value.bit_length() // 7))


def _text_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _decode_value(reader: RecordReader, is_flexible: bool) -> StoredTransaction:
    producer_id, epoch = reader.i64(), reader.i16()
    timeout_ms, state = reader.i32(), reader.take(1)[0]
    if state not in _WRITTEN_STATES:
        raise UnreadableRecordError(f"a state of number {state}")
    partitions = _decode_partitions(reader, is_flexible)
    updated_ms, started_ms = reader.i64(), reader.i64()
    tagged = _decode_tagged(reader) if is_flexible else {}
    if state == TransactionState.EMPTY:
        # As Kafka reads it, whatever stands there.
        partitions = frozenset()
    return StoredTransaction(
        producer_id,
        epoch,
        timeout_ms,
        TransactionState(state),
        partitions,
        updated_ms,
        started_ms,
        _tagged_number(tagged, _PREVIOUS_TAG, _I64, NO_PRODUCER_ID),
        _tagged_number(tagged, _NEXT_TAG, _I64, NO_PRODUCER_ID),
        _tagged_number(tagged, _CLIENT_TAG, _I16, 0),
    )


def _decode_partitions(reader: RecordReader, is_flexible: bool) -> frozenset[TopicPartition]:
    found: list[TopicPartition] = []
    for _ in range(_decode_length(reader, is_flexible)):
        topic = reader.text(reader.varint() - 1 if is_flexible else reader.i16())
        count = _decode_length(reader, is_flexible)
        found += [TopicPartition(topic, reader.i32()) for _ in range(count)]
        if is_flexible:
            _decode_tagged(reader)
    return frozenset(found)


def _decode_length(reader: RecordReader, is_flexible: bool) -> int:
    """Read how many elements an array has; null has none."""
    return max(0, reader.varint() - 1 if is_flexible else reader.i32())


def _decode_tagged(reader: RecordReader) -> dict[int, bytes]:
    """Read tagged fields by their tags, unknown ones too: a newer Kafka may have written the record."""
    return {reader.varint(): reader.take(reader.varint()) for _ in range(reader.varint())}


def _tagged_number(tagged: dict[int, bytes], tag: int, layout: struct.Struct, default: int) -> int:
    if tag not in tagged:
        return default
    if len(tagged[tag]) != layout.size:
        raise UnreadableRecordError(f"a tagged field {tag} of {len(tagged[tag])} bytes")
    (number,) = layout.unpack(tagged[tag])
    return int(number)
