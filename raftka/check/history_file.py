"""Reads histories: JSON lines, in chunks, with the number of the line that is wrong."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import SEEK_END
from pathlib import Path
from typing import BinaryIO

import msgspec

from raftka.check.errors import HistoryError
from raftka.check.operations import Line

# Small enough that what is decoded is still in the processor's caches when columns are made of it.
CHUNK_BYTES = 1024 * 1024
_SHOWN_CHARACTERS = 120
# No JSON or another shape; no UTF-8; nested beyond what the decoder follows.
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_decoder: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


@dataclass(frozen=True, slots=True)
class Part:
    """Some chunks of a file: the lines that end in them. The parts of a file are read as the file is.

    Attributes:
        begin: The first chunk.
        end: The chunk behind the last one; None: to the end of the file.
        first_line: The number of the first line that ends there.
        name: What the file is called when something is said of it; None: its path.
    """

    begin: int = 0
    end: int | None = None
    first_line: int = 1
    name: str | None = None


WHOLE = Part()


def read_lines(
    path: Path, part: Part = WHOLE, note: Callable[[int], None] | None = None
) -> Iterator[tuple[int, list[Line]]]:
    """Yield (number of the first line, operations), chunk by chunk; numbers begin at 1. No line is left out.

    Args:
        path: The file.
        part: Which of its chunks.
        note: Called with the number of bytes of each chunk that is read.

    Raises:
        HistoryError: The file is empty or cut short, or a line is no operation.
        OSError: The file cannot be read.
    """
    number = part.first_line
    name = part.name or str(path)
    with path.open("rb") as stream:
        # A line may be longer than a chunk.
        pieces = [_begun_before(stream, part.begin * CHUNK_BYTES)]
        at = part.begin
        while at != part.end and (chunk := stream.read(CHUNK_BYTES)):
            at += 1
            if note is not None:
                note(len(chunk))
            whole, newline, tail = chunk.rpartition(b"\n")
            if not newline:
                pieces.append(chunk)
                continue
            operations = _decoded(name, number, b"".join([*pieces, whole]))
            pieces = [tail]
            yield number, operations
            number += len(operations)
    if part.end is not None:
        # What is left ends in the next part.
        return
    rest = b"".join(pieces)
    if rest.strip():
        yield number, [_last(name, number, rest)]
        number += 1
    if number == 1:
        raise HistoryError(f"{name} is empty: there is nothing to judge")


def count_lines(path: Path, begin: int, end: int | None) -> int:
    """Return how many lines end in some chunks; one that nothing ends, the last of a file, is not counted.

    Raises:
        OSError: The file cannot be read.
    """
    lines, at = 0, begin
    with path.open("rb") as stream:
        stream.seek(begin * CHUNK_BYTES)
        while at != end and (chunk := stream.read(CHUNK_BYTES)):
            lines += chunk.count(b"\n")
            at += 1
    return lines


def has_open_end(path: Path) -> bool:
    """Return whether there is a line behind the last newline of a file.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as stream:
        return bool(_begun_before(stream, stream.seek(0, SEEK_END)).strip())


def _begun_before(stream: BinaryIO, begin: int) -> bytes:
    """Return the bytes of the line that has begun before a place, up to there; the stream stands there then."""
    pieces: list[bytes] = []
    end = begin
    while end > 0:
        start = max(0, end - CHUNK_BYTES)
        stream.seek(start)
        chunk = stream.read(end - start)
        end = start
        _, newline, tail = chunk.rpartition(b"\n")
        pieces.append(tail)
        if newline:
            break
    stream.seek(begin)
    return b"".join(reversed(pieces))


def _decoded(name: str, first: int, lines: bytes) -> list[Line]:
    try:
        operations = _decoder.decode_lines(lines)
    except _UNREADABLE:
        operations = []
    if len(operations) == lines.count(b"\n") + 1:
        return operations
    # Something is wrong, or a line is empty, which the fast way passes over: once more, to say where.
    return [_one(name, number, line) for number, line in enumerate(lines.split(b"\n"), first)]


def _one(name: str, number: int, line: bytes) -> Line:
    if not line.strip():
        raise HistoryError(f"{name}:{number}: empty")
    try:
        return _decoder.decode(line)
    except _UNREADABLE as error:
        shown = line[:_SHOWN_CHARACTERS].decode(errors="replace")
        raise HistoryError(f"{name}:{number}: {error}: {shown}") from error


def _last(name: str, number: int, line: bytes) -> Line:
    """Return the last line, which has no newline behind it: whoever wrote it may have been cut short."""
    try:
        return _decoder.decode(line)
    except _UNREADABLE as error:
        raise HistoryError(f"{name}:{number}: the history is cut short in its last line ({error})") from error
