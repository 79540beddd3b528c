"""Frames on a link: a fixed prefix, a header, a raw payload. Bytes in, frames out; no I/O.

    u32  length of all that follows this field
    u32  length of the header
    u32  CRC32C of the two lengths and the header
    ...  header (cbor2, see codec.py)
    ...  payload (its entries carry their own CRCs)

Integers are big-endian. A damaged length would make the reader wait for bytes that never come, so the CRC covers
the lengths too, and both are bounded before anything is allocated.
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


class FrameReader:
    """Cuts a byte stream into frames, in the shape of `asyncio.BufferedProtocol`.

    Ask `buffer()` where to put bytes, say with `received()` how many came, then call `next_frame()` until it
    returns None. Small frames are copied out of a scratch buffer, once; a large one is received into its own.

    * After a MalformedFrameError the reader is at its end: the stream cannot be trusted to be in step.
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        assert max_frame_bytes <= MAX_FRAME_BYTES
        self._max_frame_bytes = max_frame_bytes
        # No larger than a frame: a stranger in its handshake costs little.
        self._scratch = memoryview(bytearray(min(_SCRATCH_BYTES, max_frame_bytes + 4)))
        # Unread bytes are scratch[start:end], unless a large frame is under way.
        self._start = 0
        self._end = 0
        self._own: memoryview | None = None
        self._own_filled = 0

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
        if self._own is not None:
            return self._own[self._own_filled :]
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
        if self._own is not None:
            self._own_filled += count
        else:
            self._end += count

    def next_frame(self) -> Frame | None:
        """Return the next complete frame, or None until more bytes come.

        Raises:
            MalformedFrameError: The peer sent something else, or more than is allowed.
        """
        if self._own is not None:
            if self._own_filled < len(self._own):
                return None
            own, self._own, self._own_filled = self._own, None, 0
            return _cut(own.toreadonly())
        unread = self._end - self._start
        if unread < _LENGTHS.size:
            return None
        total, header_bytes = _LENGTHS.unpack_from(self._scratch, self._start)
        self._check_lengths(total, header_bytes)
        whole = total + 4
        if unread >= whole:
            data = memoryview(bytes(self._scratch[self._start : self._start + whole]))
            self._start += whole
            return _cut(data)
        if whole > _OWN_BUFFER_BYTES:
            own = memoryview(bytearray(whole))
            own[:unread] = self._scratch[self._start : self._end]
            self._start = self._end = 0
            self._own, self._own_filled = own, unread
        return None

    def _check_lengths(self, total: int, header_bytes: int) -> None:
        if total > self._max_frame_bytes:
            raise MalformedFrameError(f"a frame of {total} bytes; {self._max_frame_bytes} are allowed")
        if header_bytes > MAX_HEADER_BYTES:
            raise MalformedFrameError(f"a header of {header_bytes} bytes; {MAX_HEADER_BYTES} are allowed")
        if header_bytes + _COUNTED_PREFIX_BYTES > total:
            raise MalformedFrameError(f"a header of {header_bytes} bytes in a frame of {total}")


def _cut(data: memoryview) -> Frame:
    _, header_bytes = _LENGTHS.unpack_from(data)
    (expected,) = _CRC.unpack_from(data, _LENGTHS.size)
    header = data[PREFIX_BYTES : PREFIX_BYTES + header_bytes]
    if crc32c(header, crc32c(data[: _LENGTHS.size])) != expected:
        raise MalformedFrameError("the CRC of the header does not match")
    return Frame(header, data[PREFIX_BYTES + header_bytes :])
