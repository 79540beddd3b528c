"""One Raft log entry and its bytes: the fixed header of RFC 0002 followed by the payload.

The same bytes travel between nodes and lie in segment files; only `flushed`, a replica's own mark, is stamped
anew by each replica. Replicas are compared by payload and (index, term, kind, offset, count), never by header.

    0  magic          u32   "RFK1"
    4  payload length u32   0 .. PAYLOAD_BYTES_MAX
    8  index          u64   dense, from 1
   16  term           u64
   24  kind           u8    EntryKind
   25  format         u8    1
   26  reserved       u16   0
   28  record count   u32   records in the payload; of a placeholder the offsets it covers; 0 for other kinds
   32  base offset    i64   the first record's Kafka offset; of an entry without records: the next record's
   40  flushed        u64   this replica's flushed index when it appended the entry
   48  payload crc    u32   CRC32C of the payload; 0 for DATA, whose batch carries its own over bytes 21..
   52  header crc     u32   CRC32C of bytes 0..51 and, for DATA, of the payload's first 21 bytes
   56  payload

A placeholder stands for several entries that log compaction has removed (RFC 0022, section 2). Its payload is their
number, u32, and u32 0.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum

import crc32c
import msgspec

from model.ids import Index, Offset, Term
from model.record_batch import CRC_START, unpack_crc
from storage.errors import CorruptEntryError, UnknownFormatError

Buffer = bytes | bytearray | memoryview

MAGIC = 0x52464B31
FORMAT_VERSION = 1
HEADER = struct.Struct(">IIQQBBHIqQI")
HEADER_CRC = struct.Struct(">I")
HEADER_BYTES = HEADER.size + HEADER_CRC.size
PLACEHOLDER = struct.Struct(">II")
PAYLOAD_BYTES_MAX = 128 * 1024 * 1024

assert HEADER_BYTES == 56


class EntryKind(IntEnum):
    """What an entry's payload is."""

    DATA = 1
    CONFIGURATION = 2
    BARRIER = 3
    COMMAND = 4
    LOG_START = 5
    PLACEHOLDER = 6


_KINDS = {int(kind): kind for kind in EntryKind}


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One log entry. `payload` is never changed once the entry exists."""

    index: Index
    term: Term
    kind: EntryKind
    base_offset: Offset
    record_count: int
    payload: Buffer

    @property
    def last_index(self) -> Index:
        """The last index that this entry stands for: of all but placeholders its own."""
        if self.kind is not EntryKind.PLACEHOLDER:
            return self.index
        return Index(self.index + PLACEHOLDER.unpack(self.payload)[0] - 1)

    @property
    def end_offset(self) -> Offset:
        """The offset of the first record after this entry."""
        return Offset(self.base_offset + self.record_count)

    @property
    def size(self) -> int:
        """Bytes in a segment or on the wire, header included."""
        return HEADER_BYTES + len(self.payload)


class ParsedEntry(msgspec.Struct, frozen=True):
    """An entry as read from bytes, with the mark of the replica that wrote them."""

    entry: Entry
    flushed: Index


def pack_header(entry: Entry, flushed: Index) -> bytes:
    """Return the header bytes of `entry`, stamped with this replica's flushed index."""
    payload = entry.payload
    is_data = entry.kind is EntryKind.DATA
    head = HEADER.pack(
        MAGIC,
        len(payload),
        entry.index,
        entry.term,
        entry.kind,
        FORMAT_VERSION,
        0,
        entry.record_count,
        entry.base_offset,
        flushed,
        0 if is_data else crc32c.crc32c(payload),
    )
    crc = crc32c.crc32c(head)
    if is_data:
        crc = crc32c.crc32c(memoryview(payload)[:CRC_START], crc)
    return head + HEADER_CRC.pack(crc)


class EntryMark(msgspec.Struct, frozen=True):
    """What a header alone tells; of a placeholder whose payload is damaged, `last_index` is its first one."""

    last_index: Index
    term: Term
    flushed: Index


def parse_mark(buffer: memoryview, position: int) -> EntryMark | None:
    """Return what the header at `position` tells, whatever became of the payload; None if the header is not valid."""
    body = position + HEADER_BYTES
    if body > len(buffer):
        return None
    magic, length, index, term, kind, version, _, _, _, flushed, payload_crc = HEADER.unpack_from(buffer, position)
    if magic != MAGIC or version != FORMAT_VERSION:
        return None
    covered = min(length, CRC_START) if kind == EntryKind.DATA else 0
    crc = crc32c.crc32c(buffer[body : body + covered], crc32c.crc32c(buffer[position : position + HEADER.size]))
    if crc != HEADER_CRC.unpack_from(buffer, position + HEADER.size)[0]:
        return None
    entries = 1
    if kind == EntryKind.PLACEHOLDER:
        payload = buffer[body : body + PLACEHOLDER.size]
        if _flaw_of_placeholder(length, payload, payload_crc) is None:
            entries = PLACEHOLDER.unpack(payload)[0]
    return EntryMark(Index(index + entries - 1), Term(term), Index(flushed))


class EntryHead(msgspec.Struct, frozen=True):
    """What the header of a valid entry tells; the payload was not looked at, except of a placeholder: `entries`."""

    index: Index
    term: Term
    kind: EntryKind
    base_offset: Offset
    record_count: int
    flushed: Index
    payload_bytes: int
    payload_crc: int
    entries: int = 1

    @property
    def last_index(self) -> Index:
        """As `Entry.last_index`."""
        return Index(self.index + self.entries - 1)

    @property
    def size(self) -> int:
        """Bytes in a segment, header included."""
        return HEADER_BYTES + self.payload_bytes


def parse_head(buffer: memoryview, position: int) -> EntryHead | None:
    """Read the header at `position`, checking its checksum; None where the bytes end before what that covers.

    Raises:
        CorruptEntryError: The bytes are not an entry, or a checksum is wrong.
        UnknownFormatError: The entry is of a format or kind of a newer version.
    """
    body = position + HEADER_BYTES
    if body > len(buffer):
        return None
    magic, length, index, term, kind, version, _, count, base_offset, flushed, payload_crc = HEADER.unpack_from(
        buffer, position
    )
    if magic != MAGIC:
        raise CorruptEntryError(f"no entry at byte {position}: magic is {magic:#010x}")
    if length > PAYLOAD_BYTES_MAX:
        raise CorruptEntryError(f"entry at byte {position}: payload of {length} bytes is over the maximum")
    known_kind = _KINDS.get(kind)
    covered = min(length, CRC_START) if known_kind is EntryKind.DATA else 0
    if body + covered > len(buffer):
        return None
    crc = crc32c.crc32c(buffer[body : body + covered], crc32c.crc32c(buffer[position : position + HEADER.size]))
    if crc != HEADER_CRC.unpack_from(buffer, position + HEADER.size)[0]:
        raise CorruptEntryError(f"entry at byte {position}: wrong header checksum")
    if version != FORMAT_VERSION or known_kind is None:
        known = f"this version reads format {FORMAT_VERSION}, kinds 1 to {max(_KINDS)}"
        raise UnknownFormatError(f"entry {index} has format {version} and kind {kind}; {known}")
    entries = 1
    if known_kind is EntryKind.PLACEHOLDER:
        payload = buffer[body : body + PLACEHOLDER.size]
        if len(payload) < min(length, PLACEHOLDER.size):
            return None
        flaw = _flaw_of_placeholder(length, payload, payload_crc)
        if flaw is not None:
            raise CorruptEntryError(f"entry {index}: {flaw}")
        entries = PLACEHOLDER.unpack(payload)[0]
    return EntryHead(
        *(Index(index), Term(term), known_kind, Offset(base_offset), count, Index(flushed), length, payload_crc),
        *(entries,),
    )


def _flaw_of_placeholder(length: int, payload: memoryview, payload_crc: int) -> str | None:
    """Return what is wrong with the payload of a placeholder, which says that it has `length` bytes."""
    if length != PLACEHOLDER.size or len(payload) < length:
        return f"a placeholder with a payload of {length} bytes, not {PLACEHOLDER.size}"
    if crc32c.crc32c(payload) != payload_crc:
        return "wrong payload checksum"
    entries, reserved = PLACEHOLDER.unpack(payload)
    if entries == 0 or reserved:
        return f"a placeholder for {entries} entries, reserved field {reserved}"
    return None


def parse_entry(buffer: memoryview, position: int) -> ParsedEntry | None:
    """Read the entry at `position`, checking both checksums.

    Returns None where the bytes end before the entry does (a torn tail, or a read that stopped short); the
    payload is a view into `buffer`.

    Raises:
        CorruptEntryError: The bytes are not an entry, or a checksum is wrong.
        UnknownFormatError: The entry is of a format or kind of a newer version.
    """
    head = parse_head(buffer, position)
    body = position + HEADER_BYTES
    if head is None or body + head.payload_bytes > len(buffer):
        return None
    payload = buffer[body : body + head.payload_bytes]
    _check_payload(head.index, head.kind, payload, head.payload_crc)
    entry = Entry(head.index, head.term, head.kind, head.base_offset, head.record_count, payload)
    return ParsedEntry(entry, head.flushed)


def _check_payload(index: int, kind: EntryKind, payload: memoryview, payload_crc: int) -> None:
    if kind is not EntryKind.DATA:
        if crc32c.crc32c(payload) != payload_crc:
            raise CorruptEntryError(f"entry {index}: wrong payload checksum")
        return
    if len(payload) <= CRC_START:
        raise CorruptEntryError(f"entry {index}: a data payload of {len(payload)} bytes is no record batch")
    if crc32c.crc32c(payload[CRC_START:]) != unpack_crc(payload)[0]:
        raise CorruptEntryError(f"entry {index}: wrong record batch checksum")


def parse_entries(buffer: memoryview) -> Iterator[ParsedEntry]:
    """Yield the entries that lie back to back in `buffer`, which must end with an entry's end.

    Raises:
        CorruptEntryError: Anything else.
    """
    position = 0
    while position < len(buffer):
        parsed = parse_entry(buffer, position)
        if parsed is None:
            raise CorruptEntryError(f"entry at byte {position} is cut off")
        yield parsed
        position += parsed.entry.size
