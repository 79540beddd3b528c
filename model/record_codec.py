"""The records inside a batch: offsets and timestamps only, for lookups by time. Off the hot path.

Source: Kafka protocol guide, "Record" (zigzag varints); compression as in RFC 0005: snappy may
be raw (librdkafka) or xerial-framed (Java).
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import cramjam

from model.record_batch import CODECS, HEADER_BYTES, BatchHeader, Buffer, read_header

# A batch may not unpack to more than this: 64 MiB is the largest max.message.bytes, uncompressed.
UNPACKED_BYTES_MAX = 256 * 1024 * 1024

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
# Version and lowest compatible version, as Java's library writes them, and its size of a block.
_XERIAL_VERSIONS = (1).to_bytes(4, "big") * 2
_XERIAL_BLOCK_BYTES = 32 * 1024
_FIRST_GUESS_BYTES = 1024 * 1024

# What one byte can unpack to at most, by the formats: deflate's longest match takes two bits; LZ4's match grows by 255
# with each byte; a Zstandard block of 128 KiB takes four bytes; a Snappy copy of 64 bytes takes three.
_GZIP_RATIO_MAX, _LZ4_RATIO_MAX, _ZSTD_RATIO_MAX, _SNAPPY_RATIO_MAX = 1032, 256, 32 * 1024, 22

# Attributes, two deltas, two lengths and a count, of one byte each.
_RECORD_BYTES_MIN = 6
_I64_MIN, _I64_MAX = -(2**63), 2**63 - 1


class CorruptRecordsError(ValueError):
    """The compressed or encoded records cannot be read."""


class RecordPosition(NamedTuple):
    """Where a record is: absolute offset, timestamp in milliseconds."""

    offset: int
    timestamp: int


def unpack_records(batch: Buffer, bytes_max: int = UNPACKED_BYTES_MAX) -> bytes:
    """Return the encoded records of a whole v2 batch. May take a second for a hostile batch; releases the GIL.

    Raises:
        CorruptRecordsError: They cannot be unpacked, or not to at most `bytes_max`.
    """
    return unpack(read_header(batch).codec, memoryview(batch)[HEADER_BYTES:], bytes_max)


def record_positions(header: BatchHeader, data: bytes) -> Iterator[RecordPosition]:
    """Yield the position of every record of a batch, whose `unpack_records` are `data`.

    Raises:
        CorruptRecordsError: They are not the records that the header promises.
    """
    position = 0
    for _ in range(header.record_count):
        length, position = read_varint(data, position)
        end = position + length
        if length < _RECORD_BYTES_MIN or end > len(data):
            raise CorruptRecordsError(f"a record of {length} bytes where {len(data) - position} are left")
        timestamp_delta, after = read_varint(data, position + 1)
        offset_delta, _ = read_varint(data, after)
        if not 0 <= offset_delta <= header.last_offset_delta:
            raise CorruptRecordsError(f"a record with offset delta {offset_delta}")
        timestamp = header.base_timestamp + timestamp_delta
        if not _I64_MIN <= timestamp <= _I64_MAX:
            raise CorruptRecordsError(f"a record with timestamp {timestamp}")
        yield RecordPosition(header.base_offset + offset_delta, timestamp)
        position = end


def unpack(codec: int, packed: memoryview, bytes_max: int = UNPACKED_BYTES_MAX) -> bytes:
    """Return the records' bytes.

    Raises:
        CorruptRecordsError: Not what `codec` (an index into CODECS) produces; or compressed, and more than `bytes_max`.
    """
    if codec == 0:
        return bytes(packed)
    try:
        match CODECS[codec]:
            case "gzip":
                return _bounded(cramjam.gzip.decompress_into, packed, _GZIP_RATIO_MAX, bytes_max)
            case "lz4":
                return _bounded(cramjam.lz4.decompress_into, packed, _LZ4_RATIO_MAX, bytes_max)
            case "zstd":
                return _bounded(cramjam.zstd.decompress_into, packed, _ZSTD_RATIO_MAX, bytes_max)
            case _:
                return _unpack_snappy(packed, bytes_max)
    except (cramjam.DecompressionError, IndexError) as error:
        raise CorruptRecordsError(f"codec {codec}: {error}") from error


def _bounded(
    unpack_into: Callable[[memoryview, bytearray], int], packed: memoryview, ratio_max: int, bytes_max: int
) -> bytes:
    """Unpack into a buffer of our own size, so that a bomb meets a wall instead of the machine's memory.

    Garbage meets one too: a few bytes of it take no more memory than so few bytes can stand for.
    """
    size = max(_FIRST_GUESS_BYTES, 8 * len(packed))
    size_max = min(bytes_max, max(size, ratio_max * len(packed)))
    while True:
        size = min(size, size_max)
        buffer = bytearray(size)
        try:
            return bytes(memoryview(buffer)[: unpack_into(packed, buffer)])
        except cramjam.DecompressionError:
            # Either the buffer is too small or the data is bad: the codec does not say which. The error has this frame,
            # and whoever keeps the error keeps no buffer.
            del buffer
            if size == size_max:
                raise
            size *= 16


def is_xerial(packed: memoryview) -> bool:
    """Whether snappy's data has the frames of Java's library (xerial)."""
    return bytes(packed[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC


def pack_xerial(records: bytes) -> bytes:
    """Compress by snappy, in the frames of Java's library."""
    blocks = [_XERIAL_MAGIC + _XERIAL_VERSIONS]
    for position in range(0, len(records), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(records[position : position + _XERIAL_BLOCK_BYTES]))
        blocks += [len(block).to_bytes(4, "big"), block]
    return b"".join(blocks)


def _unpack_snappy(packed: memoryview, bytes_max: int) -> bytes:
    if not is_xerial(packed):
        return _unpack_snappy_block(packed, bytes_max)
    blocks = []
    position, total = _XERIAL_HEADER_BYTES, 0
    while position < len(packed):
        length = int.from_bytes(packed[position : position + 4], "big")
        block = _unpack_snappy_block(packed[position + 4 : position + 4 + length], bytes_max)
        total += len(block)
        if total > bytes_max:
            raise CorruptRecordsError(f"unpacks to more than {bytes_max} bytes")
        blocks.append(block)
        position += 4 + length
    return b"".join(blocks)


def _unpack_snappy_block(block: memoryview, bytes_max: int) -> bytes:
    size = cramjam.snappy.decompress_raw_len(block)
    if size > bytes_max:
        raise CorruptRecordsError(f"unpacks to {size} bytes, more than {bytes_max}")
    if size > _SNAPPY_RATIO_MAX * len(block):
        raise CorruptRecordsError(f"{len(block)} bytes say that they unpack to {size}, more than they can")
    return bytes(cramjam.snappy.decompress_raw(block))


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """Read a zigzag varint of at most 10 bytes; return it and the position after it."""
    value = shift = 0
    while shift < 70:
        if position >= len(data):
            raise CorruptRecordsError("a record is cut off")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    raise CorruptRecordsError("a varint is too long")


def read_zigzag(data: Buffer, position: int) -> tuple[int, int]:
    """Read a varint as it is encoded: twice the number, and an odd one is negative. As `read_varint` otherwise."""
    number, position = read_varint(data, position)
    return (number << 1) ^ (number >> 63), position
