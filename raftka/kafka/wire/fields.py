"""The primitive types of the Kafka protocol, as its non-flexible versions spell them, and some compact ones."""

import struct
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

_UVARINT_BITS_MAX = 28


class AnswerError(Exception):
    """An answer that cannot be read."""


def i8(value: int) -> bytes:
    """Return an INT8."""
    return struct.pack(">b", value)


def i16(value: int) -> bytes:
    """Return an INT16."""
    return struct.pack(">h", value)


def i32(value: int) -> bytes:
    """Return an INT32."""
    return struct.pack(">i", value)


def i64(value: int) -> bytes:
    """Return an INT64."""
    return struct.pack(">q", value)


def string(text: str | None) -> bytes:
    """Return a STRING, or a NULLABLE_STRING that is null."""
    if text is None:
        return i16(-1)
    encoded = text.encode()
    return i16(len(encoded)) + encoded


def array(items: Iterable[bytes]) -> bytes:
    """Return an ARRAY of what is encoded already."""
    encoded = list(items)
    return i32(len(encoded)) + b"".join(encoded)


def uvarint(value: int) -> bytes:
    """Return an UNSIGNED_VARINT."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def compact_string(text: str) -> bytes:
    """Return a COMPACT_STRING."""
    encoded = text.encode()
    return uvarint(len(encoded) + 1) + encoded


def compact_array(items: Iterable[bytes]) -> bytes:
    """Return a COMPACT_ARRAY of what is encoded already."""
    encoded = list(items)
    return uvarint(len(encoded) + 1) + b"".join(encoded)


class Reader:
    """Reads an answer from its beginning to its end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _number(self, layout: str, size: int) -> int:
        try:
            (value,) = struct.unpack_from(layout, self._data, self._at)
        except struct.error as error:
            raise AnswerError(str(error)) from error
        self._at += size
        return int(value)

    def i8(self) -> int:
        """Return an INT8."""
        return self._number(">b", 1)

    def i16(self) -> int:
        """Return an INT16."""
        return self._number(">h", 2)

    def i32(self) -> int:
        """Return an INT32."""
        return self._number(">i", 4)

    def i64(self) -> int:
        """Return an INT64."""
        return self._number(">q", 8)

    def string(self) -> str:
        """Return a STRING; one that is null is empty."""
        return self._bytes(self.i16()).decode()

    def data(self) -> bytes:
        """Return BYTES; those that are null are empty."""
        return self._bytes(self.i32())

    def _bytes(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise AnswerError(f"{size} bytes are announced, {len(self._data) - self._at} are there")
        found = self._data[self._at : self._at + max(0, size)]
        self._at += len(found)
        return found

    def array(self, read: Callable[[], T]) -> list[T]:
        """Return an ARRAY, each of its items read by `read`; one that is null is empty."""
        return [read() for _ in range(self.i32())]

    def uvarint(self) -> int:
        """Return an UNSIGNED_VARINT."""
        value, shift = 0, 0
        while True:
            byte = self.i8()
            value |= (byte & 0x7F) << shift
            if byte >= 0:
                return value
            shift += 7
            if shift > _UVARINT_BITS_MAX:
                raise AnswerError("an unsigned varint has more than five bytes")

    def compact_string(self) -> str:
        """Return a COMPACT_STRING; one that is null is empty."""
        return self._bytes(self.uvarint() - 1).decode()

    def compact_array(self, read: Callable[[], T]) -> list[T]:
        """Return a COMPACT_ARRAY, each of its items read by `read`; one that is null is empty."""
        return [read() for _ in range(self.uvarint() - 1)]

    def tags(self) -> dict[int, bytes]:
        """Return a section of tagged fields, by number, as they are encoded."""
        return {self.uvarint(): self._bytes(self.uvarint()) for _ in range(self.uvarint())}

    def skip(self, *fields: Callable[[], object]) -> None:
        """Read these fields, whose values do not matter."""
        for field in fields:
            field()
