"""Message classes, made from the schema: one per struct, with the fields of all its versions."""

from collections.abc import Callable, Sequence, Sized
from functools import cache
from typing import Any, ClassVar, TypeAlias

from kafka_api.protocol.schema.message_schema import Field, MessageSchema, Struct, message_schema

# Record bytes: decoded as a view of the frame; to be sent as one buffer or several, which are never copied.
Buffer: TypeAlias = bytes | bytearray | memoryview
# Of what is sent by reference only the length is asked: it need not be in memory.
Records: TypeAlias = Buffer | Sequence[Sized]


class Message:
    """A request, a response or a struct of one. Built with keywords; what is left out has the schema's default.

    Arrays are lists, uuids are 32 hex digits, times are integers in milliseconds, and a tagged struct that was not sent
    is None. Two messages are equal if they are of one class and all fields are.
    """

    __slots__: tuple[str, ...] = ()
    __hash__: ClassVar[None]  # type: ignore[assignment]  # mutable, so not hashable

    def __init__(self, **fields: Any) -> None:
        raise TypeError("messages are built by the classes of kafka_api.protocol.messages")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__qualname__}({fields})"


class _Unset:
    """The default of parameters that stand for a fresh list or struct."""

    def __repr__(self) -> str:
        return "..."


_UNSET = _Unset()


def _constructor(struct: Struct, classes: dict[str, type[Message]]) -> Callable[..., None]:
    """Compile `__init__`: as source, since `**kwargs` would make every response several times slower to build."""
    namespace: dict[str, Any] = {"unset": _UNSET, **classes}
    parameters, lines = [], []
    for field in struct.fields:
        default = "unset" if field.has_fresh_default else repr(field.default)
        value = f"({fresh_default(field)} if {field.name} is unset else {field.name})"
        parameters.append(f"{field.name}={default}")
        lines.append(f" self.{field.name} = {value if field.has_fresh_default else field.name}")
    star = "*, " if parameters else ""
    source = f"def __init__(self, {star}{', '.join(parameters)}):\n" + "\n".join(lines or [" pass"])
    exec(compile(source, f"<constructor of {struct.name}>", "exec"), namespace)
    constructor: Callable[..., None] = namespace["__init__"]
    return constructor


def fresh_default(field: Field) -> str:
    """Return the expression of a default value that each message must have for itself."""
    return "[]" if field.is_array else f"{field.type}()"


@cache
def struct_classes(name: str) -> dict[str, type[Message]]:
    """Return the classes of a message by struct name; the message's own class is among them.

    Raises:
        KeyError: There is no such message.
    """
    schema = message_schema(name)
    classes: dict[str, type[Message]] = {}
    for struct in schema.structs():
        classes[struct.name] = _make_class(schema, struct, classes)
    own = classes[name]
    for struct_name, struct_class in classes.items():
        if struct_class is not own:
            setattr(own, struct_name, struct_class)
    return classes


def _make_class(schema: MessageSchema, struct: Struct, classes: dict[str, type[Message]]) -> type[Message]:
    is_own = struct.name == schema.name
    return type(
        struct.name,
        (Message,),
        {
            "__slots__": tuple(field.name for field in struct.fields),
            "__init__": _constructor(struct, classes),
            "__module__": "kafka_api.protocol.messages",
            "__qualname__": struct.name if is_own else f"{schema.name}.{struct.name}",
            "__doc__": f"{struct.name}, in versions {schema.versions.low} to {schema.versions.high} of {schema.name}.",
        },
    )
