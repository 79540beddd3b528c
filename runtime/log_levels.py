"""The loggers of a broker, and how much each of them writes; levels change at run time and end with the process."""

import logging
from typing import NamedTuple

ROOT = "root"
# Every logger that a broker writes to, in the order of the alphabet behind the root; a test compares it with the code.
LOGGERS = {
    ROOT: "What the loggers without a level of their own write.",
    "aiohttp": "HTTP of the admin port.",
    "asyncio": "The event loop.",
    "broker": "The process: start, stop, signals, open files.",
    "cluster": "raft0, topics, other brokers, retention, events.",
    "kafka": "Connections of Kafka clients, topics that they create.",
    "kafka.groups": "Coordinators of consumer groups.",
    "py.warnings": "Warnings of Python.",
    "raft": "Elections, replication, recovery, stalls.",
    "rpc": "Links between brokers.",
    "storage": "Logs of partitions, and the kvstore.",
    "telemetry": "The publisher of telemetry.",
}
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
# As Kafka's tools call them.
KAFKA_NAMES = {"WARN": "WARNING", "FATAL": "CRITICAL"}
_SHOWN_CHARACTERS_MAX = 100


class LogLevelError(ValueError):
    """No such logger, or no such level; names those that exist."""


class LoggerLevel(NamedTuple):
    """What a logger writes: `level` and what is above it, as `source` says: the logger itself, or one above it."""

    name: str
    level: str
    source: str


def logger_levels() -> list[LoggerLevel]:
    """Return the level in force of each logger."""
    return [_level_of(name) for name in LOGGERS]


def check_logger(name: str) -> str:
    """Return the name of a logger that exists.

    Raises:
        LogLevelError: There is none.
    """
    if name not in LOGGERS:
        raise LogLevelError(f"unknown logger {name[:_SHOWN_CHARACTERS_MAX]!r}: the loggers are {', '.join(LOGGERS)}")
    return name


def check_level(text: str) -> str:
    """Return the level that a text names, in capitals or not; Kafka's WARN and FATAL are WARNING and CRITICAL.

    Raises:
        LogLevelError: There is none.
    """
    level = text.strip().upper()
    level = KAFKA_NAMES.get(level, level)
    if level not in LEVELS:
        also = {meant: alias for alias, meant in KAFKA_NAMES.items()}
        names = ", ".join(f"{each} ({also[each]})" if each in also else each for each in LEVELS)
        raise LogLevelError(f"unknown log level {text[:_SHOWN_CHARACTERS_MAX]!r}: the levels are {names}")
    return level


def set_level(name: str, level: str | None) -> None:
    """Let a logger write `level` and what is above; None: as much as the logger above it. Both are checked already."""
    assert level is not None or name != ROOT
    _logger(name).setLevel(logging.NOTSET if level is None else level)


def _level_of(name: str) -> LoggerLevel:
    logger = _logger(name)
    above: logging.Logger | None = logger
    # The root always has a level.
    while above is not None and above.level == logging.NOTSET:
        above = above.parent
    level = logging.getLevelName(logger.getEffectiveLevel())
    return LoggerLevel(name, level, ROOT if above is None else above.name)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)
