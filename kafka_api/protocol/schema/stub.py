"""The text of `messages.pyi`: what type checkers and editors know of the message classes."""

from collections.abc import Iterator

from kafka_api.protocol.schema.definitions import DEFINITIONS
from kafka_api.protocol.schema.generated_header import HEADER
from kafka_api.protocol.schema.message_schema import Direction, Field, MessageSchema, Struct, message_schema

_INTEGERS = ("int8", "int16", "uint16", "int32", "int64")
_TYPES = dict.fromkeys(_INTEGERS, "int") | {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "uuid": "str",
    "bytes": "bytes",
    "records": "Records",
}

_IMPORTS = """\
from kafka_api.protocol.message_classes import Message as Message
from kafka_api.protocol.message_classes import Records as Records
"""


def stub_text() -> str:
    """Return the stub: one class per message, the structs of a message nested in it."""
    lines = [HEADER + _IMPORTS]
    for name in DEFINITIONS:
        lines.extend(_message(message_schema(name)))
    return "\n".join(lines).rstrip("\n") + "\n"


def _message(schema: MessageSchema) -> Iterator[str]:
    *nested, own = schema.structs()
    yield f"class {schema.name}(Message):"
    for struct in nested:
        yield f"    class {struct.name}(Message):"
        yield from _body(schema, struct, "        ")
        yield ""
    yield from _body(schema, own, "    ")
    yield ""


def _body(schema: MessageSchema, struct: Struct, indent: str) -> Iterator[str]:
    for field in struct.fields:
        yield f"{indent}{field.name}: {_attribute_type(schema, field)}"
    if not struct.fields:
        yield f"{indent}def __init__(self) -> None: ..."
        return
    yield f"{indent}def __init__("
    yield f"{indent}    self,"
    yield f"{indent}    *,"
    for field in struct.fields:
        yield f"{indent}    {field.name}: {_value_type(schema, field)} = ...,"
    yield f"{indent}) -> None: ..."


def _attribute_type(schema: MessageSchema, field: Field) -> str:
    # A broker reads the records of requests, and those are always a view of the frame.
    if field.type == "records" and schema.direction is Direction.REQUEST:
        return "memoryview | None"
    return _value_type(schema, field)


def _value_type(schema: MessageSchema, field: Field) -> str:
    name = f"{schema.name}.{field.type}" if field.struct is not None else _TYPES[field.type]
    if field.is_array:
        name = f"list[{name}]"
    return f"{name} | None" if field.may_be_none else name
