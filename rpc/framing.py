"""Frames on a link: a fixed prefix, a header, a raw payload. Bytes in, frames out; no I/O.

    u32  length of all that follows this field
    u32  length of the header
    u32  CRC32C of the two lengths and the header
    ...  header (cbor2, see codec.py)
    ...  payload (its entries carry their own CRCs)

A large frame may come in chunks, between which whole frames may pass; at most one frame is in chunks at a time:

    u32  1 << 31 | length of the chunk's bytes
    u32  CRC32C of the field before
    ...  the next bytes of the frame; the first chunk has at least its prefix, the last one ends where the frame does

Integers are big-endian. A damaged length would make the reader wait for bytes that never come, so the CRCs cover
the lengths too; all are bounded, and as a rule compared, before a buffer of their size is made.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from crc32c import crc32c

from rpc.errors import FrameTooLargeError, MalformedFrameError

Buffer = bytes | bytearray | memoryview

MAX_FRAME_BYTES = 160 << 20
MAX_HEADER_BYTES = 4 << 20

_LENGTHS = struct.Struct(">II")
_CRC = struct.Struct(">I")
PREFIX_BYTES = _LENGTHS.size + _CRC.size

# Of one chunk's bytes. What may pass waits for the one that is under way, for 0.64 s if the link has just become as
# slow as 100 KiB/s; with 256 KiB an election began there, and a fast link gained nothing.
MAX_CHUNK_BYTES = 64 << 10

_CHUNK_FLAG = 1 << 31
_CHUNK_WORD = struct.Struct(">I")
_CHUNK_HEAD = struct.Struct(">II")
CHUNK_HEAD_BYTES = _CHUNK_HEAD.size

# What the total length counts besides header and payload.
_COUNTED_PREFIX_BYTES = PREFIX_BYTES - 4

_SCRATCH_BYTES = 64 << 10
# A partial frame longer than this gets its own buffer at once, and the socket is read straight into it.
_OWN_BUFFER_BYTES = _SCRATCH_BYTES // 2


class Frame(NamedTuple):
    """One frame. Both views are read-only and stay valid: their memory is never written again."""

    header: memoryview
    payload: memoryview


def frame_prefix(header: bytes, payload_bytes: int) -> bytes:
    """Return the 12 bytes that go before `header` and `payload_bytes` of payload.

    Raises:
        FrameTooLargeError: No reader would take this frame.
    """
    if len(header) > MAX_HEADER_BYTES:
        raise FrameTooLargeError(f"a header of {len(header)} bytes; {MAX_HEADER_BYTES} are allowed")
    total = _COUNTED_PREFIX_BYTES + len(header) + payload_bytes
    if total > MAX_FRAME_BYTES:
        raise FrameTooLargeError(f"a frame of {total} bytes; {MAX_FRAME_BYTES} are allowed")
    lengths = _LENGTHS.pack(total, len(header))
    return lengths + _CRC.pack(crc32c(header, crc32c(lengths)))


def encode_frame(header: bytes, buffers: Iterable[Buffer] = ()) -> bytes:
    """Return one whole frame, joined. The writer does not use this: it never joins a payload itself.

    Raises:
        FrameTooLargeError: No reader would take this frame.
    """
    payload = b"".join(buffers)
    return frame_prefix(header, len(payload)) + header + payload


def chunk_head(chunk_bytes: int) -> bytes:
    """Return what goes before a chunk of so many bytes (1..MAX_CHUNK_BYTES)."""
    assert 0 < chunk_bytes <= MAX_CHUNK_BYTES
    word = _CHUNK_WORD.pack(_CHUNK_FLAG | chunk_bytes)
    return word + _CRC.pack(crc32c(word))


class _Incomplete:
    """A frame in a buffer of its own, of which `filled` bytes have come."""

    __slots__ = ("data", "filled")

    def __init__(self, frame_bytes: int) -> None:
        self.data = memoryview(bytearray(frame_bytes))
        self.filled = 0

    @property
    def missing(self) -> int:
        return len(self.data) - self.filled

    def append(self, piece: memoryview) -> None:
        self.data[self.filled : self.filled + len(piece)] = piece
        self.filled += len(piece)


class FrameReader:
    """Cuts a byte stream into frames, in the shape of `asyncio.BufferedProtocol`.

    Ask `buffer()` where to put bytes, say with `received()` how many came, then call `next_frame()` until it
    returns None. Small frames are copied out of a scratch buffer, once; large frames and chunks are received into
    the frame's own.

    * It holds at most two incomplete frames: one in chunks, and one that passes it.
    * After a MalformedFrameError the reader is at its end: the stream cannot be trusted to be in step.
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        assert max_frame_bytes <= MAX_FRAME_BYTES
        self._max_frame_bytes = max_frame_bytes
        # No larger than a frame: a stranger in its handshake costs little.
        self._scratch = memoryview(bytearray(min(_SCRATCH_BYTES, max_frame_bytes + 4)))
        # Unread bytes are scratch[start:end]; none while bytes are received straight into a frame.
        self._start = 0
        self._end = 0
        self._whole: _Incomplete | None = None
        self._chunked: _Incomplete | None = None
        # Bytes of the current chunk that have not been taken yet.
        self._chunk_left = 0
        # Where the bytes of the last `buffer()` go; None is the scratch buffer.
        self._straight: _Incomplete | None = None

    def allow(self, max_frame_bytes: int) -> None:
        """Set the bound for frames not yet returned (total length as in the prefix)."""
        assert max_frame_bytes <= MAX_FRAME_BYTES
        self._max_frame_bytes = max_frame_bytes
        size = min(_SCRATCH_BYTES, max_frame_bytes + 4)
        if size > len(self._scratch):
            grown = memoryview(bytearray(size))
            grown[: len(self._scratch)] = self._scratch
            self._scratch = grown

    def buffer(self) -> memoryview:
        """Return where the next bytes go; never empty."""
        self._straight = None
        if self._whole is not None:
            self._straight = self._whole
            return self._whole.data[self._whole.filled :]
        if self._chunked is not None and self._chunk_left > _OWN_BUFFER_BYTES:
            self._straight = self._chunked
            return self._chunked.data[self._chunked.filled : self._chunked.filled + self._chunk_left]
        if self._start == self._end:
            self._start = self._end = 0
        elif self._start > 0:
            unread = self._end - self._start
            # Through bytes: the two regions may overlap.
            self._scratch[:unread] = bytes(self._scratch[self._start : self._end])
            self._start, self._end = 0, unread
        return self._scratch[self._end :]

    def received(self, count: int) -> None:
        """Say that `count` bytes were put into the last `buffer()`."""
        if self._straight is None:
            self._end += count
            return
        self._straight.filled += count
        if self._straight is self._chunked:
            self._chunk_left -= count

    def next_frame(self) -> Frame | None:
        """Return the next complete frame, or None until more bytes come.

        Raises:
            MalformedFrameError: The peer sent something else, or more than is allowed.
        """
        if self._whole is not None:
            if self._whole.missing:
                return None
            whole, self._whole = self._whole, None
            return _cut(whole.data.toreadonly())
        while True:
            if self._chunked is not None:
                self._take_from_scratch(self._chunked)
                if not self._chunked.missing:
                    chunked, self._chunked = self._chunked, None
                    return _cut(chunked.data.toreadonly())
                if self._chunk_left:
                    return None
            unread = self._end - self._start
            if unread < _LENGTHS.size:
                return None
            first, second = _LENGTHS.unpack_from(self._scratch, self._start)
            if not first & _CHUNK_FLAG:
                return self._next_whole_frame(first, second, unread)
            if not self._begin_chunk(first, second, unread):
                return None

    def _next_whole_frame(self, total: int, header_bytes: int, unread: int) -> Frame | None:
        self._check_lengths(total, header_bytes)
        whole = total + 4
        if unread >= whole:
            data = memoryview(bytes(self._scratch[self._start : self._start + whole]))
            self._start += whole
            return _cut(data)
        if self._has_sound_header(0, header_bytes, unread) and whole > _OWN_BUFFER_BYTES:
            self._whole = _Incomplete(whole)
            self._whole.append(self._scratch[self._start : self._end])
            self._start = self._end = 0
        return None

    def _begin_chunk(self, word: int, crc: int, unread: int) -> bool:
        """Read a chunk's head, and the prefix of its frame if it is the first; False until enough bytes came."""
        chunk_bytes = word & ~_CHUNK_FLAG
        if crc32c(self._scratch[self._start : self._start + _CHUNK_WORD.size]) != crc:
            raise MalformedFrameError("the CRC of a chunk's length does not match")
        if self._chunked is None:
            if unread < CHUNK_HEAD_BYTES + _LENGTHS.size:
                return False
            total, header_bytes = _LENGTHS.unpack_from(self._scratch, self._start + CHUNK_HEAD_BYTES)
            self._check_lengths(total, header_bytes)
            if not PREFIX_BYTES <= chunk_bytes <= min(total + 4, MAX_CHUNK_BYTES):
                raise MalformedFrameError(f"a first chunk of {chunk_bytes} bytes for a frame of {total}")
            if PREFIX_BYTES + header_bytes <= chunk_bytes and not self._has_sound_header(
                CHUNK_HEAD_BYTES, header_bytes, unread
            ):
                return False
            self._chunked = _Incomplete(total + 4)
        elif not 0 < chunk_bytes <= min(self._chunked.missing, MAX_CHUNK_BYTES):
            raise MalformedFrameError(f"a chunk of {chunk_bytes} bytes where {self._chunked.missing} are missing")
        self._start += CHUNK_HEAD_BYTES
        self._chunk_left = chunk_bytes
        return True

    def _has_sound_header(self, skipped: int, header_bytes: int, unread: int) -> bool:
        """Compare the CRC before anything is made as large as a length says; False until enough bytes came.

        A header that the scratch buffer cannot hold is compared with the whole frame only.
        """
        end = skipped + PREFIX_BYTES + header_bytes
        if end > len(self._scratch):
            return True
        if unread < end:
            return False
        begin = self._start + skipped
        _sound_header(self._scratch[begin : begin + PREFIX_BYTES + header_bytes])
        return True

    def _take_from_scratch(self, frame: _Incomplete) -> None:
        count = min(self._chunk_left, self._end - self._start)
        if count:
            frame.append(self._scratch[self._start : self._start + count])
            self._start += count
            self._chunk_left -= count

    def _check_lengths(self, total: int, header_bytes: int) -> None:
        if total > self._max_frame_bytes:
            raise MalformedFrameError(f"a frame of {total} bytes; {self._max_frame_bytes} are allowed")
        if header_bytes > MAX_HEADER_BYTES:
            raise MalformedFrameError(f"a header of {header_bytes} bytes; {MAX_HEADER_BYTES} are allowed")
        if header_bytes + _COUNTED_PREFIX_BYTES > total:
            raise MalformedFrameError(f"a header of {header_bytes} bytes in a frame of {total}")


def _cut(data: memoryview) -> Frame:
    _, header_bytes = _LENGTHS.unpack_from(data)
    end = PREFIX_BYTES + header_bytes
    return Frame(_sound_header(data[:end]), data[end:])


def _sound_header(data: memoryview) -> memoryview:
    """Return the header of a frame's prefix and header."""
    (expected,) = _CRC.unpack_from(data, _LENGTHS.size)
    header = data[PREFIX_BYTES:]
    if crc32c(header, crc32c(data[: _LENGTHS.size])) != expected:
        raise MalformedFrameError("the CRC of the header does not match")
    return header
