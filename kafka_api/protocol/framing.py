"""Length-prefixed frames out of a byte stream, without I/O of its own.

Made for `asyncio.BufferedProtocol`, whose names it has: `get_buffer` is where the next bytes are to be received,
`buffer_updated` says how many came and returns the frames that are complete by then.
Each frame has memory of its own, which is never written again.
"""

import mmap
import struct

from kafka_api.protocol.errors import InvalidFrameSizeError
from kafka_api.protocol.message_classes import Buffer

FRAME_BYTES_MAX = 100 * 1024 * 1024

_PREFIX = struct.Struct(">i")
_CHUNK_BYTES = 64 * 1024

# From here on a frame's memory is mapped: pages come into being as bytes arrive, so a client that announces 100 MiB
# and sends none costs address space only, and nothing is zeroed on the loop.
_MAPPED_BYTES_MIN = 1024 * 1024


class FrameSplitter:
    """Splits what one connection receives.

    Small frames are received many at a time into one chunk and copied out of it. A frame that does not fit in the chunk
    gets memory of its length once that is known, and the rest of it is received straight into that memory.

    After an error the stream has no frame boundaries any more: the connection must be closed.
    """

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX, *, chunk_bytes: int = _CHUNK_BYTES) -> None:
        assert chunk_bytes > _PREFIX.size
        self._frame_bytes_max = frame_bytes_max
        self._chunk = memoryview(bytearray(chunk_bytes))
        self._filled = 0
        # The frame that is received into memory of its own, and how much of it is there.
        self._large: memoryview | None = None
        self._large_filled = 0

    @property
    def pending_bytes(self) -> int:
        """Bytes of the incomplete frame's memory, 0 if it has none of its own yet: what a budget should count."""
        return 0 if self._large is None else len(self._large)

    def get_buffer(self, sizehint: int = -1) -> memoryview:
        """Return where the next bytes belong, whatever the hint; never empty. Valid until `buffer_updated`."""
        if self._large is not None:
            return self._large[self._large_filled :]
        return self._chunk[self._filled :]

    def buffer_updated(self, nbytes: int) -> list[memoryview]:
        """Take note of `nbytes` bytes written to the front of `get_buffer()`.

        Returns:
            The frames that are complete now, in their order, without their length prefixes.

        Raises:
            InvalidFrameSizeError: A length is negative or above the maximum. Frames completed by the same bytes
                are lost, as is the connection.
        """
        if self._large is not None:
            assert 0 <= nbytes <= len(self._large) - self._large_filled
            self._large_filled += nbytes
            if self._large_filled < len(self._large):
                return []
            frame, self._large = self._large, None
            return [frame]
        assert 0 <= nbytes <= len(self._chunk) - self._filled
        self._filled += nbytes
        return self._split_chunk()

    def feed(self, data: Buffer) -> list[memoryview]:
        """Copy bytes received elsewhere through `get_buffer`, for callers that cannot receive into it."""
        rest = memoryview(data)
        frames: list[memoryview] = []
        while len(rest) > 0:
            space = self.get_buffer()
            count = min(len(space), len(rest))
            space[:count] = rest[:count]
            frames.extend(self.buffer_updated(count))
            rest = rest[count:]
        return frames

    def _split_chunk(self) -> list[memoryview]:
        frames: list[memoryview] = []
        position = 0
        while self._filled - position >= _PREFIX.size:
            (length,) = _PREFIX.unpack_from(self._chunk, position)
            if not 0 <= length <= self._frame_bytes_max:
                raise InvalidFrameSizeError(f"a frame of {length} bytes, 0 to {self._frame_bytes_max} allowed")
            start = position + _PREFIX.size
            stop = start + length
            if stop > self._filled:
                if length > len(self._chunk) - _PREFIX.size:
                    self._begin_large(length, start)
                    return frames
                break
            frames.append(memoryview(bytes(self._chunk[start:stop])))
            position = stop
        self._move_to_front(position)
        return frames

    def _begin_large(self, length: int, start: int) -> None:
        here = self._filled - start
        memory = mmap.mmap(-1, length) if length >= _MAPPED_BYTES_MIN else bytearray(length)
        self._large = memoryview(memory)
        self._large[:here] = self._chunk[start : self._filled]
        self._large_filled = here
        self._filled = 0

    def _move_to_front(self, position: int) -> None:
        rest = self._filled - position
        if position and rest:
            # Through a copy: source and target may overlap.
            self._chunk[:rest] = bytes(self._chunk[position : self._filled])
        self._filled = rest
