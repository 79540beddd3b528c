"""Random messages: of ours from the schema, and of kio by introspection; and what kio's mean in our terms."""

import dataclasses
import datetime
import random
import uuid
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial._introspect import EntityField, EntityTupleField, PrimitiveTupleField, classify_field, is_optional

from kafka_api.protocol.message_classes import Message, struct_classes
from kafka_api.protocol.schema.message_schema import (
    ZERO_UUID,
    Direction,
    Field,
    MessageSchema,
    Struct,
    api_keys,
    schema_of,
)

INTEGER_BITS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "int64": 64}

MESSAGES = [(key, direction) for key in api_keys() for direction in Direction]
MESSAGE_VERSIONS = [
    (key, direction, version)
    for key, direction in MESSAGES
    for version in range(schema_of(key, direction).versions.low, schema_of(key, direction).versions.high + 1)
]


def random_integer(rng: random.Random, bits: int, *, signed: bool = True) -> int:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return rng.choice([low, high, 0, 1, rng.randint(low, high)])


def random_text(rng: random.Random) -> str:
    # Around 127 bytes a compact length takes its second byte.
    length = rng.choice([0, 1, 5, 20, 126, 127, 128, 300]) if rng.random() < 0.3 else rng.randint(0, 8)
    return "".join(rng.choice("abcXYZ-._09é世𝄞") for _ in range(length))


def random_count(rng: random.Random) -> int:
    return rng.choice([0, 1, 1, 2, 3])


# -- ours


def random_message(schema: MessageSchema, version: int, rng: random.Random) -> Message:
    """A message with random values in the fields of the version, the others left at their defaults."""
    return _random_struct(schema, schema.struct, version, rng)


def _random_struct(schema: MessageSchema, struct: Struct, version: int, rng: random.Random) -> Message:
    values = {}
    for field in struct.fields:
        if field.versions.has(version) and not (field.tagged.has(version) and rng.random() < 0.4):
            values[field.name] = _random_field(schema, field, version, rng)
    return struct_classes(schema.name)[struct.name](**values)


def _random_field(schema: MessageSchema, field: Field, version: int, rng: random.Random) -> Any:
    if field.nullable.has(version) and rng.random() < 0.2:
        return None
    if field.is_array:
        many = rng.random() < 0.02 and field.struct is None
        count = 150 if many else random_count(rng)
        return [_random_element(schema, field, version, rng) for _ in range(count)]
    return _random_element(schema, field, version, rng)


def _random_element(schema: MessageSchema, field: Field, version: int, rng: random.Random) -> Any:
    if field.struct is not None:
        return _random_struct(schema, field.struct, version, rng)
    if field.type in INTEGER_BITS:
        return random_integer(rng, INTEGER_BITS[field.type], signed=field.type != "uint16")
    return {
        "bool": lambda: rng.random() < 0.5,
        "float64": lambda: rng.uniform(-1e9, 1e9),
        "string": lambda: random_text(rng),
        "uuid": lambda: rng.choice([ZERO_UUID, uuid.UUID(int=rng.getrandbits(128)).hex]),
        "bytes": lambda: rng.randbytes(rng.randint(0, 200)),
        "records": lambda: memoryview(rng.randbytes(rng.randint(0, 200))),
    }[field.type]()


# -- kio's


def kio_class(key: int, direction: Direction, version: int) -> Any:
    return (load_request_schema if direction is Direction.REQUEST else load_response_schema)(key, version)


def random_kio_message(entity: Any, rng: random.Random) -> Any:
    values = {}
    for field in dataclasses.fields(entity):
        if "tag" in field.metadata and rng.random() < 0.4:
            continue
        values[field.name] = _random_kio_field(field, rng)
    return entity(**values)


def _random_kio_field(field: Any, rng: random.Random) -> Any:
    kind = classify_field(field)
    # A null array is typed `tuple[...] | None`, which kio's is_optional does not tell from null elements.
    may_be_none = is_optional(field) if not kind.is_array else type(None) in getattr(field.type, "__args__", ())
    if may_be_none and rng.random() < 0.2:
        return None
    if isinstance(kind, EntityTupleField):
        return tuple(random_kio_message(kind.type_, rng) for _ in range(random_count(rng)))
    if isinstance(kind, EntityField):
        return random_kio_message(kind.type_, rng)
    kafka_type = field.metadata["kafka_type"]
    if isinstance(kind, PrimitiveTupleField):
        return tuple(_random_kio_value(kafka_type, kind.type_, rng) for _ in range(random_count(rng)))
    return _random_kio_value(kafka_type, kind.type_, rng)


def _random_kio_value(kafka_type: str, value_type: Any, rng: random.Random) -> Any:
    if kafka_type in INTEGER_BITS:
        return value_type(random_integer(rng, INTEGER_BITS[kafka_type], signed=kafka_type != "uint16"))
    return {
        "bool": lambda: rng.random() < 0.5,
        "float64": lambda: rng.uniform(-1e9, 1e9),
        "string": lambda: random_text(rng),
        "uuid": lambda: uuid.UUID(int=rng.randint(1, 2**128 - 1)),
        "bytes": lambda: rng.randbytes(rng.randint(0, 200)),
        "records": lambda: value_type(rng.randbytes(rng.randint(0, 200))),
        "error_code": lambda: rng.choice(list(KioErrorCode)),
        # kio holds times as timedelta and datetime: whole seconds survive, and a negative datetime does not exist.
        "timedelta_i32": lambda: datetime.timedelta(seconds=rng.randint(-2_000_000, 2_000_000)),
        "timedelta_i64": lambda: datetime.timedelta(seconds=rng.randint(-(2**31), 2**31)),
        "datetime_i64": lambda: datetime.datetime.fromtimestamp(rng.randint(0, 2**32), datetime.UTC),
    }[kafka_type]()


def assert_same(message: Message, struct: Struct, version: int, entity: Any) -> None:
    """Compare field by field, and fields that the version does not have with their defaults."""
    theirs = {field.name: field for field in dataclasses.fields(entity)}
    for field in struct.fields:
        value = getattr(message, field.name)
        other = theirs.get(field.name) or theirs.get(field.name.removesuffix("_ms"))
        assert (other is not None) == field.versions.has(version), f"{struct.name}.{field.name} v{version}"
        if other is None:
            assert value == ([] if field.is_array and field.has_fresh_default else field.default)
            continue
        expected = getattr(entity, other.name)
        if field.is_array and expected is not None:
            assert len(value) == len(expected)
            for one, expected_one in zip(value, expected, strict=True):
                _assert_same_value(one, field, version, expected_one)
        elif field.is_optional_struct and value is None:
            assert expected == other.default
        else:
            _assert_same_value(value, field, version, expected)


def _assert_same_value(value: Any, field: Field, version: int, expected: Any) -> None:
    if field.struct is not None and expected is not None:
        assert_same(value, field.struct, version, expected)
        return
    if isinstance(expected, uuid.UUID):
        expected = expected.hex
    elif isinstance(expected, datetime.timedelta):
        expected = round(expected.total_seconds() * 1000)
    elif isinstance(expected, datetime.datetime):
        expected = round(expected.timestamp() * 1000)
    elif expected is None and field.type == "uuid":
        expected = ZERO_UUID
    elif expected is None and field.type == "int64":
        expected = -1
    assert value == expected, f"{field.name} v{version}"
