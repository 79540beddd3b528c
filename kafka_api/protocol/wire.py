"""What generated codecs call: lengths, tags, uuids, packers."""

from functools import lru_cache
from struct import Struct

from kafka_api.protocol.errors import MalformedRequestError
from kafka_api.protocol.message_classes import Buffer

STRING_BYTES_MAX = 0x7FFF
# Topics, partitions and whatever else a request lists, all together. They are decoded in one step of the loop.
REQUEST_ELEMENTS_MAX = 20_000

_UVARINT_BYTES_MAX = 5
_PACKERS_MAX = 64


def truncated() -> MalformedRequestError:
    """Return the error of a value that would end behind its message."""
    return MalformedRequestError("a length points behind the end of the message")


def bad_length(length: int) -> MalformedRequestError:
    """Return the error of a string, bytes or array that cannot have this length."""
    if length < 0:
        return MalformedRequestError("null where the protocol has none")
    return MalformedRequestError(f"length {length} is more than the message holds")


def bad_tag(tag: int) -> MalformedRequestError:
    """Return the error of a tagged field whose size is not that of its value."""
    return MalformedRequestError(f"tagged field {tag} has a wrong size")


def bad_presence(marker: int) -> MalformedRequestError:
    """Return the error of a nullable struct that is neither null nor there."""
    return MalformedRequestError(f"a struct is announced by -1 or 1, not by {marker}")


def too_many(elements_max: int) -> MalformedRequestError:
    """Return the error of a request that lists more than is taken."""
    return MalformedRequestError(f"a request with more than {elements_max} topics, partitions and other elements")


def uvarint_rest(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Read on after the `first` byte, which had its top bit set; `position` is behind it.

    Returns:
        The value, and the position behind it.
    """
    value, shift = first & 0x7F, 7
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= 7 * _UVARINT_BYTES_MAX:
            raise MalformedRequestError(f"a varint of more than {_UVARINT_BYTES_MAX} bytes")
    if value >= 1 << 32:
        raise MalformedRequestError("a varint of more than 32 bits")
    return value, position


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return an unsigned varint and the position behind it."""
    byte = buffer[position]
    return uvarint_rest(buffer, position + 1, byte) if byte >= 0x80 else (byte, position + 1)


def string_length_rest(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Read on after the first byte of a compact string's length plus one."""
    length, position = uvarint_rest(buffer, position, first)
    if length > STRING_BYTES_MAX + 1:
        raise MalformedRequestError(f"a string of {length - 1} bytes, {STRING_BYTES_MAX} allowed")
    return length, position


def skip_tagged_fields(buffer: Buffer, position: int, end: int) -> int:
    """Return the position behind a section of tagged fields of which none is known (KIP-482: unknown tags are fine)."""
    count, position = read_uvarint(buffer, position)
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
        if position > end:
            raise truncated()
    return position


def _pack_uvarint(value: int) -> bytes:
    packed = bytearray()
    while value >= 0x80:
        packed.append(value & 0x7F | 0x80)
        value >>= 7
    packed.append(value)
    return bytes(packed)


_SMALL_UVARINTS = tuple(_pack_uvarint(value) for value in range(1024))


def uvarint(value: int) -> bytes:
    """Return the unsigned varint of a value >= 0."""
    return _SMALL_UVARINTS[value] if value < 1024 else _pack_uvarint(value)


def string_uvarint(value: int) -> bytes:
    """Return the varint of a compact string's length plus one.

    Raises:
        ValueError: No client would accept a string that long.
    """
    if value > STRING_BYTES_MAX + 1:
        raise ValueError(f"a string of {value - 1} bytes, {STRING_BYTES_MAX} allowed")
    return uvarint(value)


@lru_cache(1024)
def pack_uuid(text: str) -> bytes:
    """Return the 16 bytes of 32 hex digits."""
    if len(text) != 32:
        raise ValueError(f"a uuid is 32 hex digits, not {text!r}")
    return bytes.fromhex(text)


class ArrayPackers(dict[int, Struct]):
    """Length of an array of numbers -> the struct that packs it; only short ones are kept."""

    def __init__(self, letter: str) -> None:
        super().__init__()
        self._letter = letter

    def __missing__(self, length: int) -> Struct:
        packer = Struct(f">{length}{self._letter}")
        if length < _PACKERS_MAX:
            self[length] = packer
        return packer
