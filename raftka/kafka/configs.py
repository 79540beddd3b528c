"""Configurations of topics and brokers of any Kafka, for the command line."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from raftka.kafka import client as kafka_client
from raftka.kafka.client import CREATE_SECONDS, REQUEST_SECONDS
from raftka.kafka.errors import KafkaClientError

# Where a value comes from, by what librdkafka calls it.
_SOURCES = {
    "DYNAMIC_TOPIC_CONFIG": "topic",
    "DYNAMIC_BROKER_CONFIG": "broker, at run time",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "all brokers, at run time",
    "STATIC_BROKER_CONFIG": "broker",
    "DEFAULT_CONFIG": "default",
}
# The source of what is set on one broker while it runs, and the sources of what is set on brokers while they run.
ON_ONE_AT_RUN_TIME = _SOURCES["DYNAMIC_BROKER_CONFIG"]
AT_RUN_TIME = frozenset({ON_ONE_AT_RUN_TIME, _SOURCES["DYNAMIC_DEFAULT_BROKER_CONFIG"]})
_TOPICS_PER_REQUEST = 100
_GONE = frozenset({"UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_OR_PARTITION"})


class Owner(StrEnum):
    """What has a configuration: a topic is known by its name, a broker by its node id."""

    TOPIC = "TOPIC"
    BROKER = "BROKER"


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """One key; `value` is None where it is secret or nothing is set, `source` says who set it."""

    key: str
    value: str | None
    source: str
    is_default: bool
    is_read_only: bool


def read_configs(brokers: str, owner: Owner, name: str, seconds: float = REQUEST_SECONDS) -> list[ConfigValue]:
    """Return the whole configuration in the order of keys; wait so long for the answer.

    Raises:
        KafkaClientError: Refused, or no answer.
    """
    from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]

    resource = ConfigResource(ConfigResource.Type[owner], name)
    with kafka_client.one_line_errors(brokers):
        admin = kafka_client.new_admin(brokers)
        futures = admin.describe_configs([resource], request_timeout=seconds)
        entries = kafka_client.result_of(futures[resource], brokers, 2 * seconds)
    return [_value(entry) for _, entry in sorted(entries.items())]


def read_option(node_id: int, address: str, key: str) -> str:
    """Return an option of the broker at HOST:PORT, also of one that refuses Metadata; empty: it has none, or refuses.

    Raises:
        KafkaClientError: No answer.
    """
    # Imported here, for the sake of `--help`.
    from raftka.kafka.one_broker import ask
    from raftka.kafka.wire.config_requests import describe_broker_option

    return ask(node_id, address, describe_broker_option(node_id, key))


def read_topic_configs(brokers: str, topics: Sequence[str]) -> dict[str, list[ConfigValue]]:
    """Return the configurations of topics, a hundred at a time; of one that is gone meanwhile there is none.

    Raises:
        KafkaClientError: Refused, or no answer.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]

    found: dict[str, list[ConfigValue]] = {}
    with kafka_client.one_line_errors(brokers):
        admin = kafka_client.new_admin(brokers)
        for first in range(0, len(topics), _TOPICS_PER_REQUEST):
            names = topics[first : first + _TOPICS_PER_REQUEST]
            resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
            futures = admin.describe_configs(resources, request_timeout=REQUEST_SECONDS)
            for name, resource in zip(names, resources, strict=True):
                try:
                    entries = futures[resource].result(2 * REQUEST_SECONDS)
                except KafkaException as error:
                    if error.args[0].name() not in _GONE:
                        raise
                    continue
                found[name] = [_value(entry) for _, entry in sorted(entries.items())]
    return found


def alter_configs(
    brokers: str,
    owner: Owner,
    name: str,
    changed: Mapping[str, str],
    deleted: Iterable[str] = (),
    *,
    is_dry_run: bool = False,
) -> None:
    """Set and delete keys, all or none; those that are not named stay.

    Raises:
        KafkaClientError: Refused, or no answer.
    """
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource  # type: ignore[attr-defined]

    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in changed.items()
    ] + [ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in deleted]
    resource = ConfigResource(ConfigResource.Type[owner], name, incremental_configs=entries)
    with kafka_client.one_line_errors(brokers):
        admin = kafka_client.new_admin(brokers)
        futures = admin.incremental_alter_configs([resource], validate_only=is_dry_run, request_timeout=REQUEST_SECONDS)
        kafka_client.result_of(futures[resource], brokers, 2 * REQUEST_SECONDS)


def alter_options(
    address: str,
    node_id: int,
    changed: Mapping[str, str],
    deleted: Iterable[str] = (),
    *,
    is_for_all: bool,
    is_dry_run: bool = False,
) -> None:
    """Set and delete options of the broker at HOST:PORT, or of all brokers of its cluster, all or none.

    By the wire client: librdkafka alters no options of all brokers.

    Raises:
        KafkaClientError: Refused, or no answer.
    """
    # Imported here, for the sake of `--help`.
    from raftka.kafka.one_broker import ask
    from raftka.kafka.wire.config_requests import alter_broker_options

    whose = None if is_for_all else node_id
    refusal = ask(node_id, address, alter_broker_options(whose, changed, deleted, validate_only=is_dry_run))
    if refusal.code:
        raise KafkaClientError(f"broker {node_id}: {refusal.message or f'error code {refusal.code}'}")


def add_partitions(brokers: str, topic: str, total: int, *, is_dry_run: bool = False) -> None:
    """Let a topic have `total` partitions, which are more than it has.

    Raises:
        UnansweredError: It may have them soon.
        KafkaClientError: Refused, or no answer.
    """
    from confluent_kafka.cimpl import NewPartitions

    with kafka_client.one_line_errors(brokers):
        admin = kafka_client.new_admin(brokers)
        futures = admin.create_partitions(
            [NewPartitions(topic, total)],
            validate_only=is_dry_run,
            operation_timeout=CREATE_SECONDS,
            request_timeout=CREATE_SECONDS,
        )
        kafka_client.result_of(futures[topic], brokers, 2 * CREATE_SECONDS)


def _value(entry: object) -> ConfigValue:
    from confluent_kafka.admin import ConfigEntry, ConfigSource  # type: ignore[attr-defined]

    assert isinstance(entry, ConfigEntry)
    # Told as a number or as a member of the enumeration, depending on the version.
    source = ConfigSource(entry.source).name
    return ConfigValue(
        entry.name,
        None if entry.is_sensitive else entry.value,
        _SOURCES.get(source, source.lower()),
        bool(entry.is_default) or source == "DEFAULT_CONFIG",
        bool(entry.is_read_only),
    )
