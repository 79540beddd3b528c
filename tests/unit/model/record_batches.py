"""Record batches built from the format's description alone, for tests of every layer."""

import struct
from collections.abc import Sequence

import cramjam
import crc32c

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20


def varint(number: int) -> bytes:
    """Return the zigzag varint of a number."""
    value = (number << 1) ^ (number >> 127)
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def record(value: bytes, *, offset_delta: int = 0, timestamp_delta: int = 0, key: bytes | None = None) -> bytes:
    """Return one record without headers."""
    keyed = varint(-1) if key is None else varint(len(key)) + key
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta) + keyed + varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def packed(codec: int, data: bytes) -> bytes:
    """Compress as a Java client does, snappy in xerial framing."""
    match codec:
        case 0:
            return data
        case 1:
            return bytes(cramjam.gzip.compress(data))
        case 2:
            return xerial([data])
        case 3:
            return bytes(cramjam.lz4.compress(data))
        case _:
            return bytes(cramjam.zstd.compress(data))


def xerial(blocks: Sequence[bytes]) -> bytes:
    """Frame raw snappy blocks as the Java library does."""
    out = bytearray(b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1))
    for block in blocks:
        compressed = bytes(cramjam.snappy.compress_raw(block))
        out += struct.pack(">i", len(compressed)) + compressed
    return bytes(out)


def build_batch(
    *values: bytes,
    timestamps: Sequence[int] | None = None,
    keys: Sequence[bytes] | None = None,
    codec: int = NONE,
    attributes: int = 0,
    payload: bytes | None = None,
    count: int | None = None,
    last_offset_delta: int | None = None,
    max_timestamp: int | None = None,
    producer_id: int = -1,
    producer_epoch: int | None = None,
    base_sequence: int = -1,
    magic: int = 2,
    base_offset: int = 0,
    leader_epoch: int = 0,
) -> bytes:
    """Return a batch with a right length and CRC; `payload` replaces the (already compressed) records."""
    values = values or (b"value",)
    times = timestamps if timestamps is not None else [1000 + number for number in range(len(values))]
    if payload is None:
        records = b"".join(
            record(
                value,
                offset_delta=number,
                timestamp_delta=times[number] - times[0],
                key=None if keys is None else keys[number],
            )
            for number, value in enumerate(values)
        )
        payload = packed(codec, records)
    number_of = len(values) if count is None else count
    last = number_of - 1 if last_offset_delta is None else last_offset_delta
    latest = max(times) if max_timestamp is None else max_timestamp
    body = struct.pack(
        ">hiqqqhii",
        codec | attributes,
        last,
        times[0],
        latest,
        producer_id,
        (-1 if producer_id < 0 else 0) if producer_epoch is None else producer_epoch,
        base_sequence,
        number_of,
    )
    body += payload
    return struct.pack(">qiibI", base_offset, 9 + len(body), leader_epoch, magic, crc32c.crc32c(body)) + body
