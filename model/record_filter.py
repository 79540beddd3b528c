"""Records of a v2 batch as log compaction sees them: where each is, its key, and whether it deletes (RFC 0022, 5).

Source: Kafka protocol guide, "Record" (zigzag varints) and "Record Batch".
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import cramjam

from model.record_batch import CODECS, HEADER_BYTES, BatchHeader, Buffer, rebuilt_batch
from model.record_codec import CorruptRecordsError, is_xerial, pack_xerial, read_varint


class KeyedRecord(NamedTuple):
    """One record among the unpacked records of a batch.

    Attributes:
        begin, end: Its bytes, the length before it included.
        offset_delta, timestamp_delta: From the batch's base offset and base timestamp.
        key: None if it has none.
        deletes: Whether it has a key and no value: a tombstone.
    """

    begin: int
    end: int
    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    deletes: bool


def keyed_records(header: BatchHeader, data: bytes) -> Iterator[KeyedRecord]:
    """Yield the records of a batch, whose `unpack_records` are `data`, in their order.

    Some 1.5 us per record: varints of one and two bytes, which are nearly all, are read here.

    Raises:
        CorruptRecordsError: They are not the records that the header promises.
    """
    position = begin = 0
    last_delta = header.last_offset_delta
    try:
        for _ in range(header.record_count):
            begin = position
            length, position = _varint(data, position)
            end = position + length
            # Behind the attributes.
            timestamp_delta, position = _varint(data, position + 1)
            offset_delta, position = _varint(data, position)
            key_length, position = _varint(data, position)
            if key_length < 0:
                key = None
            else:
                key = data[position : position + key_length]
                position += key_length
            value_length, position = _varint(data, position)
            if not position + max(value_length, 0) <= end <= len(data) or not 0 <= offset_delta <= last_delta:
                raise CorruptRecordsError(f"a record at byte {begin} is cut off, or has offset delta {offset_delta}")
            yield KeyedRecord(begin, end, offset_delta, timestamp_delta, key, key is not None and value_length < 0)
            position = end
    except IndexError:
        raise CorruptRecordsError(f"a record at byte {begin} is cut off") from None
    if position != len(data):
        raise CorruptRecordsError(f"{len(data) - position} bytes behind the last record")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    first = data[position]
    if first < 0x80:
        return (first >> 1) ^ -(first & 1), position + 1
    second = data[position + 1]
    if second < 0x80:
        raw = first & 0x7F | second << 7
        return (raw >> 1) ^ -(raw & 1), position + 2
    return read_varint(data, position)


def filtered_batch(batch: Buffer, header: BatchHeader, data: bytes, kept: Sequence[KeyedRecord]) -> bytearray:
    """Return the batch with some of its records only; at least one.

    The batch keeps its offsets, its producer's fields, its base timestamp and its codec. Each record keeps its bytes.
    The largest timestamp becomes that of what is kept, unless timestamps are the broker's.

    Args:
        batch: The whole batch.
        header: Its header.
        data: Its `unpack_records`.
        kept: Of its `keyed_records`, in their order.
    """
    assert kept
    records = b"".join([data[each.begin : each.end] for each in kept])
    latest = header.max_timestamp
    if not header.uses_log_append_time and latest >= 0:
        latest = max(header.base_timestamp + each.timestamp_delta for each in kept)
    packed = _pack(header.codec, records, memoryview(batch)[HEADER_BYTES:])
    return rebuilt_batch(batch, packed, len(kept), latest)


def _pack(codec: int, records: bytes, before: memoryview) -> bytes:
    """Compress as the batch was before."""
    match CODECS[codec]:
        case "none":
            return records
        case "gzip":
            return bytes(cramjam.gzip.compress(records))
        case "lz4":
            return bytes(cramjam.lz4.compress(records))
        case "zstd":
            return bytes(cramjam.zstd.compress(records))
        case _:
            return pack_xerial(records) if is_xerial(before) else bytes(cramjam.snappy.compress_raw(records))
