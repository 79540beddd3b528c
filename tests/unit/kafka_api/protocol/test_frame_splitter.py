"""Frames out of a byte stream: any segmentation gives the same frames, and nothing overwrites one later."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_api.protocol.errors import InvalidFrameSizeError
from kafka_api.protocol.framing import FRAME_BYTES_MAX, FrameSplitter

CHUNK = 32
MAPPED = 1024 * 1024


def small_splitter() -> FrameSplitter:
    return FrameSplitter(scratch=memoryview(bytearray(CHUNK)))


def prefixed(*frames: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


def receive(splitter: FrameSplitter, stream: bytes, sizes: list[int]) -> list[memoryview]:
    """Do what an event loop does: receive into the buffer, at most as much as there is room."""
    frames = []
    position = 0
    while position < len(stream):
        if splitter.wanted_bytes:
            splitter.allocate()
        space = splitter.get_buffer(-1)
        assert len(space) > 0
        count = min(len(space), len(stream) - position, sizes[position % len(sizes)])
        space[:count] = stream[position : position + count]
        frames.extend(splitter.buffer_updated(count))
        position += count
    return frames


@given(st.lists(st.binary(max_size=3 * CHUNK), max_size=12), st.lists(st.integers(1, 100), min_size=1, max_size=7))
def test_every_segmentation_gives_the_same_frames(frames: list[bytes], sizes: list[int]) -> None:
    found = receive(small_splitter(), prefixed(*frames), sizes)
    # Compared only now, when all later bytes have been received: no frame was overwritten.
    assert [bytes(frame) for frame in found] == frames


@given(st.lists(st.binary(max_size=3 * CHUNK), max_size=8), st.lists(st.integers(1, 100), min_size=1, max_size=7))
def test_feeding_gives_the_same_frames(frames: list[bytes], sizes: list[int]) -> None:
    stream = prefixed(*frames)
    splitter = small_splitter()
    found, position = [], 0
    while position < len(stream):
        size = sizes[position % len(sizes)]
        found.extend(splitter.feed(stream[position : position + size]))
        position += size
    assert [bytes(frame) for frame in found] == frames


@pytest.mark.parametrize("length", [CHUNK - 5, CHUNK - 4, CHUNK - 3, MAPPED - 1, MAPPED, MAPPED + 1])
def test_frames_around_the_sizes_where_memory_changes_are_whole(length: int) -> None:
    frames = [bytes(index % 251 for index in range(length)), b"", b"after"]
    assert [bytes(frame) for frame in small_splitter().feed(prefixed(*frames))] == frames


def test_a_large_frame_is_received_straight_into_its_own_memory() -> None:
    splitter = FrameSplitter()
    assert splitter.feed(struct.pack(">i", 300_000) + b"head") == []
    assert (splitter.wanted_bytes, splitter.pending_bytes) == (300_000, 0)
    splitter.allocate()
    assert (splitter.wanted_bytes, splitter.pending_bytes) == (0, 300_000)
    space = splitter.get_buffer(65_536)
    assert len(space) == 300_000 - 4
    space[:] = b"x" * len(space)
    (frame,) = splitter.buffer_updated(len(space))
    assert frame.obj is space.obj
    assert frame == b"head" + b"x" * 299_996
    assert splitter.pending_bytes == 0


@pytest.mark.parametrize("length", [-1, -(2**31), FRAME_BYTES_MAX + 1, 2**31 - 1])
def test_an_impossible_length_is_refused_before_memory_is_taken(length: int) -> None:
    splitter = FrameSplitter()
    with pytest.raises(InvalidFrameSizeError):
        splitter.feed(struct.pack(">i", length))
    assert splitter.pending_bytes == 0


def test_the_greatest_length_is_taken_and_one_more_is_not() -> None:
    splitter = FrameSplitter(50)
    assert splitter.feed(prefixed(b"x" * 50)) == [b"x" * 50]
    with pytest.raises(InvalidFrameSizeError):
        splitter.feed(struct.pack(">i", 51))


def test_many_splitters_share_one_scratch() -> None:
    scratch = memoryview(bytearray(CHUNK))
    splitters = [FrameSplitter(scratch=scratch) for _ in range(3)]
    streams = [prefixed(bytes([65 + number]) * 7, bytes([97 + number]) * 50) for number in range(3)]
    found: list[list[memoryview]] = [[], [], []]
    for position in range(len(streams[0])):
        for splitter, stream, frames in zip(splitters, streams, found, strict=True):
            frames.extend(splitter.feed(stream[position : position + 1]))
    for number, frames in enumerate(found):
        assert [bytes(frame) for frame in frames] == [bytes([65 + number]) * 7, bytes([97 + number]) * 50]


def test_little_is_received_of_a_client_of_which_nothing_is_known() -> None:
    splitter = FrameSplitter()
    assert len(splitter.get_buffer()) == 4096
    splitter.feed(prefixed(*[b"x" * 1000] * 100))
    assert len(splitter.get_buffer()) > 4096, "it sends much: larger reads are worth it"
    splitter.feed(struct.pack(">i", 300_000) + b"head")
    splitter.feed(b"x" * (300_000 - 4))
    assert len(splitter.get_buffer()) == 4096


def test_what_has_begun_is_known_by_its_length() -> None:
    splitter = FrameSplitter()
    assert splitter.incomplete_bytes == 0
    splitter.feed(b"\0\0")
    assert splitter.incomplete_bytes > 0
    splitter.feed(b"\0\1x")
    assert splitter.incomplete_bytes == 0
    splitter.feed(struct.pack(">i", 200_000))
    assert splitter.incomplete_bytes == 200_000
    splitter.feed(b"x")
    assert splitter.incomplete_bytes == 200_000
