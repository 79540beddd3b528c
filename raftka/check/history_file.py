"""Reads histories: JSON lines, in chunks, with the number of the line that is wrong."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from raftka.check.errors import HistoryError
from raftka.check.operations import Line

# Small enough that what is decoded is still in the processor's caches when columns are made of it.
_CHUNK_BYTES = 1024 * 1024
_SHOWN_CHARACTERS = 120
# No JSON or another shape; no UTF-8; nested beyond what the decoder follows.
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_decoder: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


def read_lines(path: Path) -> Iterator[tuple[int, list[Line]]]:
    """Yield (number of the first line, operations), chunk by chunk; numbers begin at 1. No line is left out.

    Raises:
        HistoryError: The file is empty or cut short, or a line is no operation.
        OSError: The file cannot be read.
    """
    number = 1
    # A line may be longer than a chunk.
    pieces: list[bytes] = []
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            whole, newline, tail = chunk.rpartition(b"\n")
            if not newline:
                pieces.append(chunk)
                continue
            operations = _decoded(path, number, b"".join([*pieces, whole]))
            pieces = [tail]
            yield number, operations
            number += len(operations)
    rest = b"".join(pieces)
    if rest.strip():
        yield number, [_last(path, number, rest)]
        number += 1
    if number == 1:
        raise HistoryError(f"{path} is empty: there is nothing to judge")


def _decoded(path: Path, first: int, lines: bytes) -> list[Line]:
    try:
        operations = _decoder.decode_lines(lines)
    except _UNREADABLE:
        operations = []
    if len(operations) == lines.count(b"\n") + 1:
        return operations
    # Something is wrong, or a line is empty, which the fast way passes over: once more, to say where.
    return [_one(path, number, line) for number, line in enumerate(lines.split(b"\n"), first)]


def _one(path: Path, number: int, line: bytes) -> Line:
    if not line.strip():
        raise HistoryError(f"{path}:{number}: empty")
    try:
        return _decoder.decode(line)
    except _UNREADABLE as error:
        shown = line[:_SHOWN_CHARACTERS].decode(errors="replace")
        raise HistoryError(f"{path}:{number}: {error}: {shown}") from error


def _last(path: Path, number: int, line: bytes) -> Line:
    """Return the last line, which has no newline behind it: whoever wrote it may have been cut short."""
    try:
        return _decoder.decode(line)
    except _UNREADABLE as error:
        raise HistoryError(f"{path}:{number}: the history is cut short in its last line ({error})") from error
