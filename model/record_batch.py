"""The Kafka v2 record batch, as far as a broker looks into it: the 61-byte header.

     0 base offset i64 | 8 batch length i32 | 12 partition leader epoch i32 | 16 magic i8 | 17 CRC32C u32
    21 attributes i16 | 23 last offset delta i32 | 27 base timestamp i64 | 35 max timestamp i64 | 43 producer id i64
    51 producer epoch i16 | 53 base sequence i32 | 57 record count i32 | 61 records

The CRC covers bytes 21 to the end, so base offset and leader epoch are stamped in place without touching it.
Source: Kafka protocol guide, "Record Batch".

No other module of the broker knows these positions. Who needs one or a few fields of a batch on its way through calls
an `unpack_...` below, which is a method of a `struct.Struct` and costs no Python call.
"""

import struct
from typing import NamedTuple

import crc32c

Buffer = bytes | bytearray | memoryview

HEADER_BYTES = 61
# The first byte that the CRC covers. The bytes before it are for the broker: offset, length, epoch, magic, CRC itself.
CRC_START = 21
# For `memoryview`: a big-endian i64.
MAX_TIMESTAMP_BYTES = slice(35, 43)

# Each takes a batch from its first byte on, as a buffer, and returns a tuple. A batch that is too short is a
# `struct.error`: whoever has not checked its size compares it with HEADER_BYTES first.
unpack_crc = struct.Struct(">17xI").unpack_from
unpack_max_timestamp = struct.Struct(">35xq").unpack_from
# Attributes, largest timestamp.
unpack_attributes_and_timestamp = struct.Struct(">21xh12xq").unpack_from
unpack_record_count = struct.Struct(">57xi").unpack_from
unpack_producer_id = struct.Struct(">43xq").unpack_from
unpack_attributes = struct.Struct(">21xh").unpack_from
# Last offset delta, producer id, producer epoch, base sequence.
unpack_sequence = struct.Struct(">23xi16xqhi").unpack_from

_HEADER = struct.Struct(">qiibIhiqqqhii")
_I64 = struct.Struct(">q")
_I32 = struct.Struct(">i")
_U32 = struct.Struct(">I")
_LENGTH_END, _CRC, _ATTRIBUTES_LOW, _MAX_TIMESTAMP = 12, 17, 22, 35
_MAGIC = 2
_NONE = -1

assert _HEADER.size == HEADER_BYTES

COMPRESSION_MASK = 0x07
TIMESTAMP_TYPE_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class BatchHeader(NamedTuple):
    """The header's fields. `batch_length` counts the bytes after itself: the whole batch is 12 more."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + 12

    @property
    def codec(self) -> int:
        """Compression: an index into CODECS, or more if unknown."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_transactional(self) -> bool:
        """Part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL_MASK)

    @property
    def is_control(self) -> bool:
        """A transaction marker; only brokers write these."""
        return bool(self.attributes & CONTROL_MASK)

    @property
    def uses_log_append_time(self) -> bool:
        """The timestamps are the broker's."""
        return bool(self.attributes & TIMESTAMP_TYPE_MASK)


class MalformedBatchError(ValueError):
    """The bytes are not one whole v2 batch."""


class BatchChecksumError(MalformedBatchError):
    """The batch's CRC32C does not match its bytes."""


def read_header(batch: Buffer, position: int = 0) -> BatchHeader:
    """Read the header of the batch at `position`.

    Raises:
        MalformedBatchError: Fewer than 61 bytes are left.
    """
    if len(batch) - position < HEADER_BYTES:
        raise MalformedBatchError(f"{len(batch) - position} bytes are too few for a record batch")
    return BatchHeader._make(_HEADER.unpack_from(batch, position))


def check_batch(batch: Buffer) -> BatchHeader:
    """Return the header of `batch`, which must be exactly one v2 batch with consistent counts and the right CRC.

    Raises:
        MalformedBatchError, BatchChecksumError: Says what is wrong.
    """
    header = read_header(batch)
    if header.magic != 2:
        raise MalformedBatchError(f"magic {header.magic} is not supported, only 2")
    if header.size != len(batch):
        raise MalformedBatchError(f"a batch of {header.size} bytes in {len(batch)} bytes")
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        raise MalformedBatchError(
            f"{header.record_count} records with a last offset delta of {header.last_offset_delta}"
        )
    if crc32c.crc32c(memoryview(batch)[CRC_START:]) != header.crc:
        raise BatchChecksumError("the batch's CRC32C is wrong")
    return header


class BatchProducer(NamedTuple):
    """Who writes a batch of a broker's own: a producer id and epoch, and attributes (TRANSACTIONAL_MASK, ...)."""

    producer_id: int = _NONE
    epoch: int = _NONE
    attributes: int = 0


NO_PRODUCER = BatchProducer()


def new_batch(records: bytes, record_count: int, timestamp_ms: int, producer: BatchProducer = NO_PRODUCER) -> bytearray:
    """Return a batch of a broker's own: not compressed, no sequence numbers, one timestamp.

    Offset and epoch are not stamped.

    Args:
        records: Encoded, with offset deltas from 0 and timestamp deltas of 0.
        record_count: At least 1.
        timestamp_ms: Of every record.
        producer: Whose transaction it belongs to or ends, if any.
    """
    length, last, times = HEADER_BYTES - _LENGTH_END + len(records), record_count - 1, (timestamp_ms, timestamp_ms)
    producer_id, epoch, attributes = producer
    head = (0, length, _NONE, _MAGIC, 0, attributes, last, *times, producer_id, epoch, _NONE, record_count)
    batch = bytearray(_HEADER.pack(*head))
    batch += records
    _U32.pack_into(batch, _CRC, crc32c.crc32c(memoryview(batch)[CRC_START:]))
    return batch


def stamp_append_time(batch: bytearray, timestamp_ms: int) -> None:
    """Make a timestamp of the broker's the one of every record of a checked `batch`: header and CRC, in place."""
    _I64.pack_into(batch, _MAX_TIMESTAMP, timestamp_ms)
    batch[_ATTRIBUTES_LOW] |= TIMESTAMP_TYPE_MASK
    _U32.pack_into(batch, _CRC, crc32c.crc32c(memoryview(batch)[CRC_START:]))


def rebuilt_batch(batch: Buffer, records: bytes, record_count: int, max_timestamp: int) -> bytearray:
    """Return a batch with the header of `batch`, and other records: fewer, of the same offsets and of the same codec.

    The last offset delta stays, so that the batch covers the same offsets.
    """
    rebuilt = bytearray(memoryview(batch)[:HEADER_BYTES])
    rebuilt += records
    _I32.pack_into(rebuilt, 8, len(rebuilt) - _LENGTH_END)
    _I64.pack_into(rebuilt, _MAX_TIMESTAMP, max_timestamp)
    _I32.pack_into(rebuilt, 57, record_count)
    _U32.pack_into(rebuilt, _CRC, crc32c.crc32c(memoryview(rebuilt)[CRC_START:]))
    return rebuilt


def stamp(batch: bytearray, base_offset: int, leader_epoch: int) -> None:
    """Write base offset and leader epoch into `batch`, in place."""
    _I64.pack_into(batch, 0, base_offset)
    _I32.pack_into(batch, 12, leader_epoch)
