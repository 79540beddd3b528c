"""The entries of one segment file in order, and what lies between them: damage, or bytes made ahead.

Recovery stops at the first damage. This walk goes on behind it: if the header of the damaged entry is whole, at the end
of that entry; else at the next valid header.
"""

from collections.abc import Iterator
from typing import NamedTuple

from model.error_text import reason_of
from runtime.files import File
from storage.entry import FORMAT_VERSION, HEADER, HEADER_BYTES, MAGIC, EntryHead, ParsedEntry, parse_head, parse_mark
from storage.errors import CorruptEntryError, CorruptLogError, UnknownFormatError
from storage.segment import SegmentView, scan

_MAGIC_BYTES = MAGIC.to_bytes(4, "big")
_CHUNK_BYTES = 1024 * 1024
# A header, and of a batch what the checksum of the header covers.
_HEAD_BYTES = HEADER_BYTES + 64


class Found(NamedTuple):
    """An entry whose checksums are right, and its position in the file."""

    position: int
    parsed: ParsedEntry


class Blank(NamedTuple):
    """Zeros up to the end of the file: it was made longer ahead of what was written."""

    position: int
    size: int


class Damage(NamedTuple):
    """Bytes that are no valid entry.

    Attributes:
        position: Where they begin.
        size: How many are left out; 0 if nothing is.
        reason: What is wrong, in words.
        head: The header of the entry there, if that is whole.
        is_unread: The system gave no bytes: what they are is not known.
    """

    position: int
    size: int
    reason: str
    head: EntryHead | None = None
    is_unread: bool = False


def walk(file: File, path: str, size: int) -> Iterator[Found | Blank | Damage]:
    """Yield what lies in the first `size` bytes of a segment. Blocking."""
    position = 0
    while position < size:
        reason = None
        try:
            for at, parsed in scan(SegmentView(path, file, position, size)):
                yield Found(at, parsed)
                position = at + parsed.entry.size
        except (CorruptLogError, UnknownFormatError) as error:
            reason = reason_of(error.__cause__ or error)
        except OSError as error:
            yield Damage(position, size - position, f"it cannot be read: {reason_of(error)}", is_unread=True)
            return
        if position >= size:
            return
        try:
            found = _gap(file, position, size, reason)
        except OSError as error:
            found = Damage(position, size - position, f"it cannot be read: {reason_of(error)}", is_unread=True)
        yield found
        position += found.size


def _gap(file: File, position: int, size: int, reason: str | None) -> Blank | Damage:
    """Return what lies at `position`, where no valid entry does; it is never empty."""
    if _is_blank(file, position, size):
        return Blank(position, size - position)
    head = _head_at(file, position)
    end = size if reason is None else _end_of_damage(file, position, size, head)
    return Damage(position, end - position, reason or "the file ends within an entry", head)


def _head_at(file: File, position: int) -> EntryHead | None:
    try:
        return parse_head(memoryview(file.pread(_HEAD_BYTES, position)), 0)
    except CorruptEntryError:
        return None


def _end_of_damage(file: File, position: int, size: int, head: EntryHead | None) -> int:
    """Return where to go on: behind an entry whose header is whole, else at the next valid header."""
    if head is not None:
        return min(position + head.size, size)
    content = memoryview(file.pread(_HEAD_BYTES, position))
    if len(content) >= HEADER.size:
        magic, length, _, _, _, version, *_ = HEADER.unpack_from(content)
        if magic == MAGIC and version > FORMAT_VERSION and position + HEADER_BYTES + length < size:
            behind = position + HEADER_BYTES + length
            # An entry of a newer format, if another one follows it.
            if _is_head(file, behind):
                return int(behind)
    at = position + 1
    while at < size:
        data = file.pread(min(_CHUNK_BYTES, size - at), at)
        found = data.find(_MAGIC_BYTES)
        while found >= 0:
            if _is_head(file, at + found):
                return at + found
            found = data.find(_MAGIC_BYTES, found + 1)
        if len(data) < len(_MAGIC_BYTES):
            break
        # A magic may lie across the border.
        at += max(1, len(data) - len(_MAGIC_BYTES) + 1)
    return size


def _is_head(file: File, position: int) -> bool:
    content = memoryview(file.pread(_HEAD_BYTES, position))
    return parse_mark(content, 0) is not None


def _is_blank(file: File, position: int, size: int) -> bool:
    while position < size:
        data = file.pread(min(_CHUNK_BYTES, size - position), position)
        if not data or data.count(0) < len(data):
            return False
        position += len(data)
    return True
