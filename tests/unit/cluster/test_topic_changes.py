"""Changes of what is set on a topic: the four operations, and what is refused."""

import pytest

from cluster.errors import InvalidTopicConfigError
from cluster.topic_changes import ConfigChange, ConfigOperation, altered_configs
from cluster.topic_table import Topic
from model.ids import DirectoryId, NodeId, Replica, TopicId
from model.topic_config import TopicConfig

SET, DELETE, APPEND, SUBTRACT = ConfigOperation


def topic(**overrides):
    configs = {key.replace("_", "."): value for key, value in overrides.items()}
    replicas = tuple(Replica(NodeId(node), DirectoryId(f"dir{node}")) for node in (1, 2, 3))
    return Topic("t", TopicId("a" * 32), (replicas,), configs, TopicConfig())


def test_set_and_delete_change_only_the_keys_that_are_named():
    now = topic(segment_ms="5000", retention_ms="7")
    changes = [ConfigChange("segment.ms", DELETE, None), ConfigChange("min.insync.replicas", SET, "3")]
    assert altered_configs(now, changes, replaces_all=False) == {"retention.ms": "7", "min.insync.replicas": "3"}
    assert altered_configs(now, [], replaces_all=False) == now.overrides


def test_replacing_all_deletes_what_is_not_named():
    now = topic(segment_ms="5000", retention_ms="7")
    change = ConfigChange("retention.ms", SET, "8")
    assert altered_configs(now, [change], replaces_all=True) == {"retention.ms": "8"}
    assert altered_configs(now, [], replaces_all=True) == {}


def test_deleting_what_is_not_set_changes_nothing():
    assert altered_configs(topic(), [ConfigChange("segment.ms", DELETE, None)], replaces_all=False) == {}


def test_a_word_that_a_list_has_already_is_not_appended_twice():
    change = ConfigChange("cleanup.policy", APPEND, "delete")
    assert altered_configs(topic(), [change], replaces_all=False) == {"cleanup.policy": "delete"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([ConfigChange("nonsense", SET, "1")], "unknown or unsupported"),
        ([ConfigChange("segment.ms", SET, "5000"), ConfigChange("segment.ms", DELETE, None)], "named twice"),
        ([ConfigChange("segment.ms", SET, None)], "a value is missing"),
        ([ConfigChange("segment.ms", SET, "1")], "must be from 1000"),
        ([ConfigChange("segment.ms", APPEND, "5000")], "is no list"),
        ([ConfigChange("segment.ms", SUBTRACT, "5000")], "is no list"),
        ([ConfigChange("segment.ms", 9, "5000")], "unknown operation 9"),
        ([ConfigChange("cleanup.policy", APPEND, "compacted")], "'compacted' is none of compact, delete"),
        ([ConfigChange("min.insync.replicas", SET, "4")], "the topic has only 3 replicas"),
    ],
)
def test_what_is_refused_says_why(changes, words):
    with pytest.raises(InvalidTopicConfigError, match=words):
        altered_configs(topic(), changes, replaces_all=False)


def test_the_cleanup_policy_grows_and_shrinks_by_words():
    def changed(overrides, operation, value):
        change = ConfigChange("cleanup.policy", operation, value)
        return altered_configs(topic(**overrides), [change], replaces_all=False)["cleanup.policy"]

    # What the topic leaves open is `delete`.
    assert changed({}, APPEND, "compact") == "delete,compact"
    assert changed({}, SUBTRACT, "delete") == ""
    assert changed({"cleanup_policy": "compact, delete"}, SUBTRACT, "delete") == "compact"
    assert changed({"cleanup_policy": "compact"}, APPEND, "compact,delete") == "compact,delete"


def test_what_is_not_set_can_be_taken_back_whatever_it_is_called():
    changes = [ConfigChange("index.interval.bytes", DELETE, None)]
    assert altered_configs(topic(), changes, replaces_all=False) == dict(topic().overrides)


def test_a_list_that_is_empty_grows_word_by_word_and_shrinks_to_nothing():
    key = "leader.replication.throttled.replicas"
    one = altered_configs(topic(), [ConfigChange(key, APPEND, "0:1")], replaces_all=False)
    assert one == {key: "0:1"}
    two = altered_configs(topic(**{key: "0:1"}), [ConfigChange(key, APPEND, "0:1,0:2")], replaces_all=False)
    assert two == {key: "0:1,0:2"}
    less = altered_configs(topic(**{key: "0:1,0:2"}), [ConfigChange(key, SUBTRACT, "0:1,0:2")], replaces_all=False)
    assert less == {key: ""}
