"""The levels of a broker's loggers (KIP-412), which librdkafka knows nothing of."""

from collections.abc import Sequence
from typing import NamedTuple

from raftka.kafka.wire.fields import Reader, array, i8, i32, string
from raftka.kafka.wire.requests import Request

_BROKER_LOGGER = 8
_SET, _DELETE = 0, 1


class Refusal(NamedTuple):
    """An error code and its text, which may be empty; code 0: nothing was refused."""

    code: int
    message: str


class LoggerLevel(NamedTuple):
    """What a logger writes; `source` is the logger from which the level comes, itself where the broker names none."""

    name: str
    level: str
    source: str


class Levels(NamedTuple):
    """The answer for one broker."""

    refusal: Refusal
    loggers: Sequence[LoggerLevel]


def describe_loggers(node_id: int) -> Request[Levels]:
    """Ask a broker for the levels of all its loggers."""

    def read_logger(reader: Reader) -> LoggerLevel:
        name, level = reader.string(), reader.string()
        reader.skip(reader.i8, reader.i8, reader.i8)  # read-only, source, sensitive
        synonyms = reader.array(lambda: _read_synonym(reader))
        return LoggerLevel(name, level, synonyms[0] if synonyms else name)

    def read(reader: Reader) -> Levels:
        reader.skip(reader.i32, reader.i32)  # throttle time; one resource
        refusal = Refusal(reader.i16(), reader.string())
        reader.skip(reader.i8, reader.string)
        return Levels(refusal, reader.array(lambda: read_logger(reader)))

    resource = i8(_BROKER_LOGGER) + string(str(node_id)) + _NULL_ARRAY
    return Request(32, 1, array([resource]) + i8(True), read)


def alter_logger(node_id: int, logger: str, level: str | None, *, validate_only: bool) -> Request[Refusal]:
    """Set the level of one logger of a broker, None: that of the logger above it."""

    def read(reader: Reader) -> Refusal:
        reader.skip(reader.i32, reader.i32)  # throttle time; one resource
        return Refusal(reader.i16(), reader.string())

    change = string(logger) + i8(_DELETE if level is None else _SET) + string(level)
    resource = i8(_BROKER_LOGGER) + string(str(node_id)) + array([change])
    return Request(44, 0, array([resource]) + i8(validate_only), read)


def _read_synonym(reader: Reader) -> str:
    name = reader.string()
    reader.skip(reader.string, reader.i8)
    return name


# No list of loggers: all of them.
_NULL_ARRAY = i32(-1)
