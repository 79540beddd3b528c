"""How records are printed: the values, JSON, or a format with directives."""

import base64
import json
import operator
import sys
from collections.abc import Callable, Sized
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import click

from raftka.cli.format_text import Directive, Takes, parse_format
from raftka.cli.number_format import WRITE_MODIFIERS, is_signed, number_writer
from raftka.cli.output import bytes_as_json
from raftka.kafka import client as kafka_client

if TYPE_CHECKING:
    from confluent_kafka import Message

FORMAT_HELP = (
    "%t topic, %p partition, %o offset, %e leader epoch, %k key, %s or %v value, %h headers as a=1,b=2, %H number of"
    " headers, %K and %S or %V bytes of key and value (-1: null), %R bytes of the value as big32, %T or %d timestamp in"
    r" ms (-1: none), %i number of records so far, %%, %{, %}; \n, \t, \r, \0, \xHH, \\; %k{hex}, %v{base64},"
    " %t{base64raw}; %h{ %k=%v}, a format for each header; %T{iso}, %d{strftime[%F %T]}, in UTC; numbers as"
    " %K{big32}: big, little and hex with 8, 16, 32 or 64 bits, hex4, byte, bool, ascii"
)
_TEXT = Takes(("hex", "base64", "base64raw"))
_NUMBER = Takes(WRITE_MODIFIERS)
_HEADER_LETTERS = {**dict.fromkeys("ks", _TEXT), **dict.fromkeys("KS", _NUMBER)}
_LETTERS = {
    **dict.fromkeys("tks", _TEXT),
    **dict.fromkeys("poeHKSi", _NUMBER),
    "h": Takes(inner=_HEADER_LETTERS),
    "T": Takes((*WRITE_MODIFIERS, "iso"), time=True),
}
_TEXT_FORMAT = r"%s\n"

# confluent-kafka returns a result and raises, too. Where the interpreter has specialized a plain call, it does not look
# for that, and the error comes out of some later line.
_call_headers = operator.methodcaller("headers")
# Stands for headers that cannot be read, and is never read itself.
_UNREADABLE: Any = [("", None)]

Render = Callable[["Message"], bytes]
Header = tuple[str, bytes | None]
T = TypeVar("T")


def _warn(words: str) -> None:
    print(f"raftka: {words}", file=sys.stderr)


def record_printer(text: str, flag: str = "--format", *, warn: Callable[[str], None] = _warn) -> Render:
    """Return what makes the bytes to print of a record: `text` is text, json or a format.

    Args:
        text: What was typed.
        flag: Where.
        warn: Called with words about a record that cannot be printed as it is.

    Raises:
        click.BadParameter: Neither text nor json nor a format.
    """
    if text == "json":
        return _warned(lambda message: (json.dumps(record_as_json(message), ensure_ascii=False) + "\n").encode(), warn)
    if text != "text" and "%" not in text:
        raise click.BadParameter(f"{flag} {text}: must be text, json or a format with %-directives")
    parts = parse_format(_TEXT_FORMAT if text == "text" else text, _LETTERS, flag)
    renders = [_field(part, flag) if isinstance(part, Directive) else _constant(part) for part in parts]

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
                " name is not UTF-8; its headers are left out"
            )
        return render(message)

    return render_or_warn


def _constant(data: bytes) -> Callable[[Any], bytes]:
    return lambda _: data


def _field(directive: Directive, flag: str) -> Render:
    letter, modifier = directive.letter, directive.modifier
    if letter in _TEXTS:
        return _text(modifier, _TEXTS[letter])
    if letter in _SIZES:
        return _size(modifier, _SIZES[letter])
    if letter == "h":
        return _each_header(directive.inner) if directive.inner else _headers_as_text
    if letter == "i":
        return _counted(number_writer(modifier))
    if modifier == "iso":
        return lambda message: _iso(message.timestamp()[1]).encode()
    if modifier == "strftime":
        return _strftime(directive.argument, flag)
    read, write = _NUMBERS[letter], number_writer(modifier)
    return lambda message: write(-1 if (number := read(message)) is None else number)


def _text(modifier: str, read: Callable[[T], bytes | None]) -> Callable[[T], bytes]:
    match modifier:
        case "hex":
            return lambda of: (read(of) or b"").hex().encode()
        case "base64":
            return lambda of: base64.b64encode(read(of) or b"")
        case "base64raw":
            return lambda of: base64.b64encode(read(of) or b"").rstrip(b"=")
    return lambda of: read(of) or b""


def _size(modifier: str, read: Callable[[T], Sized | None]) -> Callable[[T], bytes]:
    write = number_writer(modifier)
    # Cut off, -1 would be 255 bytes that are not there.
    of_null = -1 if is_signed(modifier) else 0
    return lambda of: write(of_null if (data := read(of)) is None else len(data))


def _counted(write: Callable[[int], bytes]) -> Render:
    numbers = count(1)
    return lambda _: write(next(numbers))


def _each_header(parts: "tuple[bytes | Directive, ...]") -> Render:
    """Return what prints all headers, each by the same format."""
    renders: list[Callable[[Header], bytes]] = []
    for part in parts:
        if isinstance(part, bytes):
            renders.append(_constant(part))
        elif part.letter in _HEADER_TEXTS:
            renders.append(_text(part.modifier, _HEADER_TEXTS[part.letter]))
        else:
            renders.append(_size(part.modifier, _HEADER_TEXTS[part.letter.lower()]))
    return lambda message: b"".join([render(header) for header in read_headers(message) or [] for render in renders])


def _strftime(text: str, flag: str) -> Render:
    """Return what prints a time in UTC by strftime; a time that no calendar has stays a number."""
    try:
        # What is no text for the C library is refused before any record is read.
        datetime.fromtimestamp(0, UTC).strftime(text).encode()
    except ValueError as error:
        raise click.BadParameter(f"{flag}: strftime[{text!r}]: {error}") from None

    def render(message: "Message") -> bytes:
        milliseconds = message.timestamp()[1]
        moment = _moment(milliseconds)
        return (str(milliseconds) if moment is None else moment.strftime(text)).encode()

    return render


def _key(message: "Message") -> Any:
    return message.key()


def _value(message: "Message") -> Any:
    return message.value()


def _headers_as_text(message: "Message") -> bytes:
    # As kcat has it: a null has no `=`.
    pairs = read_headers(message) or []
    return b",".join(name.encode() + (b"" if data is None else b"=" + data) for name, data in pairs)


def _moment(milliseconds: int) -> datetime | None:
    """Return a time in UTC; None where no calendar has it, or it is the -1 of a record without a time."""
    if milliseconds == -1:
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1_000, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _iso(milliseconds: int) -> str:
    moment = _moment(milliseconds)
    if moment is None:
        return str(milliseconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


_TEXTS: "dict[str, Callable[[Message], bytes | None]]" = {
    "t": lambda message: str(message.topic()).encode(),
    "k": _key,
    "s": _value,
}
_SIZES: "dict[str, Callable[[Message], Sized | None]]" = {"K": _key, "S": _value, "H": read_headers}
_NUMBERS: "dict[str, Callable[[Message], int | None]]" = {
    "p": lambda message: message.partition(),
    "o": kafka_client.delivered_offset,
    "e": lambda message: message.leader_epoch(),
    "T": lambda message: message.timestamp()[1],
}
_HEADER_TEXTS: dict[str, Callable[[Header], bytes | None]] = {
    "k": lambda header: header[0].encode(),
    "s": lambda header: header[1],
}
