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
SCRATCH_BYTES = 64 * 1024

_PREFIX = struct.Struct(">i")

# What is received first, as long as it is not known how much comes: a client that announces much and then has to wait
# for memory keeps no more than this.
_FIRST_BYTES = 4 * 1024

# From here on a frame's memory is mapped: pages come into being as bytes arrive, so nothing is zeroed on the loop.
_MAPPED_BYTES_MIN = 1024 * 1024


class FrameSplitter:
    """Splits what one connection receives.

    Small frames are received many at a time into a scratch buffer and copied out of it; at most a quarter of its size
    is kept of one that is incomplete. A larger frame gets memory of its length, once the owner of the splitter allows
    it, and the rest of it is received straight into that memory.

    The scratch may be shared by all connections of one event loop: between `get_buffer` and `buffer_updated` nothing
    else runs, and at other times nothing of value is in it.

    After an error the stream has no frame boundaries any more: the connection must be closed.
    """

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX, *, scratch: memoryview | None = None) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._scratch = memoryview(bytearray(SCRATCH_BYTES)) if scratch is None else scratch
        self._small_bytes_max = len(self._scratch) // 4
        assert self._small_bytes_max > _PREFIX.size
        # How much of the scratch is offered: grows while the client fills it.
        self._window = min(_FIRST_BYTES, self._small_bytes_max)
        # The beginning of an incomplete frame: with its length if it is small, without if it waits for memory.
        self._rest = b""
        self._wanted_bytes = 0
        # The frame that is received into memory of its own, and how much of it is there.
        self._large: memoryview | None = None
        self._large_filled = 0

    @property
    def wanted_bytes(self) -> int:
        """Length of a large frame that waits for `allocate`; until then nothing can be received. Otherwise 0."""
        return self._wanted_bytes

    @property
    def pending_bytes(self) -> int:
        """Bytes of the incomplete frame's memory, 0 if it has none of its own yet."""
        return 0 if self._large is None else len(self._large)

    @property
    def incomplete_bytes(self) -> int:
        """Length of the frame that has begun, as far as it is known; 0 between frames."""
        return self.pending_bytes or self._wanted_bytes or len(self._rest)

    def allocate(self) -> None:
        """Allocate the large frame that is wanted."""
        assert self._wanted_bytes > 0
        length, self._wanted_bytes = self._wanted_bytes, 0
        memory = mmap.mmap(-1, length) if length >= _MAPPED_BYTES_MIN else bytearray(length)
        self._large = memoryview(memory)
        self._large[: len(self._rest)] = self._rest
        self._large_filled = len(self._rest)
        self._rest = b""

    def get_buffer(self, sizehint: int = -1) -> memoryview:
        """Return where the next bytes belong, whatever the hint; never empty. Valid until `buffer_updated`."""
        assert self._wanted_bytes == 0, "no memory was taken for the frame that comes"
        if self._large is not None:
            return self._large[self._large_filled :]
        kept = len(self._rest)
        self._scratch[:kept] = self._rest
        return self._scratch[kept : kept + self._window]

    def buffer_updated(self, nbytes: int) -> list[memoryview]:
        """Take note of `nbytes` bytes written to the front of `get_buffer()`; then look at `wanted_bytes`.

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
        assert 0 <= nbytes <= self._window
        filled = len(self._rest) + nbytes
        if nbytes == self._window:
            self._window = min(self._window * 4, len(self._scratch) - self._small_bytes_max - _PREFIX.size)
        return self._split_scratch(filled)

    def feed(self, data: Buffer) -> list[memoryview]:
        """Copy bytes received elsewhere through `get_buffer`, for callers that cannot receive into it."""
        rest = memoryview(data)
        frames: list[memoryview] = []
        while len(rest) > 0:
            if self._wanted_bytes:
                self.allocate()
            space = self.get_buffer()
            count = min(len(space), len(rest))
            space[:count] = rest[:count]
            frames.extend(self.buffer_updated(count))
            rest = rest[count:]
        return frames

    def _split_scratch(self, filled: int) -> list[memoryview]:
        frames: list[memoryview] = []
        position = 0
        while filled - position >= _PREFIX.size:
            (length,) = _PREFIX.unpack_from(self._scratch, position)
            if not 0 <= length <= self._frame_bytes_max:
                raise InvalidFrameSizeError(f"a frame of {length} bytes, 0 to {self._frame_bytes_max} allowed")
            start = position + _PREFIX.size
            stop = start + length
            if stop > filled:
                if length > self._small_bytes_max:
                    self._wanted_bytes = length
                    self._window = min(_FIRST_BYTES, self._small_bytes_max)
                    position = start
                break
            frames.append(memoryview(bytes(self._scratch[start:stop])))
            position = stop
        self._rest = bytes(self._scratch[position:filled])
        return frames
