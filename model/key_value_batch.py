"""Batches that brokers write themselves: records of a key and a value, not compressed. Off the hot path.

Source: Kafka protocol guide, "Record" (zigzag varints) and "Record Batch".
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from model.record_batch import HEADER_BYTES, NO_PRODUCER, BatchProducer, Buffer, new_batch, read_header
from model.record_codec import CorruptRecordsError, read_varint


class KeyValue(NamedTuple):
    """One record; a value of None deletes the key. Headers have a name and a value each."""

    key: bytes
    value: bytes | None
    headers: tuple[tuple[bytes, bytes], ...] = ()


def encode_key_values(
    records: Sequence[KeyValue], timestamp_ms: int, producer: BatchProducer = NO_PRODUCER
) -> bytearray:
    """Return one v2 batch of at least one record, all with the same timestamp; offset and epoch are not stamped yet."""
    assert records
    body = b"".join(_encode_record(delta, record) for delta, record in enumerate(records))
    return new_batch(body, len(records), timestamp_ms, producer)


def read_key_values(batch: Buffer) -> Iterator[KeyValue]:
    """Yield the records of one whole batch that have a key.

    Raises:
        CorruptRecordsError: It is compressed, or its records are not what the header promises.
    """
    header = read_header(batch)
    if header.codec:
        raise CorruptRecordsError("a batch that brokers write is not compressed")
    data = bytes(memoryview(batch)[HEADER_BYTES:])
    position = 0
    for _ in range(header.record_count):
        length, position = read_varint(data, position)
        end = position + length
        if length < 0 or end > len(data):
            raise CorruptRecordsError(f"a record of {length} bytes where {len(data) - position} are left")
        # Attributes, then the two deltas.
        _, position = read_varint(data, position + 1)
        _, position = read_varint(data, position)
        key, position = _read_bytes(data, position, end)
        value, position = _read_bytes(data, position, end)
        if key is not None:
            yield KeyValue(key, value, _read_headers(data, position, end))
        position = end


def _encode_record(offset_delta: int, record: KeyValue) -> bytes:
    value = b"\x01" if record.value is None else _varint(len(record.value)) + record.value
    headers = _varint(len(record.headers)) + b"".join(
        _varint(len(part)) + part for header in record.headers for part in header
    )
    body = b"\x00\x00" + _varint(offset_delta) + _varint(len(record.key)) + record.key + value + headers
    return _varint(len(body)) + body


def _read_headers(data: bytes, position: int, end: int) -> tuple[tuple[bytes, bytes], ...]:
    count, position = read_varint(data, position)
    headers = []
    for _ in range(count):
        name, position = _read_bytes(data, position, end)
        value, position = _read_bytes(data, position, end)
        headers.append((name or b"", value or b""))
    return tuple(headers)


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(data, position)
    if length < 0:
        return None, position
    if position + length > end:
        raise CorruptRecordsError(f"a key or value of {length} bytes where {end - position} are left")
    return data[position : position + length], position + length


def _varint(value: int) -> bytes:
    """Encode a number of at least 0 as a zigzag varint."""
    raw, out = value << 1, bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)
