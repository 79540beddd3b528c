"""Records of a v2 batch as log compaction sees them: where each is, its key, and whether it deletes (RFC 0022, 5).

Source: Kafka protocol guide, "Record" (zigzag varints) and "Record Batch".
"""

from collections.abc import Sequence
from typing import NamedTuple

import cramjam

from model.record_batch import CODECS, HEADER_BYTES, BatchHeader, Buffer, rebuilt_batch
from model.record_codec import CorruptRecordsError, is_xerial, pack_xerial, read_zigzag


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


def keyed_records(header: BatchHeader, data: bytes) -> list[KeyedRecord]:  # noqa: C901 - as in `key_scan`
    """Return the records of a batch, whose `unpack_records` are `data`, in their order.

    Some 0.8 us per record: varints of one and two bytes, which are nearly all, are read here.

    Raises:
        CorruptRecordsError: They are not the records that the header promises.
    """
    position = begin = 0
    last_delta, size, new = header.last_offset_delta, len(data), tuple.__new__
    found: list[KeyedRecord] = []
    try:
        for _ in range(header.record_count):
            begin = position
            if (byte := data[position]) < 0x80:
                length, position = byte, position + 1
            elif (other := data[position + 1]) < 0x80:
                length, position = byte & 0x7F | other << 7, position + 2
            else:
                length, position = read_zigzag(data, position)
            end = begin if length & 1 else position + (length >> 1)
            # Behind the attributes.
            if (byte := data[position + 1]) < 0x80:
                timestamp, position = byte, position + 2
            else:
                timestamp, position = read_zigzag(data, position + 1)
            if (byte := data[position]) < 0x80:
                delta, position = byte, position + 1
            elif (other := data[position + 1]) < 0x80:
                delta, position = byte & 0x7F | other << 7, position + 2
            else:
                delta, position = read_zigzag(data, position)
            if (byte := data[position]) < 0x80:
                length, position = byte, position + 1
            else:
                length, position = read_zigzag(data, position)
            key = None
            if not length & 1:
                key = data[position : position + (length >> 1)]
                position += length >> 1
            if (byte := data[position]) < 0x80:
                length, position = byte, position + 1
            elif (other := data[position + 1]) < 0x80:
                length, position = byte & 0x7F | other << 7, position + 2
            else:
                length, position = read_zigzag(data, position)
            is_null = length & 1
            reach = position if is_null else position + (length >> 1)
            if not reach <= end <= size or delta & 1 or delta >> 1 > last_delta:
                raise CorruptRecordsError(f"a record at byte {begin} is cut off, or has a wrong offset delta")
            timestamp = (timestamp >> 1) ^ -(timestamp & 1)
            # Half the time of a call of the class.
            found.append(new(KeyedRecord, (begin, end, delta >> 1, timestamp, key, key is not None and is_null == 1)))
            position = end
    except IndexError:
        raise CorruptRecordsError(f"a record at byte {begin} is cut off") from None
    if position != size:
        raise CorruptRecordsError(f"{size - position} bytes behind the last record")
    return found


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
