"""How rpk's number modifiers write a number: in digits, or in a fixed count of bytes or hex characters."""

from collections.abc import Callable

# The bits of each one's number, the characters or bytes that it takes, and in which order these are.
_HEX = {f"hex{bits}": bits for bits in (64, 32, 16, 8, 4)}
_BINARY = {f"{order}{bits}": (bits // 8, order) for order in ("big", "little") for bits in (64, 32, 16, 8)} | {
    "byte": (1, "big")
}
# From so many bits on the first one is a sign, as in kcat's %R: -1 is a null's size, and no size is as large as 2^31.
# With fewer bits all are needed for sizes.
_SIGNED_BITS = 32

READ_MODIFIERS = ("ascii", *_HEX, *_BINARY)
WRITE_MODIFIERS = (*READ_MODIFIERS, "bool")


def number_writer(modifier: str) -> Callable[[int], bytes]:
    """Return what writes a number; one that is too large for the modifier is cut off, as rpk does."""
    if modifier in _HEX:
        bits = _HEX[modifier]
        return lambda number: b"%0*x" % (bits // 4, number & ((1 << bits) - 1))
    if modifier in _BINARY:
        size, order = _BINARY[modifier]
        mask = (1 << (8 * size)) - 1
        return lambda number: (number & mask).to_bytes(size, "big" if order == "big" else "little")
    if modifier == "bool":
        return lambda number: b"true" if number else b"false"
    return lambda number: b"%d" % number


def is_signed(modifier: str) -> bool:
    """Return whether a number that is read by a modifier can be -1."""
    if modifier in _BINARY:
        return _BINARY[modifier][0] * 8 >= _SIGNED_BITS
    return _HEX.get(modifier, _SIGNED_BITS) >= _SIGNED_BITS


def number_width(modifier: str) -> int | None:
    """Return how many bytes of input a number takes; None where its digits end with what follows."""
    if modifier in _HEX:
        return _HEX[modifier] // 4
    return _BINARY[modifier][0] if modifier in _BINARY else None


def read_number(data: bytes, modifier: str) -> int:
    """Return the number that `number_width` bytes stand for.

    Raises:
        ValueError: They are not hex.
    """
    if modifier in _BINARY:
        return int.from_bytes(data, "big" if _BINARY[modifier][1] == "big" else "little", signed=is_signed(modifier))
    # `int` would take signs, spaces and underscores, too.
    if not data.isalnum():
        raise ValueError(f"{data!r} is not hex")
    number, bits = int(data, 16), _HEX[modifier]
    return number - (1 << bits) if is_signed(modifier) and number >> (bits - 1) else number
