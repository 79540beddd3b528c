"""Configurations as DescribeConfigs tells them: value, default, where each comes from, and words."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from cluster.topic_table import Topic
from model.config_definition import ConfigDefinition, ConfigType
from model.topic_config import TOPIC_CONFIGS, TopicConfig


class ConfigSource(IntEnum):
    """Where a value comes from, with the numbers of the protocol."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6


class Synonym(NamedTuple):
    """A key, of the topic or the broker, that gives or could give the value."""

    key: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConfig:
    """One key of one resource; `synonyms` are in order of precedence, and the first gives the value."""

    key: str
    kind: ConfigType
    doc: str
    is_read_only: bool
    synonyms: tuple[Synonym, ...]

    @property
    def value(self) -> str | None:
        """What is in force; None if there is nothing."""
        return self.synonyms[0].value

    @property
    def source(self) -> ConfigSource:
        """Where that comes from."""
        return self.synonyms[0].source


def broker_config(
    key: str,
    kind: ConfigType,
    doc: str,
    value: str | None,
    default: str | None,
    *,
    is_read_only: bool = True,
) -> DescribedConfig:
    """Return one key of a broker: set at its start, if it differs from the default.

    Args:
        key: Its name.
        kind: Type of the value.
        doc: What it does.
        value: As of the start.
        default: What holds where nobody sets it.
        is_read_only: Nothing can be set while the broker runs.
    """
    found = [Synonym(key, default, ConfigSource.DEFAULT_CONFIG)] if default is not None or value is None else []
    if value != default:
        found.insert(0, Synonym(key, value, ConfigSource.STATIC_BROKER_CONFIG))
    return DescribedConfig(key=key, kind=kind, doc=doc, is_read_only=is_read_only, synonyms=tuple(found))


def topic_configs(
    overrides: Mapping[str, str], defaults: TopicConfig, broker_configs: Iterable[DescribedConfig] = ()
) -> Iterator[DescribedConfig]:
    """Yield every key of a topic on which `overrides` are set, at a broker with these defaults.

    `broker_configs` tell where the defaults come from; without them, they come from the broker's start.
    """
    of_broker = {each.key: each for each in broker_configs}
    for definition in TOPIC_CONFIGS.values():
        synonyms = tuple(_topic_synonyms(definition, overrides, defaults, of_broker.get(definition.broker_key)))
        yield DescribedConfig(
            key=definition.key, kind=definition.kind, doc=definition.doc, is_read_only=False, synonyms=synonyms
        )


def configs_of(
    topic: Topic, defaults: TopicConfig, broker_configs: Iterable[DescribedConfig]
) -> Iterator[DescribedConfig]:
    """Yield every key of an existing topic."""
    return topic_configs(topic.overrides, defaults, broker_configs)


def _topic_synonyms(
    definition: ConfigDefinition,
    overrides: Mapping[str, str],
    defaults: TopicConfig,
    broker_config: DescribedConfig | None,
) -> Iterator[Synonym]:
    if definition.key in overrides:
        # Shown as it is understood, not as it was spelled.
        value = definition.show(definition.parse(overrides[definition.key]))
        yield Synonym(definition.key, value, ConfigSource.DYNAMIC_TOPIC_CONFIG)
    if broker_config is not None:
        yield from broker_config.synonyms
        return
    broker_key = definition.broker_key or definition.key
    of_broker = defaults.value_of(definition)
    if of_broker != definition.default:
        yield Synonym(broker_key, definition.show(of_broker), ConfigSource.STATIC_BROKER_CONFIG)
    yield Synonym(broker_key, definition.show(definition.default), ConfigSource.DEFAULT_CONFIG)
