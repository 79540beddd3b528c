"""The only place that writes to a transport: what goes next, and in pieces of what size."""

import asyncio
from collections import deque
from collections.abc import Sequence

from rpc.framing import MAX_CHUNK_BYTES, Buffer, chunk_head, frame_prefix

# What a link that sent nothing lately is given at once.
_MIN_CHUNK_BYTES = 4 << 10
# A chunk is what the link sent in the last so many seconds: whatever waits for a chunk waits about so long.
_CHUNK_SECONDS = 0.05


class _QueuedFrame:
    """A frame that has not been given to the transport, or not all of it."""

    __slots__ = ("is_begun", "left", "pieces")

    def __init__(self, pieces: Sequence[Buffer], frame_bytes: int) -> None:
        self.pieces: deque[Buffer] = deque(pieces)
        self.left = frame_bytes
        self.is_begun = False

    def take(self, count: int) -> list[Buffer]:
        """Return the next `count` bytes, at most `left`."""
        self.is_begun = True
        self.left -= count
        taken: list[Buffer] = []
        while count:
            piece = self.pieces.popleft()
            if len(piece) > count:
                view = memoryview(piece)
                self.pieces.appendleft(view[count:])
                piece = view[:count]
            taken.append(piece)
            count -= len(piece)
        return taken


class _Pace:
    """How many bytes went out lately; it looks back between a half and the whole of `_CHUNK_SECONDS`."""

    __slots__ = ("_bytes_at_middle", "_bytes_at_start", "_middle")

    def __init__(self) -> None:
        self._middle = 0.0
        self._bytes_at_start = self._bytes_at_middle = 0

    def sent_lately(self, now: float, sent_bytes: int) -> int:
        """Return how many of `sent_bytes`, the count since the beginning, went out lately."""
        age = now - self._middle
        if age >= _CHUNK_SECONDS / 2:
            self._bytes_at_start = self._bytes_at_middle if age < _CHUNK_SECONDS else sent_bytes
            self._bytes_at_middle = sent_bytes
            self._middle = now
        return sent_bytes - self._bytes_at_start


class FrameWriter:
    """Writes frames in call order, except that urgent ones pass the others, between two chunks too.

    The transport holds at most one piece that the kernel has not taken, all others wait here. So an urgent frame
    waits for that piece and for what the kernel holds, however much is queued.

    Call `pause` and `resume` when the transport says so.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        # Paused as soon as the kernel does not take all, resumed when the transport's buffer is empty.
        transport.set_write_buffer_limits(high=0)
        self._transport = transport
        self._loop = loop
        self._urgent: deque[bytes] = deque()
        self._queue: deque[_QueuedFrame] = deque()
        self._queued_bytes = 0
        self._written_bytes = 0
        self._pace = _Pace()
        # Only while paused is anything queued.
        self._is_paused = False
        self._is_closing = False

    @property
    def unsent_bytes(self) -> int:
        """What the kernel has not taken yet."""
        return self._queued_bytes + self._transport.get_write_buffer_size()

    def write(self, header: bytes, buffers: Sequence[Buffer] = (), *, urgent: bool = False) -> None:
        """Write one frame; the payload is the concatenation of `buffers` (one-dimensional, of bytes).

        Args:
            header: See codec.py.
            buffers: They must not change any more: they may be read until they are sent.
            urgent: Before everything that is not, and never in chunks.

        Raises:
            FrameTooLargeError: Nothing was written.
        """
        payload_bytes = sum(map(len, buffers))
        prefix = frame_prefix(header, payload_bytes)
        frame_bytes = len(prefix) + len(header) + payload_bytes
        pieces = (prefix, header, *buffers)
        if self._is_paused:
            self._queued_bytes += frame_bytes
            if urgent:
                self._urgent.append(b"".join(pieces))
            else:
                self._queue.append(_QueuedFrame(pieces, frame_bytes))
        elif urgent or frame_bytes <= self._chunk_bytes():
            self._write(b"".join(pieces))
        else:
            self._queued_bytes += frame_bytes
            self._queue.append(_QueuedFrame(pieces, frame_bytes))
            self._pump()

    def pause(self) -> None:
        """Write no more: the kernel did not take all."""
        self._is_paused = True

    def resume(self) -> None:
        """Write on: the kernel has taken all."""
        self._is_paused = False
        self._pump()

    def close(self) -> None:
        """Close the transport behind everything written, which may take as long as the peer likes."""
        self._is_closing = True
        if not self._queued_bytes:
            self._transport.close()

    def drop(self) -> None:
        """Forget what is queued: the transport is lost."""
        self._urgent.clear()
        self._queue.clear()
        self._queued_bytes = 0

    def _pump(self) -> None:
        while self._queued_bytes and not self._is_paused and not self._transport.is_closing():
            if self._urgent:
                piece = b"".join(self._urgent)
                self._urgent.clear()
                self._queued_bytes -= len(piece)
            else:
                piece = self._next_piece(self._chunk_bytes())
            self._write(piece)
        if self._is_closing and not self._queued_bytes:
            self._transport.close()

    def _next_piece(self, room: int) -> bytes:
        """Return the frames that fit into `room` bytes, or one chunk of a frame that does not."""
        parts: list[Buffer] = []
        queue, is_full = self._queue, False
        while queue and not is_full:
            frame = queue[0]
            count = min(frame.left, room)
            if frame.is_begun or (count < frame.left and not parts):
                parts.append(chunk_head(count))
                is_full = True
            elif count < frame.left:
                break
            parts += frame.take(count)
            room -= count
            self._queued_bytes -= count
            if not frame.left:
                queue.popleft()
        return b"".join(parts)

    def _write(self, piece: bytes) -> None:
        self._written_bytes += len(piece)
        self._transport.write(piece)

    def _chunk_bytes(self) -> int:
        sent_bytes = self._written_bytes - self._transport.get_write_buffer_size()
        lately = self._pace.sent_lately(self._loop.time(), sent_bytes)
        return min(max(lately, _MIN_CHUNK_BYTES), MAX_CHUNK_BYTES)
