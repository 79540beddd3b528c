"""Headers as cbor2 arrays, bodies as msgspec structs inside them.

    [0, request id, method number, body]      request
    [1, request id, body]                     reply
    [2, request id, code, message]            error reply
    [3, ...], [4, ...], [5, ...]              handshake (handshake.py)

Tags, indefinite lengths and deep nesting are refused: nothing of ours uses them, and a decoder that follows a
stranger's tags builds regular expressions and cyclic lists.
"""

from typing import NoReturn, TypeVar

import cbor2
import msgspec

from rpc.errors import MalformedBodyError, MalformedFrameError
from rpc.framing import Buffer

Body = TypeVar("Body")

REQUEST = 0
REPLY = 1
ERROR_REPLY = 2
HELLO = 3
PROOF = 4
REFUSED = 5

# Highest number of a request id, error code or method; ids start at 1 on each connection.
MAX_NUMBER = (1 << 63) - 1

MAX_MESSAGE_CHARACTERS = 1000

_MAX_DEPTH = 32
_BYTES_STAY_BYTES = (bytes, bytearray, memoryview)


def _refuse_tag(*_: object) -> NoReturn:
    raise ValueError("tags are not allowed")


# Every tag that cbor2 decodes by itself; the hook refuses all others.
_BUILT_IN_TAGS = (*(0, 1, 2, 3, 4, 5, 25, 28, 29, 30, 35, 36, 37, 52, 54, 100, 256, 258, 260, 261, 1004, 43000, 55799),)
_NO_TAGS = dict.fromkeys(_BUILT_IN_TAGS, _refuse_tag)


def encode_header(*items: object) -> bytes:
    """Return the cbor2 array of `items`."""
    return cbor2.dumps(items)


def decode_header(header: Buffer) -> list[object]:
    """Return the items of a header; at least its kind, an int.

    Raises:
        MalformedFrameError: Not an array that starts with an int.
    """
    try:
        items: object = cbor2.loads(
            header, semantic_decoders=_NO_TAGS, tag_hook=_refuse_tag, max_depth=_MAX_DEPTH, allow_indefinite=False
        )
    except (cbor2.CBORError, ValueError, OverflowError, RecursionError) as error:
        raise MalformedFrameError(f"the header is not cbor2 of ours: {error}") from error
    if not isinstance(items, list) or not items or type(items[0]) is not int:
        raise MalformedFrameError("the header is not an array that starts with a kind")
    return items


def body_builtins(body: object) -> object:
    """Return what cbor2 can encode of a body (a msgspec struct with `array_like=True`)."""
    return msgspec.to_builtins(body, builtin_types=_BYTES_STAY_BYTES)


def parse_body(value: object, shape: type[Body]) -> Body:
    """Return a received body as `shape`, every field checked.

    Raises:
        MalformedBodyError: It has another shape.
    """
    try:
        return msgspec.convert(value, shape, builtin_types=_BYTES_STAY_BYTES)
    except (msgspec.ValidationError, OverflowError, RecursionError) as error:
        raise MalformedBodyError(f"not a {shape.__name__}: {error}") from error


def number(value: object, *, lowest: int = 0) -> int:
    """Check that a header's item is an int in lowest..MAX_NUMBER.

    Raises:
        MalformedFrameError: It is not.
    """
    if type(value) is not int or not lowest <= value <= MAX_NUMBER:
        raise MalformedFrameError(f"a number of {lowest} or more was expected, not {str(value)[:40]!r}")
    return value


def encode_error_reply(request_id: int, code: int, message: str) -> bytes:
    """Return the header of an error reply; a long message is cut."""
    return encode_header(ERROR_REPLY, request_id, int(code), message[:MAX_MESSAGE_CHARACTERS])
