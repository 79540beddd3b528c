"""Topic configuration: the keys that exist, each enforced; everything else is refused (RFC 0005).

A key whose feature comes later is accepted only with the value that describes what the broker does today, so that
a tool that spells defaults out still works and nobody is promised what does not happen. A topic keeps what was set on
it, as texts; what it leaves open comes from the defaults of the broker that leads the partition.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from model.config_definition import (
    INT_MAX,
    LONG_MAX,
    ConfigDefinition,
    ConfigType,
    ConfigValue,
    InvalidConfigError,
    shorten,
)
from model.counted import counted
from model.fixed_topic_configs import FIXED_CONFIGS, FIXED_SINCE_COMPACTION
from model.throttled_replicas import parse_throttled_replicas

__all__ = [
    "THROTTLE_KEYS",
    "TOPIC_CONFIGS",
    "InvalidConfigError",
    "TopicConfig",
    "check_topic_config",
    "keys_of_compaction",
    "parse_topic_config",
    "resolve_topic_config",
]

CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"
COMPACT = "compact"
DELETE = "delete"

# Keys that a version without moves refuses: they may be set once all brokers know them (RFC 0018).
THROTTLE_KEYS = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})

_THROTTLED_REPLICAS = "`*` or a list of partition:broker"
_DEFINITION = "definition"
_WEEK_MS = 7 * 24 * 3600 * 1000
_DAY_MS = 24 * 3600 * 1000
_HOUR_MS = 3600 * 1000
MESSAGE_BYTES_MAX = 64 * 1024 * 1024


def _setting(key: str, kind: ConfigType, default: ConfigValue, doc: str, **options: Any) -> Any:
    """Return a dataclass field with its definition: key, default, bounds and words stand in one place."""
    definition = ConfigDefinition(key=key, kind=kind, default=default, doc=doc, **options)
    return field(default=default, metadata={_DEFINITION: definition})


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The effective configuration of one topic; `TOPIC_CONFIGS` says what each field means."""

    segment_bytes: int = _setting(
        "segment.bytes",
        ConfigType.INT,
        128 * 1024 * 1024,
        "A segment file is rolled before it would exceed this; one larger batch goes alone.",
        low=1024 * 1024,
        high=INT_MAX,
        broker_key="log.segment.bytes",
    )
    segment_ms: int = _setting(
        "segment.ms",
        ConfigType.LONG,
        _WEEK_MS,
        "A segment file is rolled when its first entry is older than this.",
        low=1000,
        broker_key="log.roll.ms",
    )
    max_message_bytes: int = _setting(
        "max.message.bytes",
        ConfigType.INT,
        1_048_588,
        "Largest record batch that a producer may send, as it was compressed.",
        high=MESSAGE_BYTES_MAX,
        broker_key="message.max.bytes",
    )
    min_insync_replicas: int = _setting(
        "min.insync.replicas",
        ConfigType.INT,
        1,
        "acks=all waits for this many replicas, and always for a majority of the partition's replicas. A topic's own"
        " value is at most its number of replicas.",
        low=1,
        high=INT_MAX,
        broker_key="min.insync.replicas",
    )
    message_timestamp_type: str = _setting(
        "message.timestamp.type",
        ConfigType.STRING,
        CREATE_TIME,
        "Whose time the records carry: the producer's, or the leader's when it takes a batch.",
        choices=(CREATE_TIME, LOG_APPEND_TIME),
        broker_key="log.message.timestamp.type",
    )
    message_timestamp_before_max_ms: int = _setting(
        "message.timestamp.before.max.ms",
        ConfigType.LONG,
        LONG_MAX,
        "With CreateTime, a batch with a timestamp that is further in the past is refused.",
        broker_key="log.message.timestamp.before.max.ms",
    )
    message_timestamp_after_max_ms: int = _setting(
        "message.timestamp.after.max.ms",
        ConfigType.LONG,
        _HOUR_MS,
        "With CreateTime, a batch with a timestamp that is further in the future is refused.",
        broker_key="log.message.timestamp.after.max.ms",
    )
    retention_ms: int = _setting(
        "retention.ms",
        ConfigType.LONG,
        _WEEK_MS,
        "Segments whose records are all older than this are deleted; -1 keeps them.",
        low=-1,
        broker_key="log.retention.ms",
    )
    retention_bytes: int = _setting(
        "retention.bytes",
        ConfigType.LONG,
        -1,
        "The oldest closed segments are deleted as long as the others hold this many bytes; -1 keeps them.",
        low=-1,
        broker_key="log.retention.bytes",
    )
    write_caching: bool = _setting(
        "write.caching",
        ConfigType.BOOLEAN,
        False,
        "Whether acks=all is answered when the replicas have written a batch, before they have fsynced it.",
    )
    cleanup_policy: str = _setting(
        "cleanup.policy",
        ConfigType.LIST,
        DELETE,
        "What becomes of old records. `delete`: segments go by retention.ms and retention.bytes. `compact`: only the"
        " newest record of each key stays, and each record needs a key. Empty: everything stays.",
        choices=(COMPACT, DELETE),
    )
    min_cleanable_dirty_ratio: float = _setting(
        "min.cleanable.dirty.ratio",
        ConfigType.DOUBLE,
        0.5,
        "A log is compacted when so large a part of what could be compacted is new since the last time.",
        high=1,
        broker_key="log.cleaner.min.cleanable.ratio",
    )
    delete_retention_ms: int = _setting(
        "delete.retention.ms",
        ConfigType.LONG,
        _DAY_MS,
        "How long a compacted topic keeps a tombstone, a record without a value, after it has removed what the"
        " tombstone deletes. A reader that takes longer for the whole topic may miss deletions.",
        broker_key="log.cleaner.delete.retention.ms",
    )
    min_compaction_lag_ms: int = _setting(
        "min.compaction.lag.ms",
        ConfigType.LONG,
        0,
        "A record stays at least so long, also if there is a newer one of its key.",
        broker_key="log.cleaner.min.compaction.lag.ms",
    )
    max_compaction_lag_ms: int = _setting(
        "max.compaction.lag.ms",
        ConfigType.LONG,
        LONG_MAX,
        "A log is compacted after so long at the latest, whatever min.cleanable.dirty.ratio says.",
        low=1,
        broker_key="log.cleaner.max.compaction.lag.ms",
    )
    list_offsets_linearizable: bool = _setting(
        "list.offsets.linearizable",
        ConfigType.BOOLEAN,
        True,
        "Whether a majority confirms the leader before it tells the latest offset, or one by timestamp. If false, the"
        " leader answers alone, as in Kafka: one that was deposed and does not know it yet may tell an older state.",
        broker_key="list.offsets.linearizable",
    )

    leader_replication_throttled_replicas: str = _setting(
        "leader.replication.throttled.replicas",
        ConfigType.LIST,
        "",
        "While such a replica leads, its broker's leader.replication.throttled.rate bounds what it sends to replicas"
        " that are not in sync. `kafka-reassign-partitions --throttle` sets it, and `--verify` deletes it.",
        check=parse_throttled_replicas,
        accepts=_THROTTLED_REPLICAS,
    )
    follower_replication_throttled_replicas: str = _setting(
        "follower.replication.throttled.replicas",
        ConfigType.LIST,
        "",
        "While such a replica is not in sync, its broker's follower.replication.throttled.rate bounds what it is sent.",
        check=parse_throttled_replicas,
        accepts=_THROTTLED_REPLICAS,
    )

    @property
    def is_compacted(self) -> bool:
        """Whether older records of a key go. A substring is enough: the words are checked, and none has another."""
        return COMPACT in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Whether old segments go by time and size."""
        return DELETE in self.cleanup_policy

    def as_strings(self) -> dict[str, str]:
        """Return every key with its value, as Kafka shows them."""
        return {each.key: each.show(self.value_of(each)) for each in TOPIC_CONFIGS.values()}

    def value_of(self, definition: ConfigDefinition) -> ConfigValue:
        """Return the value of one of the keys of `TOPIC_CONFIGS`."""
        value: ConfigValue = getattr(self, definition.attribute, definition.default)
        return value


_SETTINGS: tuple[ConfigDefinition, ...] = tuple(each.metadata[_DEFINITION] for each in fields(TopicConfig))

# Every key by name, in the order of the documentation.
TOPIC_CONFIGS: dict[str, ConfigDefinition] = {each.key: each for each in (*_SETTINGS, *FIXED_CONFIGS)}

_SINCE_COMPACTION = FIXED_SINCE_COMPACTION | {
    "min.cleanable.dirty.ratio",
    "delete.retention.ms",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
}
_FIXED_KEYS = frozenset(each.key for each in FIXED_CONFIGS)


def resolve_topic_config(values: Mapping[str, str | None], defaults: TopicConfig | None = None) -> TopicConfig:
    """Return the configuration that `values` (Kafka's dotted keys) describe; None stands for the default.

    Raises:
        InvalidConfigError: An unknown key, or a value that is out of range or not supported yet.
    """
    parsed: dict[str, Any] = {}
    for key, text in sorted(values.items()):
        definition = TOPIC_CONFIGS.get(key)
        if definition is None:
            raise InvalidConfigError(f"unknown or unsupported topic configuration {shorten(key)!r}")
        if text is not None:
            value = definition.parse(text)
            if key not in _FIXED_KEYS:
                parsed[definition.attribute] = value
    return replace(defaults or TopicConfig(), **parsed)


def check_topic_config(values: Mapping[str, str | None], replication_factor: int) -> None:
    """Check what is to be set on a topic with so many replicas per partition.

    The broker's own `min.insync.replicas` may be larger than that: acks=all then waits for all replicas there are.

    Raises:
        InvalidConfigError: As `resolve_topic_config`, or the values do not fit together.
    """
    config = resolve_topic_config(values)
    if config.min_insync_replicas > replication_factor and values.get("min.insync.replicas") is not None:
        raise InvalidConfigError(
            f"min.insync.replicas={config.min_insync_replicas}: the topic has only"
            f" {counted(replication_factor, 'replica')}"
        )
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise InvalidConfigError(
            f"min.compaction.lag.ms={config.min_compaction_lag_ms} is above"
            f" max.compaction.lag.ms={config.max_compaction_lag_ms}"
        )


def keys_of_compaction(values: Mapping[str, str]) -> list[str]:
    """Return which of what is set on a topic a version without compacted topics would refuse (RFC 0022, section 1)."""
    policy = [] if values.get("cleanup.policy", DELETE) == DELETE else ["cleanup.policy"]
    return policy + sorted(_SINCE_COMPACTION.intersection(values))


def parse_topic_config(
    values: Mapping[str, str | None], replication_factor: int, defaults: TopicConfig | None = None
) -> TopicConfig:
    """Check `values` and return the configuration they describe; see the two functions above for the errors."""
    check_topic_config(values, replication_factor)
    return resolve_topic_config(values, defaults)
