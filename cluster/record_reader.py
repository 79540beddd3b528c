"""Reads what coordinators store: fields of records in Kafka's formats, and parts of the state bytes of their tables."""

import struct

from storage.errors import CorruptLogError

# As of every string of the protocol.
STRING_BYTES_MAX = 2**15 - 1

_VARINT_BYTES_MAX = 5
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_U32_BYTES = 4


class UnreadableRecordError(ValueError):
    """A key or value that no version known here has written."""


class RecordReader:
    """Takes fields from the front of some bytes; raises UnreadableRecordError at their end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def i16(self) -> int:
        """Take two bytes, big endian."""
        return self._number(_I16)

    def i32(self) -> int:
        """Take four bytes."""
        return self._number(_I32)

    def i64(self) -> int:
        """Take eight bytes."""
        return self._number(_I64)

    def varint(self) -> int:
        """Take an unsigned varint of at most five bytes."""
        value = 0
        for shift in range(0, 7 * _VARINT_BYTES_MAX, 7):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise UnreadableRecordError(f"a varint of more than {_VARINT_BYTES_MAX} bytes")

    def string(self) -> str:
        """Take a string behind its length of two bytes."""
        return self.text(self.i16())

    def nullable_string(self) -> str | None:
        """Take a string behind its length of two bytes; None: the length is negative."""
        length = self.i16()
        return None if length < 0 else self.text(length)

    def blob(self) -> bytes:
        """Take bytes behind their length of four bytes."""
        return self.take(max(0, self.i32()))

    def text(self, length: int) -> str:
        """Take a string of so many bytes."""
        if length < 0:
            raise UnreadableRecordError("a string is missing")
        try:
            return self.take(length).decode()
        except UnicodeDecodeError:
            raise UnreadableRecordError("a string is not UTF-8") from None

    def take(self, length: int) -> bytes:
        """Take so many bytes."""
        taken = self._data[self._position : self._position + length]
        if len(taken) < length:
            raise UnreadableRecordError(f"{length} bytes where {len(taken)} are left")
        self._position += length
        return taken

    def _number(self, layout: struct.Struct) -> int:
        (number,) = layout.unpack(self.take(layout.size))
        return int(number)


def read_part(state: bytes, position: int, length: int, what: str) -> tuple[bytes, int]:
    """Return so many bytes of the state bytes from `position` on, and the position behind them.

    Raises:
        CorruptLogError: They are not there; `what` names the state.
    """
    if position + length > len(state):
        raise CorruptLogError(f"{what} is cut off: {length} bytes where {len(state) - position} are left")
    return state[position : position + length], position + length


def read_sized_part(state: bytes, position: int, what: str) -> tuple[bytes, int]:
    """As `read_part`, of bytes behind their length, a u32."""
    packed, position = read_part(state, position, _U32_BYTES, what)
    return read_part(state, position, int.from_bytes(packed, "big"), what)
