"""Payloads that leave the node straight from segment files, without being read into memory (`sendfile`).

A range is that of a committed entry that was verified since the log was opened (`storage.verified_ranges`). Nothing
changes these bytes: committed entries are never truncated, and the blocks of a removed segment are not used again while
its file is open. A range holds no descriptor: each call opens the file if need be, and a segment that was removed and
closed meanwhile ends the response, and with it the connection.
"""

import contextlib
import os
import socket
from collections.abc import Sequence
from typing import NamedTuple

from model.error_text import reason_of
from runtime.open_files import NO_DESCRIPTORS, CachedFile, FileGoneError
from storage.errors import CorruptLogError, LogTruncatedError, OpenFilesError
from storage.log_health import LogHealth
from storage.log_jobs import LogJobs

# What is read for the transport where a socket takes no more; and where there is none (in a simulated network), so that
# a response is sent in many steps there, too.
_PIECE_BYTES, _PIECE_BYTES_WITHOUT_SOCKET = 64 * 1024, 1024


class SentBytes:
    """Bytes that sockets took straight from files."""

    def __init__(self) -> None:
        self.total = 0


class RangeSource(NamedTuple):
    """What the ranges of one log share."""

    jobs: LogJobs
    health: LogHealth
    sent: SentBytes


class FileRange:
    """One payload: `len` bytes of a file, with so many records."""

    __slots__ = ("_size", "file", "position", "record_count", "source")

    def __init__(self, source: RangeSource, file: CachedFile, position: int, size: int, record_count: int) -> None:
        self.source = source
        self.file = file
        self.position = position
        self.record_count = record_count
        self._size = size

    def __len__(self) -> int:
        return self._size


class SocketCopy:
    """A descriptor of its own for a socket: a thread may write to it while the loop closes the connection.

    Without it the number could be another connection's by the time the thread writes. It is closed when nobody uses it.
    """

    __slots__ = ("_socket", "descriptor")

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=os.dup(descriptor))  # noqa: TID251 - of a connection that a Network has made
        self.descriptor = self._socket.fileno()

    def __del__(self) -> None:
        # Without a descriptor there was no socket.
        with contextlib.suppress(AttributeError):
            self._socket.close()

    def cork(self, *, is_corked: bool) -> None:
        """Let the kernel send full packets only, until it may send the rest: a response wakes its client once."""
        # Not every socket is one of TCP, or is still connected.
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, is_corked)

    def shut_down(self) -> None:
        """End the connection for its client, whoever has a copy."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


class RangeSender:
    """What is left to send of some ranges of one log, not empty."""

    def __init__(self, ranges: Sequence[FileRange]) -> None:
        self._ranges = list(ranges)
        self._source = ranges[0].source
        # Of the first one that is left, what is gone.
        self._skip = 0

    def __bool__(self) -> bool:
        """Whether anything is left."""
        return bool(self._ranges)

    def send_cached(self, to: SocketCopy) -> bytes:
        """As `send`, as far as bytes are in the page cache; waits for nothing.

        What is in the way here is left to `send`: then nothing is returned, and something is left.
        """
        if self._source.jobs.hangs:
            return b""
        while self._ranges:
            first = self._ranges[0]
            position, left = first.position + self._skip, len(first) - self._skip
            try:
                count = first.file.send_cached(to.descriptor, left, position)
                if not count:
                    return b""
            except BlockingIOError:
                return self._cached_piece(first.file, min(left, _PIECE_BYTES), position)
            except OSError:
                return b""
            self._source.sent.total += count
            self._drop(count)
        return b""

    def _cached_piece(self, file: CachedFile, size: int, position: int) -> bytes:
        try:
            piece = file.pread_cached(size, position)
        except OSError:
            return b""
        if len(piece) < size:
            return b""
        self._drop(size)
        return piece

    async def send(self, to: SocketCopy | None) -> bytes:
        """Hand a socket that does not block what it takes; return the next bytes where it takes no more.

        At the end, b"".

        Whoever gets bytes sends them, and calls again. Without a socket all bytes are returned so.

        Raises:
            StorageError: The rest cannot be read: the segment is gone, or damaged, or the disk does not answer.
        """
        try:
            taken, piece = await self._source.jobs.read(lambda: _send(self._ranges, self._skip, to))
        except FileGoneError as error:
            raise LogTruncatedError("the segment was removed while it was sent") from error
        except CorruptLogError as error:
            self._source.health.report_damage(error)
            raise
        except OSError as error:
            if error.errno in NO_DESCRIPTORS:
                raise OpenFilesError(f"{reason_of(error)}: raise `ulimit -n`") from error
            damage = CorruptLogError(f"the disk cannot be read: {reason_of(error)}", self._ranges[0].file.path)
            self._source.health.report_damage(damage)
            raise damage from error
        self._source.sent.total += taken
        self._drop(taken + len(piece))
        return piece

    def _drop(self, count: int) -> None:
        count += self._skip
        while self._ranges and count >= len(self._ranges[0]):
            count -= len(self._ranges.pop(0))
        assert not count or self._ranges
        self._skip = count


def _send(ranges: Sequence[FileRange], skip: int, to: SocketCopy | None) -> tuple[int, bytes]:
    """On a worker: return the bytes that the socket took, and what follows them if it takes no more."""
    taken = 0
    for each in ranges:
        position, end = each.position + skip, each.position + len(each)
        skip = 0
        while position < end:
            count = 0
            if to is not None:
                try:
                    count = each.file.send(to.descriptor, end - position, position)
                except FileGoneError:
                    raise
                except OSError:
                    # The socket is full or has failed, or the disk has: whoever reads or writes next meets it.
                    count = 0
            if not count:
                size = min(end - position, _PIECE_BYTES if to is not None else _PIECE_BYTES_WITHOUT_SOCKET)
                piece = each.file.pread(size, position)
                if len(piece) < size:
                    raise CorruptLogError(f"{each.file.path} is shorter than it was", each.file.path)
                return taken, piece
            taken += count
            position += count
    return taken, b""
