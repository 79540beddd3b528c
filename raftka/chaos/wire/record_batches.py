"""Record batches (magic 2): made with one record each, and read where they are not compressed."""

import struct
from typing import NamedTuple

from crc32c import crc32c

from raftka.chaos.wire.fields import AnswerError

# Base offset, length, leader epoch, magic, checksum.
_PREFIX = struct.Struct(">qiibI")
# Attributes, last offset delta, base and max timestamp, producer id and epoch, base sequence, number of records.
_COVERED = struct.Struct(">hiqqqhii")
_HEADER_BYTES = _PREFIX.size + _COVERED.size
# What the length does not count.
_LENGTH_BEHIND = 12
_MAGIC = 2
_CODEC_MASK, _CONTROL = 0x07, 0x20


class Producer(NamedTuple):
    """Who sends an idempotent batch, and which of its batches to the partition it is."""

    id: int
    epoch: int
    sequence: int


class ReadRecord(NamedTuple):
    """One record, with the epoch of the leader that took it."""

    offset: int
    value: bytes
    epoch: int


_NOBODY = Producer(-1, -1, -1)


def build_batch(value: bytes, timestamp_ms: int, producer: Producer = _NOBODY) -> bytes:
    """Return a batch with one record, which has no key."""
    body = b"\0" + _varint(0) + _varint(0) + _varint(-1) + _varint(len(value)) + value + _varint(0)
    covered = _COVERED.pack(0, 0, timestamp_ms, timestamp_ms, producer.id, producer.epoch, producer.sequence, 1)
    covered += _varint(len(body)) + body
    return _PREFIX.pack(0, _PREFIX.size - _LENGTH_BEHIND + len(covered), -1, _MAGIC, crc32c(covered)) + covered


def read_records(data: bytes) -> list[ReadRecord]:
    """Return the records of several batches; the last one may be cut off, as Kafka does.

    Raises:
        AnswerError: A checksum is wrong, or a batch is compressed or of another magic.
    """
    found: list[ReadRecord] = []
    at = 0
    while len(data) - at >= _HEADER_BYTES:
        base, length, epoch, magic, checksum = _PREFIX.unpack_from(data, at)
        end = at + _LENGTH_BEHIND + length
        if end > len(data):
            break
        if magic != _MAGIC or crc32c(data[at + _PREFIX.size : end]) != checksum:
            raise AnswerError(f"the batch at offset {base} is of magic {magic}, or its checksum is wrong")
        attributes = _COVERED.unpack_from(data, at + _PREFIX.size)[0]
        if attributes & _CODEC_MASK:
            raise AnswerError(f"the batch at offset {base} is compressed, which no producer of a run asks for")
        if not attributes & _CONTROL:
            found += _records(data, at, base, epoch)
        at = end
    return found


def _records(data: bytes, at: int, base: int, epoch: int) -> list[ReadRecord]:
    count = _COVERED.unpack_from(data, at + _PREFIX.size)[-1]
    found, at = [], at + _HEADER_BYTES
    for _ in range(count):
        length, at = _read_varint(data, at)
        end = at + length
        _, at = _read_varint(data, at + 1)
        delta, at = _read_varint(data, at)
        key_length, at = _read_varint(data, at)
        value_length, at = _read_varint(data, at + max(0, key_length))
        found.append(ReadRecord(base + delta, data[at : at + max(0, value_length)], epoch))
        at = end
    return found


def _varint(value: int) -> bytes:
    raw = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while raw > 0x7F:
        encoded.append(raw & 0x7F | 0x80)
        raw >>= 7
    encoded.append(raw)
    return bytes(encoded)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    raw = shift = 0
    while True:
        byte = data[at]
        raw |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), at
