"""Record batches (magic 2): made with one record each; read where they are not compressed; which offsets they have."""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import cramjam
from crc32c import crc32c

from raftka.kafka.wire.fields import AnswerError

# Base offset, length, leader epoch, magic, checksum.
_PREFIX = struct.Struct(">qiibI")
# Attributes, last offset delta, base and max timestamp, producer id and epoch, base sequence, number of records.
_COVERED = struct.Struct(">hiqqqhii")
_HEADER_BYTES = _PREFIX.size + _COVERED.size
# What the length does not count.
_LENGTH_BEHIND = 12
_MAGIC = 2
_CODEC_MASK, _TRANSACTIONAL, _CONTROL = 0x07, 0x10, 0x20
# What Java's snappy begins with; two numbers follow, and blocks, each behind its length.
_XERIAL, _XERIAL_HEADER_BYTES = b"\x82SNAPPY\x00", 16
_ABORT = 0


class Producer(NamedTuple):
    """Who sends an idempotent batch, and which of its batches to the partition it is."""

    id: int
    epoch: int
    sequence: int


# Names and values, in order; a value may be absent.
Headers = tuple[tuple[str, bytes | None], ...]


class ReadRecord(NamedTuple):
    """One record, with the epoch of the leader that took it, and its idempotent producer if it has one.

    `key` is None where there is no key. A tombstone has no value, and `value` is empty then.
    """

    offset: int
    value: bytes
    epoch: int
    producer: Producer | None = None
    key: bytes | None = None
    is_tombstone: bool = False
    headers: Headers = ()


class AbortedTransaction(NamedTuple):
    """A transaction that a fetch with read_committed says is not to be seen, from its first offset on."""

    producer: int
    first: int


class BatchLayout(NamedTuple):
    """Which offsets a batch takes, and what it is.

    Attributes:
        begin: First offset.
        end: The offset behind the last; compaction may have taken the records of any of them.
        is_control: Whether it is a mark of the brokers' own, the end of a transaction.
        is_aborted: Whether it belongs to a transaction of which read_committed sees nothing.
        records: How many records it has.
        codec: How they are compressed.
        packed: Those records.
    """

    begin: int
    end: int
    is_control: bool
    is_aborted: bool
    records: int
    codec: int
    packed: bytes

    def offsets(self) -> set[int]:
        """Return the offsets that have a record.

        Raises:
            AnswerError: The records cannot be read.
        """
        if self.records == self.end - self.begin:
            return set(range(self.begin, self.end))
        data = _unpacked(self.codec, self.packed)
        found, at = set(), 0
        try:
            for _ in range(self.records):
                length, at = _read_varint(data, at)
                end = at + length
                _, at = _read_varint(data, at + 1)
                delta, _ = _read_varint(data, at)
                found.add(self.begin + delta)
                at = end
        except IndexError:
            raise AnswerError(f"the batch at offset {self.begin} ends within a record") from None
        return found


# Of a batch that is not idempotent.
NOBODY = Producer(-1, -1, -1)


def build_batch(
    value: bytes | None,
    timestamp_ms: int,
    producer: Producer = NOBODY,
    *,
    key: bytes | None = None,
    headers: Headers = (),
) -> bytes:
    """Return a batch with one record; without a value it is a tombstone."""
    body = b"\0" + _varint(0) + _varint(0) + _sized(key) + _sized(value) + _varint(len(headers))
    for name, content in headers:
        body += _sized(name.encode()) + _sized(content)
    covered = _COVERED.pack(0, 0, timestamp_ms, timestamp_ms, producer.id, producer.epoch, producer.sequence, 1)
    covered += _varint(len(body)) + body
    return _PREFIX.pack(0, _PREFIX.size - _LENGTH_BEHIND + len(covered), -1, _MAGIC, crc32c(covered)) + covered


def read_records(data: bytes) -> list[ReadRecord]:
    """Return the records of several batches; the last one may be cut off, as Kafka does.

    Raises:
        AnswerError: A checksum is wrong, or a batch is compressed or of another magic.
    """
    found: list[ReadRecord] = []
    for at, _ in _batches(data):
        base, _, epoch, _, _ = _PREFIX.unpack_from(data, at)
        attributes = _COVERED.unpack_from(data, at + _PREFIX.size)[0]
        if attributes & _CODEC_MASK:
            raise AnswerError(f"the batch at offset {base} is compressed, which no producer of a run asks for")
        if not attributes & _CONTROL:
            found += _records(data, at, base, epoch)
    return found


def read_layout(data: bytes, aborted: Sequence[AbortedTransaction] = ()) -> list[BatchLayout]:
    """Return what the batches of an answer are; the last one may be cut off, as Kafka does.

    Args:
        data: The batches.
        aborted: What the answer says of transactions; nothing, unless it was asked for with read_committed.

    Raises:
        AnswerError: A checksum is wrong, or a batch is of another magic, or contradicts itself.
    """
    found: list[BatchLayout] = []
    to_come = sorted(aborted, key=lambda each: each.first, reverse=True)
    unseen: set[int] = set()
    for at, end in _batches(data):
        base = _PREFIX.unpack_from(data, at)[0]
        attributes, last_delta, _, _, producer, _, _, count = _COVERED.unpack_from(data, at + _PREFIX.size)
        begin_of_next = base + last_delta + 1
        if not 0 <= count <= last_delta + 1 or (found and base < found[-1].end):
            raise AnswerError(f"the batch at offset {base} has {count} records up to offset {begin_of_next - 1}")
        packed = data[at + _HEADER_BYTES : end]
        # As Kafka's own consumer does: a transaction is unseen from its first offset to the mark that aborts it.
        while to_come and to_come[-1].first < begin_of_next:
            unseen.add(to_come.pop().producer)
        is_control = bool(attributes & _CONTROL)
        if is_control and count and _control_type(packed) == _ABORT:
            unseen.discard(producer)
        is_aborted = not is_control and bool(attributes & _TRANSACTIONAL) and producer in unseen
        codec = attributes & _CODEC_MASK
        found.append(BatchLayout(base, begin_of_next, is_control, is_aborted, count, codec, packed))
    return found


def _batches(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where each whole batch begins and ends."""
    at = 0
    while len(data) - at >= _HEADER_BYTES:
        base, length, _, magic, checksum = _PREFIX.unpack_from(data, at)
        end = at + _LENGTH_BEHIND + length
        if end > len(data):
            return
        if magic != _MAGIC or end < at + _HEADER_BYTES or crc32c(data[at + _PREFIX.size : end]) != checksum:
            raise AnswerError(f"the batch at offset {base} is of magic {magic}, or its checksum is wrong")
        yield at, end
        at = end


def _control_type(record: bytes) -> int:
    """Return the type in the key of a control record, which is never compressed: a version, and the type."""
    try:
        _, at = _read_varint(record, 0)
        at += 1  # attributes
        for _ in range(3):  # timestamp, offset, length of the key
            _, at = _read_varint(record, at)
        return int(struct.unpack_from(">h", record, at + 2)[0])
    except (IndexError, struct.error):
        raise AnswerError("a control record ends within its key") from None


def _unpacked(codec: int, packed: bytes) -> bytes:
    try:
        match codec:
            case 0:
                return packed
            case 1:
                return bytes(cramjam.gzip.decompress(packed))
            case 2:
                return _unpacked_snappy(packed)
            case 3:
                return bytes(cramjam.lz4.decompress(packed))
            case 4:
                return bytes(cramjam.zstd.decompress(packed))
    except cramjam.DecompressionError as error:
        raise AnswerError(f"a batch cannot be unpacked: {error}") from error
    raise AnswerError(f"a batch has codec {codec}, which nobody knows")


def _unpacked_snappy(packed: bytes) -> bytes:
    if not packed.startswith(_XERIAL):
        return bytes(cramjam.snappy.decompress_raw(packed))
    blocks, at = [], _XERIAL_HEADER_BYTES
    while at < len(packed):
        end = at + 4 + int.from_bytes(packed[at : at + 4], "big")
        blocks.append(bytes(cramjam.snappy.decompress_raw(packed[at + 4 : end])))
        at = end
    return b"".join(blocks)


def _records(data: bytes, at: int, base: int, epoch: int) -> list[ReadRecord]:
    _, _, _, _, producer_id, producer_epoch, sequence, count = _COVERED.unpack_from(data, at + _PREFIX.size)
    found, at = [], at + _HEADER_BYTES
    for _ in range(count):
        length, at = _read_varint(data, at)
        end = at + length
        _, at = _read_varint(data, at + 1)
        delta, at = _read_varint(data, at)
        key_length, at = _read_varint(data, at)
        key = None if key_length < 0 else data[at : at + key_length]
        value_length, at = _read_varint(data, at + max(0, key_length))
        value = data[at : at + max(0, value_length)]
        producer = Producer(producer_id, producer_epoch, sequence + delta) if producer_id >= 0 else None
        headers = _headers(data, at + max(0, value_length))
        found.append(ReadRecord(base + delta, value, epoch, producer, key, value_length < 0, headers))
        at = end
    return found


def _headers(data: bytes, at: int) -> Headers:
    count, at = _read_varint(data, at)
    found = []
    for _ in range(count):
        size, at = _read_varint(data, at)
        name = data[at : at + size].decode(errors="replace")
        size, at = _read_varint(data, at + size)
        found.append((name, None if size < 0 else data[at : at + size]))
        at += max(0, size)
    return tuple(found)


def _sized(content: bytes | None) -> bytes:
    return _varint(-1) if content is None else _varint(len(content)) + content


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
