"""Streams as they may come: cut into pieces."""

from collections.abc import Iterator


def pieces(data: bytes, seed: int) -> Iterator[bytes]:
    """Cut bytes into pieces of 1 to 97 bytes, as `seed` has it."""
    position = 0
    while position < len(data):
        seed = seed * 75 % 65537
        size = 1 + seed % (1, 3, 13, 97)[seed >> 4 & 3]
        yield data[position : position + size]
        position += size
