"""A stream of bytes that is read up to a delimiter or for a number of bytes, and no further than there is input."""

from typing import Protocol

from raftka.cli.exit_codes import CommandError

_CHUNK_BYTES = 64 * 1024


class ByteStream(Protocol):
    """What is read of a stream of bytes."""

    def readline(self, size: int, /) -> bytes:
        """Return a line, or as many bytes; empty at the end."""

    def read1(self, size: int, /) -> bytes:
        """Return what there is by now, at most so many bytes; empty at the end."""


class InputBuffer:
    """Bytes of a stream that are read and not yet taken; never more than `most` and a chunk."""

    def __init__(self, stream: ByteStream, most: int) -> None:
        self._stream = stream
        self._most = most
        self._held = bytearray()
        self._begin = 0
        self._is_exhausted = False

    def is_at_end(self) -> bool:
        """Return whether nothing is left; waits for input."""
        return self._begin == len(self._held) and not self._read()

    def peek(self, most: int) -> bytes:
        """Return the next bytes that are there, without taking them."""
        return bytes(self._held[self._begin : self._begin + most])

    def skip(self, text: bytes) -> bool:
        """Take `text` if it comes next; return whether it did."""
        while len(self._held) - self._begin < len(text) and self._read():
            pass
        if not self._held.startswith(text, self._begin):
            return False
        self._begin += len(text)
        return True

    def exactly(self, size: int) -> bytes | None:
        """Take so many bytes; None where fewer are left."""
        while len(self._held) - self._begin < size:
            if not self._read():
                return None
        return self._take(size)

    def until(self, delimiter: bytes | None, is_end_enough: bool) -> bytes | None:
        """Take what stands before a delimiter, and the delimiter.

        Args:
            delimiter: None takes all that is left.
            is_end_enough: The end of the input stands for the delimiter.

        Returns:
            None where the input ends without it.
        """
        searched = self._begin
        while delimiter is None or (found := self._held.find(delimiter, searched)) < 0:
            # The delimiter may lie across the border of two reads.
            overlap = 0 if delimiter is None else len(delimiter) - 1
            taken_before = self._begin
            searched = max(self._begin, len(self._held) - overlap)
            if not self._read():
                return self._take(len(self._held) - self._begin) if is_end_enough or delimiter is None else None
            searched -= taken_before - self._begin
        data = self._take(found - self._begin)
        self._begin += len(delimiter)
        return data

    def _take(self, size: int) -> bytes:
        data = bytes(self._held[self._begin : self._begin + size])
        self._begin += size
        return data

    def _read(self) -> bool:
        """Read what there is, at least a byte; return False at the end. What was taken makes room."""
        if self._is_exhausted:
            return False
        if self._begin > 0:
            del self._held[: self._begin]
            self._begin = 0
        if len(self._held) > self._most:
            raise CommandError(f"{len(self._held)} bytes or more exceed the limit of a record")
        # `read1` returns what a pipe has by now, so that somebody who types is heard.
        chunk = self._stream.read1(_CHUNK_BYTES)
        self._is_exhausted = not chunk
        self._held += chunk
        return bool(chunk)
