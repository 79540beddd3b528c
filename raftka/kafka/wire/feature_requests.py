"""Features and their levels (KIP-584): which a broker offers, and which the cluster uses."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from raftka.kafka.wire.fields import Reader, compact_array, compact_string, i8, i16, i32
from raftka.kafka.wire.requests import Request

_NO_TAGS = i8(0)
_NO_ITEMS = compact_array(())
# The types of an update; a safe downgrade loses nothing.
_UPGRADE, _SAFE_DOWNGRADE = 1, 2
_SUPPORTED, _LEVELS = 0, 2


class Features(NamedTuple):
    """What one broker tells.

    Attributes:
        error: A code; 35: the broker does not know this version of the request.
        offered: (lowest level, highest level) of each feature that it can work at.
        levels: What the cluster uses, above 0.
    """

    error: int
    offered: Mapping[str, tuple[int, int]]
    levels: Mapping[str, int]


class Refusal(NamedTuple):
    """Why a level is not changed; `feature` is empty where the whole request was refused."""

    feature: str
    code: int
    message: str


def describe_features(version: int) -> Request[Features]:
    """Ask a broker for its features and the levels in force, by ApiVersions 4, or by 3, which omits some."""

    def read_range(reader: Reader) -> tuple[str, tuple[int, int]]:
        name, first, second = reader.compact_string(), reader.i16(), reader.i16()
        reader.tags()
        return name, (first, second)

    def read_ranges(tag: bytes | None) -> dict[str, tuple[int, int]]:
        reader = Reader(tag or _NO_ITEMS)
        return dict(reader.compact_array(lambda: read_range(reader)))

    def read(reader: Reader) -> Features:
        # The header of this answer has no tags, whatever the version.
        error = reader.i16()
        if error:
            return Features(error, {}, {})
        reader.compact_array(lambda: reader.skip(reader.i16, reader.i16, reader.i16, reader.tags))
        reader.i32()  # throttle time
        tags = reader.tags()
        levels = read_ranges(tags.get(_LEVELS))
        return Features(0, read_ranges(tags.get(_SUPPORTED)), {name: highest for name, (highest, _) in levels.items()})

    return Request(18, version, _NO_TAGS + compact_string("raftka") + compact_string("0") + _NO_TAGS, read)


def update_features(
    levels: Mapping[str, int], timeout_ms: int, *, validate_only: bool, is_lowering: bool = False
) -> Request[Sequence[Refusal]]:
    """Raise or lower features to these levels, or only ask whether they could be; the answer has what is refused."""

    def read_result(reader: Reader) -> Refusal:
        found = Refusal(reader.compact_string(), reader.i16(), reader.compact_string())
        reader.tags()
        return found

    def read(reader: Reader) -> Sequence[Refusal]:
        reader.tags()  # of the header
        reader.i32()  # throttle time
        whole = Refusal("", reader.i16(), reader.compact_string())
        return [each for each in (whole, *reader.compact_array(lambda: read_result(reader))) if each.code]

    kind = _SAFE_DOWNGRADE if is_lowering else _UPGRADE
    updates = [compact_string(name) + i16(level) + i8(kind) + _NO_TAGS for name, level in levels.items()]
    body = _NO_TAGS + i32(timeout_ms) + compact_array(updates) + i8(validate_only) + _NO_TAGS
    return Request(57, 1, body, read)
