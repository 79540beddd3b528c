"""Kafka's lists of throttled replicas."""

import pytest

from model.ids import NodeId
from model.throttled_replicas import parse_throttled_replicas
from model.topic_config import InvalidConfigError, resolve_topic_config

KEYS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


def named(text: str, partitions: int = 3, brokers: int = 4) -> list[tuple[int, int]]:
    """Return which of the first replicas a value names, as (partition, broker)."""
    value = parse_throttled_replicas(text)
    return [(each, node) for each in range(partitions) for node in range(brokers) if NodeId(node) in value.of(each)]


@pytest.mark.parametrize(
    ("text", "replicas"),
    [
        ("", []),
        ("0:1", [(0, 1)]),
        ("0:1,0:2,2:3", [(0, 1), (0, 2), (2, 3)]),
        (" 0:1 , 0:1,", [(0, 1)]),
        ("7:1", []),
    ],
)
def test_a_list_names_its_replicas(text: str, replicas: list[tuple[int, int]]) -> None:
    assert named(text) == replicas


@pytest.mark.parametrize("text", ["*", " * "])
def test_a_star_names_all_replicas(text: str) -> None:
    assert len(named(text)) == 12


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    "text", ["0", "a:1", "0:b", "0:1:2", "-1:2", "0:1;0:2", "*,0:1", "**", "none", "1" * 20 + ":1"]
)
def test_another_value_is_refused_with_the_key_and_what_would_be_taken(key: str, text: str) -> None:
    with pytest.raises(InvalidConfigError, match="is no partition:broker") as refused:
        resolve_topic_config({key: text})
    assert key in str(refused.value)


@pytest.mark.parametrize("key", KEYS)
def test_a_topic_keeps_the_list_as_it_was_set(key: str) -> None:
    config = resolve_topic_config({key: "0:1,1:2"})
    assert config.as_strings()[key] == "0:1,1:2"
    assert resolve_topic_config({}).as_strings()[key] == ""
