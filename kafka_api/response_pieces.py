"""Responses cut into pieces that a transport may have to copy, so that it never copies a whole response."""

from collections.abc import Iterator, Sequence

from kafka_api.protocol.message_classes import Buffer

_PIECE_BYTES = 256 * 1024
# Below this, joining costs less than a system call.
_JOIN_BYTES = 16 * 1024


def response_pieces(buffers: Sequence[Buffer]) -> Iterator[Buffer]:
    """Yield the bytes of `buffers`: what is small joined, what is large in views."""
    small: list[Buffer] = []
    small_bytes = 0
    for buffer in buffers:
        if len(buffer) < _JOIN_BYTES:
            small.append(buffer)
            small_bytes += len(buffer)
            if small_bytes >= _PIECE_BYTES:
                yield b"".join(small)
                small, small_bytes = [], 0
            continue
        if small:
            yield b"".join(small)
            small, small_bytes = [], 0
        view = memoryview(buffer)
        for start in range(0, len(view), _PIECE_BYTES):
            yield view[start : start + _PIECE_BYTES]
    if small:
        yield b"".join(small)
