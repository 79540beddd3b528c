"""Frames survive any segmentation, and nothing else is taken for a frame."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpc.errors import FrameTooLargeError, MalformedFrameError
from rpc.framing import (
    CHUNK_HEAD_BYTES,
    MAX_CHUNK_BYTES,
    MAX_HEADER_BYTES,
    PREFIX_BYTES,
    Frame,
    FrameReader,
    chunk_head,
    encode_frame,
    frame_prefix,
)

SIZES = st.sampled_from([0, 1, 7, 100, 20_000, 33_000, 65_524, 65_525, 70_000, 200_000])


def feed(reader: FrameReader, data: bytes) -> list[Frame]:
    frames = []
    while data:
        room = reader.buffer()
        count = min(len(room), len(data))
        assert count > 0
        room[:count] = data[:count]
        data = data[count:]
        reader.received(count)
        while (frame := reader.next_frame()) is not None:
            frames.append(frame)
    return frames


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.binary(max_size=40), SIZES), min_size=1, max_size=6),
    st.lists(st.sampled_from([1, 3, 11, 12, 13, 1_000, 32_768, 65_536, 100_000]), min_size=1, max_size=40),
)
def test_frames_come_out_as_they_went_in_under_any_segmentation(contents, cuts) -> None:
    sent = [(header, bytes([i]) * size) for i, (header, size) in enumerate(contents)]
    stream = b"".join(encode_frame(header, [payload]) for header, payload in sent)
    reader, received = FrameReader(), []
    remaining_cuts = iter(cuts)
    while stream:
        size = next(remaining_cuts, 50_000)
        received += feed(reader, stream[:size])
        stream = stream[size:]
    # Compared only now: no view may have been overwritten by what came later.
    assert [(bytes(frame.header), bytes(frame.payload)) for frame in received] == sent


@given(st.binary(max_size=300))
def test_garbage_is_refused_or_waits_but_never_fails_otherwise(data) -> None:
    with contextlib.suppress(MalformedFrameError):
        feed(FrameReader(), data)


@given(st.integers(0, 27), st.integers(0, 7))
def test_a_flipped_bit_before_the_payload_never_gives_a_frame(position, bit) -> None:
    data = bytearray(encode_frame(b"sixteen byte hdr", [b"p" * 50]))
    assert PREFIX_BYTES + 16 == 28
    data[position] ^= 1 << bit
    with contextlib.suppress(MalformedFrameError):
        assert feed(FrameReader(), bytes(data)) == []


@pytest.mark.parametrize("bit", range(8, 32))
@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_flipped_length_is_found_with_the_header_and_nothing_waits_for_megabytes(bit: int, is_chunked: bool) -> None:
    """A reader that took it for the truth would wait for up to 160 MiB, and have made room for them."""
    frame = bytearray(encode_frame(b"sixteen byte hdr", [b"p" * 40_000]))
    frame[3 - bit // 8] ^= 1 << bit % 8
    data = bytes(frame)
    if is_chunked:
        data = chunk_head(20_000) + data[:20_000]
    with pytest.raises(MalformedFrameError):
        feed(FrameReader(), data[:20_000])


@pytest.mark.parametrize("bit", range(7, 32))
def test_a_flipped_length_of_a_small_frame_is_found_at_once(bit: int) -> None:
    """Where little is sent, the bytes that a longer frame lacks would take long to come."""
    frame = bytearray(encode_frame(b"sixteen byte hdr", [b"p" * 50]))
    frame[3 - bit // 8] ^= 1 << bit % 8
    with pytest.raises(MalformedFrameError):
        feed(FrameReader(), bytes(frame))


def test_a_truncated_frame_is_not_returned() -> None:
    data = encode_frame(b"header", [b"payload"])
    assert feed(FrameReader(), data[:-1]) == []


def test_a_frame_above_the_bound_is_refused_before_it_comes() -> None:
    reader = FrameReader(1000)
    assert len(feed(reader, encode_frame(b"h", [b"x" * 900]))) == 1
    with pytest.raises(MalformedFrameError, match="are allowed"):
        feed(reader, encode_frame(b"h", [b"x" * 1000])[:8])


def test_the_bound_may_be_raised_between_two_frames() -> None:
    reader = FrameReader(1000)
    reader.allow(5000)
    assert len(feed(reader, encode_frame(b"h", [b"x" * 4000]))) == 1


def test_a_header_longer_than_its_frame_or_than_allowed_is_refused() -> None:
    for lengths in ((100, 101), (1 << 26, MAX_HEADER_BYTES + 1), (0, 0), (7, 0)):
        with pytest.raises(MalformedFrameError):
            feed(FrameReader(), b"".join(n.to_bytes(4, "big") for n in lengths))


def test_views_are_read_only() -> None:
    for size in (10, 100_000):
        (frame,) = feed(FrameReader(), encode_frame(b"h", [b"x" * size]))
        assert frame.header.readonly
        assert frame.payload.readonly


def test_a_frame_that_no_reader_would_take_is_not_encoded() -> None:
    with pytest.raises(FrameTooLargeError):
        frame_prefix(b"x" * (MAX_HEADER_BYTES + 1), 0)
    with pytest.raises(FrameTooLargeError):
        frame_prefix(b"", 160 << 20)


def test_a_stranger_costs_no_more_than_its_frames_may_have() -> None:
    reader = FrameReader(1000)
    assert len(reader.buffer()) == 1004
    data = encode_frame(b"a", [b"x" * 500])
    reader.buffer()[:20] = data[:20]
    reader.received(20)
    assert reader.next_frame() is None
    reader.allow(1 << 20)
    assert len(reader.buffer()) > 60_000
    (frame,) = feed(reader, data[20:])
    assert frame.payload == b"x" * 500


def in_chunks(data: bytes, sizes: list[int]) -> list[bytes]:
    """Cut one frame: each size is a chunk's, the rest comes in the largest."""
    chunks = []
    for size in (*sizes, *[MAX_CHUNK_BYTES] * 5):
        piece, data = data[:size], data[size:]
        if piece:
            chunks.append(chunk_head(len(piece)) + piece)
    assert not data
    return chunks


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from([12, 13, 4_096, 30_000, 40_000, 65_536]), max_size=5),
    st.lists(st.sampled_from([0, 5, 40_000, 70_000]), max_size=6),
    st.lists(st.sampled_from([1, 7, 8, 15, 16, 1_000, 32_768, 65_536]), min_size=1, max_size=40),
)
def test_whole_frames_pass_a_frame_that_comes_in_chunks(sizes, passing, cuts) -> None:
    large = bytes(range(256)) * 1_000
    chunks = in_chunks(encode_frame(b"large", [large]), sizes)
    others = [encode_frame(b"small", [bytes([i]) * size]) for i, size in enumerate(passing)]
    # One of them before each chunk, all that are left before the last.
    before = others[: len(chunks) - 1] + [b""] * len(chunks)
    stream = b"".join(other + chunk for other, chunk in zip(before, chunks[:-1], strict=False))
    stream += b"".join([*others[len(chunks) - 1 :], chunks[-1], *in_chunks(encode_frame(b"next", [b"x" * 100]), [])])
    reader, received, remaining_cuts = FrameReader(), [], iter(cuts)
    while stream:
        size = next(remaining_cuts, 50_000)
        received += feed(reader, stream[:size])
        stream = stream[size:]
    frames = [(bytes(frame.header), bytes(frame.payload)) for frame in received]
    small = [(b"small", bytes([i]) * size) for i, size in enumerate(passing)]
    assert frames == [*small, (b"large", large), (b"next", b"x" * 100)]


@given(st.integers(0, CHUNK_HEAD_BYTES + 27), st.integers(0, 7))
def test_a_flipped_bit_in_a_chunks_head_or_its_frames_never_gives_a_frame(position, bit) -> None:
    (chunk,) = in_chunks(encode_frame(b"sixteen byte hdr", [b"p" * 50]), [])
    data = bytearray(chunk)
    data[position] ^= 1 << bit
    with contextlib.suppress(MalformedFrameError):
        assert feed(FrameReader(), bytes(data)) == []


def test_chunks_that_do_not_fit_their_frame_are_refused() -> None:
    frame = encode_frame(b"h", [b"x" * 100])
    first = chunk_head(50) + frame[:50]
    wrong = {
        "no prefix in the first": chunk_head(8) + frame[:8],
        "more than the frame in the first": chunk_head(len(frame) + 1) + frame + b"x",
        "more than the frame in the last": first + chunk_head(len(frame) - 49) + frame[50:] + b"x",
        "a frame too large": chunk_head(50) + encode_frame(b"h", [b"x" * 1000])[:50],
    }
    for what, data in wrong.items():
        with pytest.raises(MalformedFrameError):
            pytest.fail(f"{what} was taken: {feed(FrameReader(1000), data)}")


def test_a_frame_in_chunks_takes_no_more_memory_than_is_allowed() -> None:
    reader = FrameReader(10_000)
    with pytest.raises(MalformedFrameError, match="are allowed"):
        feed(reader, chunk_head(4_096) + encode_frame(b"h", [b"x" * 10_000])[:8])
