"""What goes next on a link, in pieces of what size."""

import asyncio
from collections.abc import Callable, Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from rpc.framing import CHUNK_HEAD_BYTES, MAX_CHUNK_BYTES, FrameReader
from rpc.writer import FrameWriter


class Clock(asyncio.AbstractEventLoop):
    """A loop of which only the time is asked."""

    now = 0.0

    def time(self) -> float:
        return self.now


class Kernel(asyncio.Transport):
    """A transport whose kernel takes as many bytes as it is told to, in `now` and its end's order."""

    def __init__(self, room: int = 0) -> None:
        super().__init__()
        self.writer: FrameWriter
        self.clock = Clock()
        self.room = room
        self.taken = bytearray()
        self.pieces: list[int] = []
        self.is_closed = False
        self._buffer = bytearray()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == 0

    def get_write_buffer_size(self) -> int:
        return len(self._buffer)

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self._buffer, "written although the kernel did not take all"
        self.pieces.append(len(data))
        self._buffer += data
        self._take()
        if self._buffer:
            self.writer.pause()

    def take(self, room: int) -> None:
        """Let the kernel take so many more bytes."""
        self.room += room
        was_paused = bool(self._buffer)
        self._take()
        if was_paused and not self._buffer:
            self.writer.resume()

    def _take(self) -> None:
        count = min(self.room, len(self._buffer))
        self.taken += self._buffer[:count]
        del self._buffer[:count]
        self.room -= count


def new_writer(room: int = 0) -> tuple[Kernel, FrameWriter]:
    kernel = Kernel(room)
    kernel.writer = FrameWriter(kernel, kernel.clock)
    return kernel, kernel.writer


def frames_of(data: Iterable[int]) -> list[tuple[bytes, bytes]]:
    """Return (header, payload) of all complete frames in a stream."""
    reader, stream, frames = FrameReader(), bytes(data), []
    while stream:
        room = reader.buffer()
        count = min(len(room), len(stream))
        room[:count] = stream[:count]
        stream = stream[count:]
        reader.received(count)
        while (frame := reader.next_frame()) is not None:
            frames.append((bytes(frame.header), bytes(frame.payload)))
    return frames


def drain(kernel: Kernel, seconds_per_byte: float = 0.0, step: int = 1 << 20) -> None:
    while kernel.writer.unsent_bytes:
        kernel.clock.now += step * seconds_per_byte
        kernel.take(step)


def is_kept(order: list[bytes], sent: Callable[[int], bool], count: int) -> bool:
    wanted = [number for number in range(count) if sent(number)]
    return [number for number in (int(header) for header in order) if sent(number)] == wanted


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.booleans(), st.sampled_from([0, 10, 3_000, 5_000, 300_000])),
            st.sampled_from([1, 100, 5_000, 400_000]),
        ),
        max_size=30,
    )
)
def test_frames_of_one_urgency_keep_their_order_and_all_arrive_whole(steps) -> None:
    kernel, writer = new_writer()
    urgent: list[bool] = []
    sizes: list[int] = []
    for step in steps:
        if isinstance(step, int):
            kernel.take(step)
            kernel.clock.now += 0.01
            continue
        number = len(sizes)
        urgent.append(step[0])
        sizes.append(step[1])
        payload = [b"a" * (step[1] // 3), memoryview(b"b" * (step[1] - step[1] // 3))]
        writer.write(b"%d" % number, payload, urgent=step[0])
    drain(kernel)
    assert writer.unsent_bytes == 0
    frames = frames_of(kernel.taken)
    order = [header for header, _ in frames]
    assert sorted(int(header) for header in order) == list(range(len(sizes)))
    assert is_kept(order, lambda number: urgent[number], len(sizes))
    assert is_kept(order, lambda number: not urgent[number], len(sizes))
    for header, payload in frames:
        size = sizes[int(header)]
        assert payload == b"a" * (size // 3) + b"b" * (size - size // 3)


def test_an_urgent_frame_waits_for_one_piece_only() -> None:
    kernel, writer = new_writer()
    writer.write(b"large", [bytes(1 << 20)])
    for number in range(20):
        writer.write(b"behind %d" % number, [bytes(100)])
    writer.write(b"urgent", urgent=True)
    kernel.take(kernel.pieces[0] + 100)
    assert kernel.pieces[0] == (4 << 10) + CHUNK_HEAD_BYTES
    assert frames_of(kernel.taken) == [(b"urgent", b"")]


def test_chunks_are_what_the_link_sent_in_the_last_50_ms() -> None:
    for bytes_per_second, smallest, largest in ((100_000, 4 << 10, 5_100), (2_000_000, 40_000, 100_100)):
        kernel, writer = new_writer()
        writer.write(b"large", [bytes(4_000_000)])
        drain(kernel, 1 / bytes_per_second, step=500)
        settled = kernel.pieces[len(kernel.pieces) // 2 : -1]
        assert smallest <= min(settled)
        assert max(settled) <= largest + CHUNK_HEAD_BYTES


def test_a_fast_link_gets_large_chunks_at_once_and_a_silent_one_begins_small() -> None:
    kernel, writer = new_writer(room=1 << 40)
    for _ in range(2):
        kernel.pieces.clear()
        writer.write(b"large", [bytes(4 << 20)])
        assert kernel.pieces[0] == (4 << 10) + CHUNK_HEAD_BYTES
        assert kernel.pieces[7] == MAX_CHUNK_BYTES + CHUNK_HEAD_BYTES
        kernel.clock.now += 10.0


def test_small_frames_that_waited_go_together() -> None:
    kernel, writer = new_writer()
    for number in range(100):
        writer.write(b"%d" % number)
    drain(kernel)
    assert len(kernel.pieces) == 2
    assert [header for header, _ in frames_of(kernel.taken)] == [b"%d" % number for number in range(100)]


def test_unsent_bytes_are_all_that_the_kernel_has_not_taken() -> None:
    kernel, writer = new_writer()
    writer.write(b"large", [bytes(100_000)])
    writer.write(b"urgent", [bytes(1_000)], urgent=True)
    before = writer.unsent_bytes
    assert before > 101_000
    kernel.take(3_000)
    assert writer.unsent_bytes == before - 3_000
    writer.drop()
    assert writer.unsent_bytes < 4 << 10


def test_a_writer_closes_behind_what_waits() -> None:
    kernel, writer = new_writer()
    writer.write(b"large", [bytes(100_000)])
    writer.close()
    assert not kernel.is_closed
    drain(kernel)
    assert kernel.is_closed
    assert len(frames_of(kernel.taken)) == 1
    idle, writer = new_writer()
    writer.close()
    assert idle.is_closed
