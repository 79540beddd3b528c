"""What `raftka produce` reads: lines, JSON, or anything that a format describes."""

import base64
import binascii
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import click

from raftka.cli.exit_codes import CommandError
from raftka.cli.format_text import Directive, Takes, parse_format, typed_bytes
from raftka.cli.input_buffer import ByteStream, InputBuffer
from raftka.cli.number_format import READ_MODIFIERS, number_width, read_number

# The most that librdkafka takes: what is too large for a topic is for its brokers to say.
RECORD_BYTES_MAX = 1_000_000_000
INPUT_HELP = (
    r"text: lines, which end with \n or \r\n; json: an object per line, as `raftka consume -f json` prints them, of"
    " which key, value, headers and timestamp (-1: now) are taken; or a format: %k key, %s or %v value, %h headers as"
    " a=1,b=2, %p partition, %T or %d timestamp in ms (-1: now), each up to the text that follows it; or %K and %S or"
    r" %V bytes of key and value (-1: null), as in '%K %S %k%s\n', or %R bytes of the value as big32; %k{hex},"
    " %v{base64}; %K{big32}: numbers as `raftka consume -f` writes them; %K{4}, %k{4}: as many bytes in every record"
)
_TEXT = Takes(("hex", "base64"), size=True)
_NUMBER = Takes(READ_MODIFIERS)
_LETTERS = {
    **dict.fromkeys("ks", _TEXT),
    "h": Takes(),
    **dict.fromkeys("pT", _NUMBER),
    **dict.fromkeys("KS", Takes(READ_MODIFIERS, size=True)),
}
_SIZED = {"k": "K", "s": "S"}
_JSON_KEYS = {"topic", "partition", "offset", "timestamp", "key", "value", "headers"}
_NUMBER_DIGITS_MAX = 18
_TIMESTAMP_MAX = 2**63 - 1
_SHOWN_BYTES = 20

Headers = list[tuple[str, bytes | None]]


class InputError(CommandError):
    """Input that is no record."""


class Place(NamedTuple):
    """Where a record comes from, for errors: a file's name or nothing, what is counted, and its number."""

    source: str
    unit: str
    number: int

    def __str__(self) -> str:
        return f"{self.source}: {self.unit} {self.number}" if self.source else f"{self.unit} {self.number}"


class InputRecord(NamedTuple):
    """A record to be written; `partition` is -1 where the key decides, `timestamp` (ms) 0 for now."""

    place: Place
    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int = -1
    timestamp: int = 0


ReadRecords = Callable[[ByteStream, str], Iterator[InputRecord]]


def record_reader(text: str, key: str | None, separator: str | None, *, allows_no_value: bool = False) -> ReadRecords:
    """Return what reads the records of a stream, which is called by a name in errors.

    Args:
        text: text, json or a format.
        key: Of every record that brings none.
        separator: Between key and value of each line, where it is text.
        allows_no_value: Whether a format may leave all values null.

    Raises:
        click.BadParameter: What does not go together.
    """
    default = None if key is None else typed_bytes(key)
    if text == "text":
        return partial(_read_lines, default, None if separator is None else typed_bytes(separator))
    if separator is not None:
        raise click.BadParameter(
            "--key-separator needs --format text; in another --format, put the separator between %k and %s"
        )
    if text == "json":
        return partial(_read_json, default)
    if "%" not in text:
        raise click.BadParameter(f"--format {text}: must be text, json or a format with %-directives")
    return partial(InputFormat(text, allows_no_value=allows_no_value).read, default)


def parse_header(text: str, where: str) -> tuple[str, bytes | None]:
    """Return name and value of NAME=VALUE; NAME alone has null.

    Raises:
        InputError: No name, or one that no header can have.
    """
    name, equals, value = text.partition("=")
    if not name:
        raise InputError(f"{where}: a header must be NAME=VALUE, not {text!r}")
    return _header_name(name, where), typed_bytes(value) if equals else None


def _header_name(name: str, where: str) -> str:
    """Return a name as it is; librdkafka ends the process that has one which is no UTF-8, and cuts it off at a NUL."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InputError(f"{where}: header name {name!r} is not UTF-8") from None
    if "\0" in name:
        raise InputError(f"{where}: header name {name!r} contains NUL")
    return name


def _lines(stream: ByteStream, source: str) -> Iterator[tuple[Place, bytes]]:
    for number, line in enumerate(iter(partial(stream.readline, RECORD_BYTES_MAX), b""), 1):
        place = Place(source, "line", number)
        if len(line) == RECORD_BYTES_MAX:
            raise InputError(f"{place}: {len(line)} bytes or more exceed the limit of a record")
        yield place, line[:-2] if line.endswith(b"\r\n") else line.removesuffix(b"\n")


def _read_lines(key: bytes | None, separator: bytes | None, stream: ByteStream, source: str) -> Iterator[InputRecord]:
    """Yield a record for each line; nothing is decoded."""
    for place, line in _lines(stream, source):
        if separator is None:
            yield InputRecord(place, key, line, [])
            continue
        before, found, after = line.partition(separator)
        if not found:
            raise InputError(f"{place} has no {_shown(separator)} between key and value")
        yield InputRecord(place, before, after, [])


def _read_json(key: bytes | None, stream: ByteStream, source: str) -> Iterator[InputRecord]:
    for place, line in _lines(stream, source):
        try:
            found = json.loads(line)
        except ValueError as error:
            raise InputError(f"{place} is not JSON: {error}") from None
        except RecursionError:
            raise InputError(f"{place} is nested too deeply") from None
        if not isinstance(found, dict):
            raise InputError(f'{place}: must be an object, such as {{"value": "hello"}}')
        if unknown := sorted(found.keys() - _JSON_KEYS):
            raise InputError(f"{place}: unknown key {unknown[0]!r}; keys: {', '.join(sorted(_JSON_KEYS))}")
        timestamp = found.get("timestamp")
        if timestamp is None:
            timestamp = -1
        if not isinstance(timestamp, int) or isinstance(timestamp, bool) or not -1 <= timestamp <= _TIMESTAMP_MAX:
            raise InputError(f"{place}: timestamp {_cut(repr(timestamp))} is not a number of milliseconds")
        own_key = bytes_from_json(found.get("key"), f"{place}: key")
        yield InputRecord(
            place,
            key if own_key is None else own_key,
            bytes_from_json(found.get("value"), f"{place}: value"),
            _json_headers(found.get("headers"), place),
            timestamp=_sent_timestamp(timestamp, f"{place}: timestamp"),
        )


def _json_headers(found: Any, place: Place) -> Headers:
    if found is None:
        return []
    if isinstance(found, dict):
        pairs = list(found.items())
    elif isinstance(found, list) and all(_is_header(each) for each in found):
        pairs = [(each["key"], each.get("value")) for each in found]
    else:
        raise InputError(f'{place}: headers must be [{{"key": NAME, "value": ...}}, ...] or {{NAME: VALUE, ...}}')
    return [(_header_name(name, str(place)), bytes_from_json(data, f"{place}: header {name}")) for name, data in pairs]


def _is_header(found: Any) -> bool:
    return isinstance(found, dict) and isinstance(found.get("key"), str) and found.keys() <= {"key", "value"}


def bytes_from_json(found: Any, what: str) -> bytes | None:
    """Return what `output.bytes_as_json` made JSON of.

    Raises:
        InputError: Something else.
    """
    match found:
        case None:
            return None
        case str():
            return found.encode("utf-8", "surrogatepass")
        case {"base64": str(text), **rest} if not rest:
            return _decoded(text.encode("utf-8", "surrogatepass"), "base64", what)
    raise InputError(f'{what} must be a string, null or {{"base64": "..."}}')


def _decoded(data: bytes, modifier: str, what: str) -> bytes:
    try:
        match modifier:
            case "hex":
                return binascii.unhexlify(data)
            case "base64":
                return base64.b64decode(data, validate=True)
    except ValueError:
        raise InputError(f"{what}: {_shown(data)} is not {modifier}") from None
    return data


class InputFormat:
    """A format by which records stand one behind the other in a stream, like kcat's and rpk's.

    A field reaches to the text that follows it in the format, or has as many bytes as a %K or %S before it says, -1 of
    them being null, or as the format itself says. Sizes are those of what is read, before hex or base64 is decoded. A
    last field with nothing behind it takes the rest of the input.

    Raises:
        click.BadParameter: A format by which nothing could be told apart.
    """

    def __init__(self, text: str, *, allows_no_value: bool = False) -> None:
        self._parts = parse_format(text, _LETTERS)
        directives = [part for part in self._parts if isinstance(part, Directive)]
        letters = [part.letter for part in directives]
        for letter in letters:
            if letters.count(letter) > 1:
                raise click.BadParameter(f"--format {text}: %{letter} occurs twice")
        seen: set[str] = set()
        for part, following in zip(self._parts, [*self._parts[1:], None], strict=True):
            if not isinstance(part, Directive):
                continue
            seen.add(part.letter)
            if isinstance(following, Directive) and not _is_bounded(part) and _SIZED.get(part.letter) not in seen:
                raise click.BadParameter(f"--format {text}: text is needed between {part} and {following}")
        for field, size in _SIZED.items():
            if size in letters and field not in letters[letters.index(size) :]:
                raise click.BadParameter(f"--format {text}: %{size} is not followed by %{field}")
            if size in letters and any(part.letter == field and part.size for part in directives):
                raise click.BadParameter(f"--format {text}: %{size} and %{field}{{N}} both set its size")
        if "s" not in letters and not allows_no_value:
            raise click.BadParameter(f"--format {text}: without %s every value is null; confirm with --tombstone")

    def read(self, key: bytes | None, stream: ByteStream, source: str) -> Iterator[InputRecord]:
        """Yield the records of a stream; `key` is that of records which bring none.

        Raises:
            InputError: The input is not as the format has it.
        """
        buffer = InputBuffer(stream, RECORD_BYTES_MAX)
        number = 0
        while not buffer.is_at_end():
            number += 1
            place = Place(source, "record", number)
            yield self._record(self._fields(buffer, place), place, key)

    def _fields(self, buffer: InputBuffer, place: Place) -> dict[str, bytes | None]:
        found: dict[str, bytes | None] = {}
        last = len(self._parts) - 1
        # The last line of a file may lack its end, as editors leave it.
        is_end_enough = _is_line_end(self._parts[-1])
        is_literal_taken = False
        for index, part in enumerate(self._parts):
            if isinstance(part, bytes):
                if (
                    not is_literal_taken
                    and not buffer.skip(part)
                    and not (index == last and is_end_enough and buffer.is_at_end())
                ):
                    raise InputError(f"{place}: expected {_shown(part)} before {_shown(buffer.peek(_SHOWN_BYTES))}")
                is_literal_taken = False
                continue
            following = self._parts[index + 1] if index < last else None
            if _is_bounded(part):
                found[part.letter] = _bounded(buffer, part, place)
                continue
            size = found.get(_SIZED.get(part.letter, ""))
            if size is not None:
                wanted = _whole_number(size, f"{place}: %{_SIZED[part.letter]}", low=-1)
                data = None if wanted < 0 else _exactly(buffer, wanted, place)
            else:
                data = buffer.until(
                    following if isinstance(following, bytes) else None, index + 1 == last and is_end_enough
                )
                is_literal_taken = True
                if data is None:
                    assert isinstance(following, bytes)
                    raise InputError(f"{place}: %{part.letter} is not followed by {_shown(following)}")
            found[part.letter] = _decoded(data, part.modifier, f"{place}: {part}") if data is not None else None
        return found

    def _record(self, fields: dict[str, bytes | None], place: Place, key: bytes | None) -> InputRecord:
        headers = (fields.get("h") or b"").decode("utf-8", "surrogateescape")
        own_key, partition, timestamp = fields.get("k"), fields.get("p"), fields.get("T") or b"-1"
        return InputRecord(
            place,
            key if own_key is None else own_key,
            fields.get("s"),
            [parse_header(each, str(place)) for each in headers.split(",") if headers],
            partition=-1 if partition is None else _whole_number(partition, f"{place}: %p"),
            timestamp=_sent_timestamp(_whole_number(timestamp, f"{place}: %T", low=-1), f"{place}: %T"),
        )


def _is_bounded(part: Directive) -> bool:
    """Return whether the format itself says how many bytes of input a field has."""
    return part.size is not None or number_width(part.modifier) is not None


def _bounded(buffer: InputBuffer, part: Directive, place: Place) -> bytes:
    """Take a field of which the format says how long it is; numbers come in digits."""
    width = number_width(part.modifier)
    if width is None:
        # A size that the format says is nowhere in the input.
        sized = part.letter in _SIZED.values()
        return part.modifier.encode() if sized else _exactly(buffer, int(part.modifier), place)
    data = _exactly(buffer, width, place)
    try:
        return str(read_number(data, part.modifier)).encode()
    except ValueError:
        raise InputError(f"{place}: {part}: {_shown(data)} is not hex") from None


def _exactly(buffer: InputBuffer, size: int, place: Place) -> bytes:
    data = buffer.exactly(size)
    if data is None:
        raise InputError(f"{place}: the input ends before {size} announced bytes")
    return data


def _is_line_end(part: bytes | Directive) -> bool:
    return isinstance(part, bytes) and not part.strip(b"\r\n")


def _whole_number(data: bytes, what: str, low: int = 0) -> int:
    digits = data.removeprefix(b"-") if low < 0 else data
    if not digits.isdigit() or len(digits) > _NUMBER_DIGITS_MAX or int(data) < low:
        raise InputError(f"{what}: {_shown(data)} is not a number from {low}")
    return int(data)


def _sent_timestamp(milliseconds: int, what: str) -> int:
    """Return what librdkafka takes for a timestamp from -1, which is none; 0 is its own word for now.

    Raises:
        InputError: It is 0.
    """
    if milliseconds == 0:
        raise InputError(f"{what}: 0 is not supported, the client would send the current time; use -1 for that")
    return max(0, milliseconds)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_BYTES else f"{text[:_SHOWN_BYTES]}..."


def _shown(data: bytes) -> str:
    return repr(data[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")) + ("..." if len(data) > _SHOWN_BYTES else "")
