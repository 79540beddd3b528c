"""Configurations as DescribeConfigs tells them: value, default, where each comes from, and words."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from cluster.topic_table import Topic
from model.config_definition import ConfigDefinition, ConfigType
from model.topic_config import TOPIC_CONFIGS, TopicConfig


class ConfigSource(IntEnum):
    """Where a value comes from, with the numbers of the protocol."""

    DYNAMIC_TOPIC_CONFIG = 1
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


def broker_config(key: str, kind: ConfigType, doc: str, value: str | None, default: str | None) -> DescribedConfig:
    """Return one key of a broker: set at its start, if it differs from the default, and never changed."""
    found = [Synonym(key, default, ConfigSource.DEFAULT_CONFIG)] if default is not None or value is None else []
    if value != default:
        found.insert(0, Synonym(key, value, ConfigSource.STATIC_BROKER_CONFIG))
    return DescribedConfig(key=key, kind=kind, doc=doc, is_read_only=True, synonyms=tuple(found))


def topic_configs(overrides: Mapping[str, str], defaults: TopicConfig) -> Iterator[DescribedConfig]:
    """Yield every key of a topic on which `overrides` are set, at a broker with these defaults."""
    for definition in TOPIC_CONFIGS.values():
        synonyms = tuple(_topic_synonyms(definition, overrides, defaults))
        yield DescribedConfig(
            key=definition.key, kind=definition.kind, doc=definition.doc, is_read_only=False, synonyms=synonyms
        )


def configs_of(topic: Topic, defaults: TopicConfig) -> Iterator[DescribedConfig]:
    """Yield every key of an existing topic."""
    return topic_configs(topic.overrides, defaults)


def _topic_synonyms(
    definition: ConfigDefinition, overrides: Mapping[str, str], defaults: TopicConfig
) -> Iterator[Synonym]:
    if definition.key in overrides:
        # Shown as it is understood, not as it was spelled.
        value = definition.show(definition.parse(overrides[definition.key]))
        yield Synonym(definition.key, value, ConfigSource.DYNAMIC_TOPIC_CONFIG)
    broker_key = definition.broker_key or definition.key
    of_broker = defaults.value_of(definition)
    if of_broker != definition.default:
        yield Synonym(broker_key, definition.show(of_broker), ConfigSource.STATIC_BROKER_CONFIG)
    yield Synonym(broker_key, definition.show(definition.default), ConfigSource.DEFAULT_CONFIG)
