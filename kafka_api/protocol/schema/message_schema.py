"""Field tables parsed: what a message holds in each of its versions.

One line of a definition is `name type versions [null=versions] [tag=number@versions] [default=value]`; the fields of
a struct follow it, indented by two spaces more. Versions are `3`, `3-7`, `3+` or `none`. The first line of a message is
`api_key request|response versions flexible=versions`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import NamedTuple

from kafka_api.protocol.errors import UnsupportedVersionError
from kafka_api.protocol.schema.definitions import DEFINITIONS

ZERO_UUID = "0" * 32

_NO_LIMIT = 0x7FFF
_INTEGERS = frozenset({"int8", "int16", "uint16", "int32", "int64"})
PRIMITIVES = _INTEGERS | {"bool", "float64", "string", "uuid", "bytes", "records"}


class Direction(Enum):
    """Who sends a message."""

    REQUEST = "request"
    RESPONSE = "response"


class VersionRange(NamedTuple):
    """Versions low to high, both included; empty if low > high."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> "VersionRange":
        """Return the range of `3`, `3-7`, `3+` or `none`."""
        if text == "none":
            return cls(0, -1)
        low, separator, high = text.partition("-")
        if separator:
            return cls(int(low), int(high))
        if text.endswith("+"):
            return cls(int(text[:-1]), _NO_LIMIT)
        return cls(int(text), int(text))

    def has(self, version: int) -> bool:
        """Return whether the version lies in the range."""
        return self.low <= version <= self.high


NO_VERSIONS = VersionRange.parse("none")


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct.

    Attributes:
        type: A name of `PRIMITIVES`, or the name of `struct`; of the element if `is_array`.
        default: The value of a field that is absent. Arrays and structs that are not null have None here: see
            `has_fresh_default`.
    """

    name: str
    type: str
    is_array: bool
    struct: "Struct | None"
    versions: VersionRange
    nullable: VersionRange
    tag: int | None
    tagged: VersionRange
    default: object
    has_fresh_default: bool

    @property
    def may_be_none(self) -> bool:
        """Whether the attribute can be None: null on the wire, or a tagged struct that was not sent."""
        return self.nullable != NO_VERSIONS or self.is_optional_struct or self.type == "records"

    @property
    def is_optional_struct(self) -> bool:
        """Whether this is a tagged struct. Absent means all defaults; we say None instead of building it."""
        return self.struct is not None and not self.is_array and self.tag is not None


@dataclass(frozen=True, slots=True)
class Struct:
    """Named fields in their order on the wire; tagged fields may stand anywhere."""

    name: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class MessageSchema:
    """A request or a response, with every struct that occurs in it."""

    name: str
    api_key: int
    direction: Direction
    versions: VersionRange
    flexible: VersionRange
    struct: Struct

    def structs(self) -> list[Struct]:
        """Return every struct of the message once, inner ones first, the message itself last."""
        found: dict[str, Struct] = {}
        _collect(self.struct, found)
        return list(found.values())


def _collect(struct: Struct, found: dict[str, Struct]) -> None:
    for field in struct.fields:
        if field.struct is not None:
            _collect(field.struct, found)
    assert found.get(struct.name, struct) == struct, f"two structs are called {struct.name}"
    found[struct.name] = struct


@cache
def message_schema(name: str) -> MessageSchema:
    """Return the schema of e.g. `FetchRequest`.

    Raises:
        KeyError: There is no such message.
    """
    head, *lines = DEFINITIONS[name].strip("\n").split("\n")
    api_key, direction, versions, flexible = head.split()
    fields, rest = _parse_fields(lines, 0)
    assert not rest, f"{name}: indentation of {rest[0]!r}"
    return MessageSchema(
        name=name,
        api_key=int(api_key),
        direction=Direction(direction),
        versions=VersionRange.parse(versions),
        flexible=VersionRange.parse(flexible.removeprefix("flexible=")),
        struct=Struct(name, fields),
    )


def _parse_fields(lines: list[str], indent: int) -> tuple[tuple[Field, ...], list[str]]:
    fields = []
    while lines and len(lines[0]) - len(lines[0].lstrip()) == indent:
        line, lines = lines[0], lines[1:]
        nested, lines = _parse_fields(lines, indent + 2)
        fields.append(_parse_field(line.split(), nested))
    return tuple(fields), lines


def _parse_field(words: list[str], nested: tuple[Field, ...]) -> Field:
    name, type_name, versions, *rest = words
    options = dict(word.split("=", 1) for word in rest)
    is_array = type_name.startswith("[]")
    element = type_name.removeprefix("[]")
    assert (element in PRIMITIVES) != bool(nested), f"{name}: {element} is neither a primitive nor a struct with fields"
    tag, _, tagged = options.get("tag", "").partition("@")
    default, has_fresh_default = _parse_default(options.get("default"), element, is_array)
    return Field(
        name=name,
        type=element,
        is_array=is_array,
        struct=Struct(element, nested) if nested else None,
        versions=VersionRange.parse(versions),
        nullable=VersionRange.parse(options.get("null", "none")),
        tag=int(tag) if tag else None,
        tagged=VersionRange.parse(tagged or "none"),
        default=default,
        has_fresh_default=has_fresh_default and not (tag and nested and not is_array),
    )


def _parse_default(text: str | None, element: str, is_array: bool) -> tuple[object, bool]:
    """Return the default, and whether it is a mutable value that each message must have for itself."""
    if text == "null" or (element == "records" and text is None):
        return None, False
    if is_array or element not in PRIMITIVES:
        return None, True
    if element in _INTEGERS:
        return int(text or "0", 0), False
    if element == "bool":
        return text == "true", False
    if element == "float64":
        return float(text or "0"), False
    return {"string": text or "", "uuid": ZERO_UUID, "bytes": b""}[element], False


def _index() -> Iterator[tuple[tuple[int, Direction], str]]:
    for name, definition in DEFINITIONS.items():
        api_key, direction, *_ = definition.split(maxsplit=2)
        yield (int(api_key), Direction(direction)), name


_NAMES = dict(_index())


def api_keys() -> list[int]:
    """Return every API key of the schema, ascending."""
    return sorted(key for key, direction in _NAMES if direction is Direction.REQUEST)


def schema_of(api_key: int, direction: Direction) -> MessageSchema:
    """Return the schema of a request or response.

    Raises:
        UnsupportedVersionError: The schema does not have this key.
    """
    name = _NAMES.get((api_key, direction))
    if name is None:
        raise UnsupportedVersionError(f"API key {api_key} is unknown")
    return message_schema(name)
