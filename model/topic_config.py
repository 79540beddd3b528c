"""Topic configuration: the keys that exist, each enforced; everything else is refused (RFC 0005).

A key whose feature comes later is accepted only with the value that describes what the broker does today, so that
a tool that spells defaults out still works and nobody is promised what does not happen.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


class InvalidConfigError(ValueError):
    """An unknown key or a value out of range; the message names both."""


# Of a client's own words an error repeats at most so many characters: it must fit into a response's string.
_SHOWN_MAX = 100


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."


def _integer(key: str, value: str, low: int, high: int) -> int:
    if not _INTEGER.fullmatch(value):
        raise InvalidConfigError(f"{key}={_shown(value)!r}: not a whole number")
    number = int(value)
    if not low <= number <= high:
        raise InvalidConfigError(f"{key}={number}: must be from {low} to {high}")
    return number


# 19 digits hold every 64-bit number.
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1

# key -> the only value of today, and what it is waiting for.
_FIXED = {
    "cleanup.policy": ("delete", "log compaction"),
    "compression.type": ("producer", "recompression by the broker"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "retention.ms": ("-1", "retention"),
    "retention.bytes": ("-1", "retention"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The configuration of one topic.

    Attributes:
        segment_bytes: A segment file is rolled before it would exceed this (one larger batch goes alone).
        segment_ms: ... or when its first entry is older than this.
        max_message_bytes: Largest record batch a producer may send, compressed.
        min_insync_replicas: At most the majority of the replicas, which acks=all always waits for.
    """

    segment_bytes: int = 128 * 1024 * 1024
    segment_ms: int = 7 * 24 * 3600 * 1000
    max_message_bytes: int = 1_048_588
    min_insync_replicas: int = 1

    def as_strings(self) -> dict[str, str]:
        """Return every key with its value, as Kafka shows them."""
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        shown = {name.replace("_", "."): str(value) for name, value in values.items()}
        return shown | {key: value for key, (value, _) in _FIXED.items()}


_RANGES = {
    "segment.bytes": (1024 * 1024, _INT_MAX),
    "segment.ms": (1000, _LONG_MAX),
    "max.message.bytes": (0, 64 * 1024 * 1024),
    "min.insync.replicas": (1, _INT_MAX),
}


def parse_topic_config(
    values: Mapping[str, str | None], replication_factor: int, defaults: TopicConfig | None = None
) -> TopicConfig:
    """Return the configuration that `values` (Kafka's dotted keys) describe; None stands for the default.

    Raises:
        InvalidConfigError: An unknown key, or a value that is out of range or not supported yet.
    """
    parsed: dict[str, int] = {}
    for key, value in sorted(values.items()):
        if key in _FIXED:
            supported, feature = _FIXED[key]
            if value not in (None, supported):
                raise InvalidConfigError(
                    f"{key}={_shown(str(value))}: only {supported} is supported; {feature} is not built yet"
                )
        elif key in _RANGES:
            if value is not None:
                parsed[key.replace(".", "_")] = _integer(key, value, *_RANGES[key])
        else:
            raise InvalidConfigError(f"unknown or unsupported topic configuration {_shown(key)!r}")
    base = defaults or TopicConfig()
    config = TopicConfig(**({field.name: getattr(base, field.name) for field in fields(base)} | parsed))
    majority = replication_factor // 2 + 1
    if config.min_insync_replicas > majority:
        raise InvalidConfigError(
            f"min.insync.replicas={config.min_insync_replicas}: with {replication_factor} replicas at most"
            f" {majority} (the majority, which acks=all always waits for)"
        )
    return config
