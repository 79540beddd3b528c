"""What a change of a topic leads to: checked against the table at raft0's leader before it is proposed. Pure."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum

import msgspec

from cluster.errors import (
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidTopicConfigError,
    InvalidTopicNameError,
)
from cluster.topic_table import Topic
from model.config_definition import ConfigType, InvalidConfigError, list_words, shorten
from model.counted import counted
from model.ids import NodeId
from model.topic_config import TOPIC_CONFIGS, check_topic_config, resolve_topic_config

PARTITIONS_MAX = 10_000
TOPIC_NAME_MAX = 249
_TOPIC_NAME = re.compile(rf"[a-zA-Z0-9._-]{{1,{TOPIC_NAME_MAX}}}")
_SHOWN_MAX = 5


class ConfigOperation(IntEnum):
    """What IncrementalAlterConfigs does to one key, with its numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(msgspec.Struct, frozen=True, array_like=True):
    """One key of a topic; `value` is None for a deletion."""

    key: str
    operation: int
    value: str | None


def check_topic_name(name: str) -> None:
    """Raise InvalidTopicNameError unless Kafka would take the name (1-249 of a-z A-Z 0-9 . _ -, not . or ..)."""
    if not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        raise InvalidTopicNameError(f"topic name {name[:260]!r}: 1 to 249 characters of a-z, A-Z, 0-9, '.', '_', '-'")


def check_configs(configs: Mapping[str, str], replication_factor: int) -> None:
    """Raise InvalidTopicConfigError unless all of it may be set on a topic."""
    try:
        check_topic_config(configs, replication_factor)
    except InvalidConfigError as error:
        raise InvalidTopicConfigError(str(error)) from error


def altered_configs(topic: Topic, changes: Sequence[ConfigChange], *, replaces_all: bool) -> dict[str, str]:
    """Return what is set on the topic after the changes.

    Args:
        topic: As it is now.
        changes: At most one per key.
        replaces_all: Begin with nothing set (AlterConfigs) instead of what is.

    Raises:
        InvalidTopicConfigError: An unknown key or operation, a key named twice, or a value that is refused.
    """
    keys = [change.key for change in changes]
    if len(set(keys)) < len(keys):
        raise InvalidTopicConfigError("a configuration key is named twice")
    configs = {} if replaces_all else dict(topic.overrides)
    for change in changes:
        # As in Kafka, whoever takes back what was never set has what he wants: MirrorMaker does so for keys of Kafka.
        if change.key not in TOPIC_CONFIGS and change.operation != ConfigOperation.DELETE:
            raise InvalidTopicConfigError(f"unknown or unsupported topic configuration {shorten(change.key)!r}")
        value = _changed_value(topic, change)
        if value is None:
            configs.pop(change.key, None)
        else:
            configs[change.key] = value
    check_configs(configs, topic.replication_factor)
    if topic.is_internal and resolve_topic_config(configs).is_compacted:
        raise InvalidTopicConfigError(f"{topic.name} is not compacted: the brokers delete what is old in it themselves")
    return configs


def _changed_value(topic: Topic, change: ConfigChange) -> str | None:
    match change.operation:
        case ConfigOperation.DELETE:
            return None
        case ConfigOperation.SET if change.value is not None:
            return change.value
        case ConfigOperation.APPEND | ConfigOperation.SUBTRACT if change.value is not None:
            return _changed_list(topic, change, change.value)
        case ConfigOperation.SET | ConfigOperation.APPEND | ConfigOperation.SUBTRACT:
            raise InvalidTopicConfigError(f"{change.key}: a value is missing")
        case _:
            raise InvalidTopicConfigError(f"{change.key}: unknown operation {change.operation}")


def _changed_list(topic: Topic, change: ConfigChange, value: str) -> str:
    definition = TOPIC_CONFIGS[change.key]
    if definition.kind is not ConfigType.LIST:
        raise InvalidTopicConfigError(f"{change.key} is no list: nothing can be appended or subtracted")
    now = topic.overrides.get(change.key, definition.show(topic.config.value_of(definition)))
    words, given = list_words(now), list_words(value)
    if change.operation == ConfigOperation.APPEND:
        return ",".join([*words, *(word for word in given if word not in words)])
    return ",".join(word for word in words if word not in given)


def check_partition_count(partitions: int) -> None:
    """Raise InvalidPartitionsError unless a topic may have so many."""
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise InvalidPartitionsError(f"{partitions} partitions: must be from 1 to {PARTITIONS_MAX}")


def check_replica_counts(now: Mapping[NodeId, int], placements: Sequence[Sequence[int]], replicas_max: int) -> None:
    """Raise InvalidPartitionsError if a broker would have more replicas than one can lead, elect and keep in sync.

    Beyond that heartbeats come late, elections follow, and these make the next heartbeats later: nobody leads any more.

    Args:
        now: Each broker's replicas.
        placements: The nodes of each new partition.
        replicas_max: Of one broker.
    """
    added = Counter(node for nodes in placements for node in nodes)
    for node, count in sorted(added.items()):
        check_replica_count(node, now.get(NodeId(node), 0), count, replicas_max)


def check_replica_count(node: int, there: int, count: int, replicas_max: int) -> None:
    """As `check_replica_counts`, of one broker that has so many replicas and would get `count` more."""
    if there + count > replicas_max:
        raise InvalidPartitionsError(
            f"broker {node} has {counted(there, 'replica')} and would get {count} more: it may have {replicas_max}"
            " (broker.replicas.max); take fewer partitions, or more brokers"
        )


def check_growth(topic: Topic, count: int, assignment: Sequence[Sequence[int]], brokers: Collection[NodeId]) -> None:
    """Check that a topic may grow to `count` partitions; `assignment` names the nodes of the new ones, or is empty.

    Raises:
        InvalidPartitionsError: Not more than there are, or too many.
        InvalidReplicaAssignmentError: See `check_assignment`; or it does not fit the growth or the topic.
    """
    check_partition_count(count)
    if topic.is_internal:
        raise InvalidPartitionsError(f"{topic.name} keeps its number of partitions: it says what is kept where")
    now = len(topic.replicas)
    if count <= now:
        raise InvalidPartitionsError(
            f"topic {topic.name!r} has {counted(now, 'partition')} already; there can only be more"
        )
    if not assignment:
        return
    if len(assignment) != count - now:
        raise InvalidReplicaAssignmentError(
            f"{counted(count - now, 'partition')} to add, but replicas are given for {len(assignment)}"
        )
    check_assignment(assignment, brokers)
    if len(assignment[0]) != topic.replication_factor:
        raise InvalidReplicaAssignmentError(
            f"an assignment of {counted(len(assignment[0]), 'replica')}; the topic's partitions have"
            f" {topic.replication_factor}"
        )


def _shown(nodes: Sequence[int]) -> str:
    """Return node ids, cut to what an error message may repeat of them: it must fit into a response's string."""
    more = f" and {len(nodes) - _SHOWN_MAX} more" if len(nodes) > _SHOWN_MAX else ""
    return f"{list(nodes[:_SHOWN_MAX])}{more}"


def check_assignment(assignment: Sequence[Sequence[int]], brokers: Collection[NodeId]) -> None:
    """Raise InvalidReplicaAssignmentError unless each partition has as many replicas, on different known brokers."""
    for nodes in assignment:
        if not nodes or len(set(nodes)) != len(nodes):
            raise InvalidReplicaAssignmentError(f"replicas {_shown(nodes)}: empty, or a broker is named twice")
        if len(nodes) != len(assignment[0]):
            raise InvalidReplicaAssignmentError("all partitions must have the same number of replicas")
        unknown = [node for node in nodes if node not in brokers]
        if unknown:
            raise InvalidReplicaAssignmentError(f"unknown brokers {_shown(unknown)}")
