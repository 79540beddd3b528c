"""The messages by name, e.g. `FetchRequest` and in it `FetchRequest.FetchTopic`; see `Message` for what they share.

A class is made when it is first asked for, since a broker start would otherwise pay for hundreds that it never uses.
`messages.pyi` beside this file declares them all.
"""

from kafka_api.protocol.message_classes import Message, struct_classes
from kafka_api.protocol.schema.definitions import DEFINITIONS


def __getattr__(name: str) -> type[Message]:
    if name not in DEFINITIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    message: type[Message] = struct_classes(name)[name]
    globals()[name] = message
    return message


def __dir__() -> list[str]:
    return sorted(DEFINITIONS)
