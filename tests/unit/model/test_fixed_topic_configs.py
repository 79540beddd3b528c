"""Keys of topics with one true value: the whole table, each key with its value and with others."""

import pytest

from model.config_definition import ConfigDefinition, ConfigType
from model.fixed_topic_configs import FIXED_CONFIGS, FIXED_SINCE_COMPACTION
from model.topic_config import InvalidConfigError, TopicConfig, keys_of_compaction, parse_topic_config

# What every broker does, in Kafka's words: a change of the table is a change of what tools that copy topics may set.
TRUE_VALUES = {
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "file.delete.delay.ms": "0",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "segment.jitter.ms": "0",
    "unclean.leader.election.enable": "false",
}
NAMES = sorted(TRUE_VALUES)


def definition_of(key: str) -> ConfigDefinition:
    (definition,) = (each for each in FIXED_CONFIGS if each.key == key)
    return definition


def others_of(definition: ConfigDefinition) -> list[str]:
    """Values of the same type that Kafka takes, and that no broker of Raftka would keep to."""
    if definition.kind is ConfigType.BOOLEAN:
        return ["true"]
    if definition.kind is ConfigType.STRING:
        return ["gzip", "snappy", "lz4", "zstd", "uncompressed"]
    assert isinstance(definition.default, int)
    largest = 2**31 - 1 if definition.kind is ConfigType.INT else 2**63 - 1
    return [
        str(each) for each in (definition.default - 1, definition.default + 1, 1, largest) if each != definition.default
    ]


def test_the_table_has_these_keys() -> None:
    assert sorted(each.key for each in FIXED_CONFIGS) == NAMES


@pytest.mark.parametrize("key", NAMES)
def test_the_true_value_of_a_fixed_key_is_accepted_and_changes_nothing(key: str) -> None:
    assert parse_topic_config({key: TRUE_VALUES[key]}, 1) == TopicConfig()
    assert parse_topic_config({key: None}, 1) == TopicConfig()
    definition = definition_of(key)
    assert definition.show(definition.default) == definition.accepted == TRUE_VALUES[key]


@pytest.mark.parametrize("key", NAMES)
def test_another_value_of_a_fixed_key_is_refused_by_key_and_value(key: str) -> None:
    for value in others_of(definition_of(key)):
        with pytest.raises(InvalidConfigError) as refused:
            parse_topic_config({key: value}, 1)
        words = str(refused.value)
        assert words.startswith(f"{key}="), words
        assert value in words
        assert TRUE_VALUES[key] in words, "what is accepted is not said"


@pytest.mark.parametrize("key", NAMES)
def test_a_value_of_another_type_of_a_fixed_key_is_refused_by_key_and_value(key: str) -> None:
    for value in ("", "nonsense"):
        with pytest.raises(InvalidConfigError) as refused:
            parse_topic_config({key: value}, 1)
        assert key in str(refused.value)
        assert repr(value) in str(refused.value)


def test_fixed_keys_that_came_with_compacted_topics_need_its_level() -> None:
    assert set(NAMES) >= FIXED_SINCE_COMPACTION
    for key in NAMES:
        assert keys_of_compaction({key: TRUE_VALUES[key]}) == ([key] if key in FIXED_SINCE_COMPACTION else [])
