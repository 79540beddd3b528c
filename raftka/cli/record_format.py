"""How records are printed: the values, JSON, or a format with directives."""

import base64
import json
import operator
import sys
from collections.abc import Callable, Sized
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from raftka import kafka_client
from raftka.cli.format_text import Directive, parse_format
from raftka.cli.output import bytes_as_json

if TYPE_CHECKING:
    from confluent_kafka import Message

FORMAT_HELP = (
    "%t topic, %p partition, %o offset, %e leader epoch, %k key, %s or %v value, %h headers as a=1,b=2, %H how many,"
    " %K and %S or %V bytes of key and value (-1: null), %T or %d timestamp in ms (-1: none), %%;"
    r" \n, \t, \r, \0, \xHH, \\; %k{hex}, %v{base64}, %T{iso}"
)
_BYTES_MODIFIERS = ("hex", "base64")
_MODIFIERS = {
    **dict.fromkeys("tpoehHKS", ()),
    **dict.fromkeys("ks", _BYTES_MODIFIERS),
    "T": ("iso",),
}
_TEXT_FORMAT = r"%s\n"

# confluent-kafka returns a result and raises, too. Where the interpreter has specialized a plain call, it does not look
# for that, and the error comes out of some later line.
_call_headers = operator.methodcaller("headers")
# Stands for headers that cannot be read, and is never read itself.
_UNREADABLE: Any = [("", None)]

Render = Callable[["Message"], bytes]


def _warn(words: str) -> None:
    print(f"raftka: {words}", file=sys.stderr)


def record_printer(text: str, flag: str = "--format", *, warn: Callable[[str], None] = _warn) -> Render:
    """Return what makes the bytes to print of a record: `text` is text, json or a format.

    Args:
        text: What was typed.
        flag: Where.
        warn: Called with words about a record that cannot be printed as it is.

    Raises:
        typer.BadParameter: Neither text nor json nor a format.
    """
    if text == "json":
        return _warned(lambda message: (json.dumps(record_as_json(message), ensure_ascii=False) + "\n").encode(), warn)
    if text != "text" and "%" not in text:
        raise typer.BadParameter(f"{flag} {text}: must be text, json or a format with %-directives")
    parts = parse_format(_TEXT_FORMAT if text == "text" else text, _MODIFIERS, flag)
    renders = [_field(part) if isinstance(part, Directive) else _constant(part) for part in parts]

    def render(message: "Message") -> bytes:
        return b"".join([render(message) for render in renders])

    has_headers = any(isinstance(part, Directive) and part.letter in "hH" for part in parts)
    return _warned(render, warn) if has_headers else render


def record_as_json(message: "Message") -> dict[str, Any]:
    """Return a record as an object; bytes that are no UTF-8 become {"base64": ...}, unreadable headers null."""
    headers = read_headers(message)
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": message.timestamp()[1],
        "key": bytes_as_json(_key(message)),
        "value": bytes_as_json(_value(message)),
        "headers": headers and [{"key": name, "value": bytes_as_json(data)} for name, data in headers],
    }


def read_headers(message: "Message") -> list[tuple[str, bytes | None]] | None:
    """Return the headers of a record; None: one of them has a name that is no UTF-8, so nobody can have any of them."""
    try:
        found: Any = _call_headers(message) or []
    except SystemError:
        # confluent-kafka makes strings of names. What it would return from now on has holes that crash whoever touches
        # them.
        found = _UNREADABLE
        message.set_headers(_UNREADABLE)
    return None if found is _UNREADABLE else found


def _warned(render: Render, warn: Callable[[str], None]) -> Render:
    def render_or_warn(message: "Message") -> bytes:
        if read_headers(message) is None:
            warn(
                f"offset {message.offset()} of partition {message.topic()}-{message.partition()} has a header whose"
                " name is no UTF-8; its headers are left out"
            )
        return render(message)

    return render_or_warn


def _constant(data: bytes) -> Render:
    return lambda _: data


def _field(directive: Directive) -> Render:
    match directive:
        case Directive("T", "iso"):
            return lambda message: _iso(message.timestamp()[1]).encode()
        case Directive(letter, ""):
            return _FIELDS[letter]
    plain = _FIELDS[directive.letter]
    if directive.modifier == "hex":
        return lambda message: plain(message).hex().encode()
    return lambda message: base64.b64encode(plain(message))


def _number(read: Callable[["Message"], Any]) -> Render:
    return lambda message: str(-1 if (number := read(message)) is None else number).encode()


def _key(message: "Message") -> Any:
    return message.key()


def _value(message: "Message") -> Any:
    return message.value()


def _length(data: Sized | None) -> int:
    return -1 if data is None else len(data)


def _headers_as_text(message: "Message") -> bytes:
    # As kcat has it: a null has no `=`.
    pairs = read_headers(message) or []
    return b",".join(name.encode() + (b"" if data is None else b"=" + data) for name, data in pairs)


def _iso(milliseconds: int) -> str:
    """Return a time in UTC; one that no calendar has stays a number, and so does the -1 of a record without a time."""
    if milliseconds == -1:
        return str(milliseconds)
    try:
        moment = datetime.fromtimestamp(milliseconds / 1_000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


_FIELDS: dict[str, Render] = {
    "t": lambda message: str(message.topic()).encode(),
    "p": _number(lambda message: message.partition()),
    "o": _number(kafka_client.delivered_offset),
    "e": _number(lambda message: message.leader_epoch()),
    "k": lambda message: _key(message) or b"",
    "s": lambda message: _value(message) or b"",
    "h": _headers_as_text,
    "H": lambda message: str(_length(read_headers(message))).encode(),
    "K": lambda message: str(_length(_key(message))).encode(),
    "S": lambda message: str(_length(_value(message))).encode(),
    "T": lambda message: str(message.timestamp()[1]).encode(),
}
