"""Edits of bytes, as data: drawn by hypothesis, which shrinks them, or from a random generator, which is faster."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hypothesis import strategies as st

Kind = Literal["flip", "overwrite", "insert", "cut", "remove", "repeat", "splice"]
KINDS: tuple[Kind, ...] = ("flip", "overwrite", "insert", "cut", "remove", "repeat", "splice")

# Lengths and counts at their extremes, in the widths and orders that the formats have; varints last.
EXTREMES = tuple(
    bytes.fromhex(each)
    for each in (
        *("00", "01", "7f", "80", "ff", "0000", "7fff", "8000", "ffff", "00000000", "00000001", "7fffffff", "80000000"),
        *("ffffffff", "ffffff7f", "00000080", "fffffffe", "06400000", "08000000", "7fffffffffffffff"),
        *(
            "8000000000000000",
            "ffffffffffffffff",
            "0000000000000000",
            "ffffffff0f",
            "ffffffffffffffffff01",
            "8080808008",
        ),
        # msgpack and cbor: text, bytes, arrays and maps of four billion, and nesting.
        *(
            "dbffffffff",
            "c6ffffffff",
            "ddffffffff",
            "dfffffffff",
            "5affffffff",
            "7affffffff",
            "9affffffff",
            "baffffffff",
        ),
        *("9bffffffffffffffff", "5bffffffffffffffff", "91" * 40, "81" * 40, "c1", "f97e00", "d9"),
    )
)
_PLACES = 1 << 16
_SPAN_MAX = 64


@dataclass(frozen=True, slots=True)
class Edit:
    """One change.

    Attributes:
        place: Where, as a fraction of 1 << 16 of the length.
        span: How many bytes.
        value: What is written there, where something is.
    """

    kind: Kind
    place: int
    span: int
    value: bytes

    def apply(self, data: bytes, other: bytes) -> bytes:
        """Return the changed bytes; `other` is what is spliced in."""
        at = self.place * (len(data) + 1) // _PLACES
        match self.kind:
            case "flip":
                return data[:at] + bytes([data[at] ^ 1 << self.span % 8]) + data[at + 1 :] if at < len(data) else data
            case "overwrite":
                return data[:at] + self.value + data[at + len(self.value) :]
            case "insert":
                return data[:at] + self.value + data[at:]
            case "cut":
                return data[:at]
            case "remove":
                return data[:at] + data[at + self.span :]
            case "repeat":
                return data[:at] + data[at : at + self.span] * 3 + data[at + self.span :]
            case "splice":
                return data[:at] + other[self.place * (len(other) + 1) // _PLACES :]


VALUES = st.sampled_from(EXTREMES) | st.binary(min_size=1, max_size=8)
EDITS = st.lists(
    st.builds(Edit, st.sampled_from(KINDS), st.integers(0, _PLACES - 1), st.integers(1, _SPAN_MAX), VALUES),
    min_size=1,
    max_size=4,
)


def damaged(data: bytes, edits: Sequence[Edit], other: bytes) -> bytes:
    """Return the bytes after all edits."""
    for edit in edits:
        data = edit.apply(data, other)
    return data


def random_edits(rng: random.Random) -> list[Edit]:
    """Draw one to four edits."""
    return [_random_edit(rng) for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4)))]


def _random_edit(rng: random.Random) -> Edit:
    value = rng.choice(EXTREMES) if rng.random() < 0.6 else rng.randbytes(rng.randint(1, 8))
    return Edit(rng.choice(KINDS), rng.randrange(_PLACES), rng.randint(1, _SPAN_MAX), value)
