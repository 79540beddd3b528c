"""Responses cut into pieces, for a kernel that takes as much as it has room for, and a transport that copies the rest.

A transport sends what the kernel takes at once and copies what it does not. So large responses go to the kernel
directly (`gather`), a megabyte in one call, and the transport gets a small piece only when the kernel is full: it is
the one who waits for room. Measured with 1 MiB responses on loopback: 1.3 times the bytes a second.
"""

import os
from collections import deque
from collections.abc import Iterator, Sequence

from kafka_api.protocol.message_classes import Buffer

# What a transport may have to copy.
COPIED_BYTES_MAX = 64 * 1024
# Below this, joining costs less than a piece of its own.
_JOIN_BYTES = 16 * 1024
_JOINED_BYTES_MAX = 256 * 1024
# Of one call to the kernel, which takes some 4 MiB at most; POSIX allows 1,024 pieces.
_GATHERED_BYTES = 1024 * 1024
_GATHERED_PIECES_MAX = 1024


def joined(buffers: Sequence[Buffer]) -> Iterator[Buffer]:
    """Yield the bytes of `buffers`: what is small joined, what is large as it is."""
    small: list[Buffer] = []
    small_bytes = 0
    for buffer in buffers:
        if len(buffer) < _JOIN_BYTES:
            small.append(buffer)
            small_bytes += len(buffer)
            if small_bytes >= _JOINED_BYTES_MAX:
                yield b"".join(small)
                small, small_bytes = [], 0
            continue
        if small:
            yield b"".join(small)
            small, small_bytes = [], 0
        yield buffer
    if small:
        yield b"".join(small)


class ResponsePieces:
    """What is left to send of one response."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self._source: Iterator[Buffer] | None = joined(buffers)
        self._pieces: deque[memoryview] = deque()
        self._bytes = 0
        self._fill()

    def __len__(self) -> int:
        """Bytes of the next pieces; 0 once everything is sent."""
        return self._bytes

    def take(self) -> memoryview:
        """Return the next piece, of COPIED_BYTES_MAX at most; whoever takes it sends all of it."""
        piece = self._pieces[0][:COPIED_BYTES_MAX]
        self._drop(len(piece))
        return piece

    def write_to(self, descriptor: int) -> None:
        """Hand a socket that does not block as much as it takes.

        Errors are left to the transport, whose next write meets them, too.
        """
        while self._pieces:
            wanted = self._bytes
            try:
                written = os.writev(descriptor, self._pieces)
            except OSError:
                return
            self._drop(written)
            if written < wanted:
                return

    def _drop(self, count: int) -> None:
        self._bytes -= count
        if not self._bytes:
            # Most often the kernel takes all of them.
            self._pieces.clear()
            count = 0
        while count:
            piece = self._pieces[0]
            if len(piece) > count:
                self._pieces[0] = piece[count:]
                break
            count -= len(piece)
            self._pieces.popleft()
        self._fill()

    def _fill(self) -> None:
        while self._source and self._bytes < _GATHERED_BYTES and len(self._pieces) < _GATHERED_PIECES_MAX:
            piece = next(self._source, None)
            if piece is None:
                self._source = None
                return
            # An empty piece would never be dropped.
            if len(piece):
                self._pieces.append(memoryview(piece))
                self._bytes += len(piece)
