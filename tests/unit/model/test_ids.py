"""Ids: groups, replicas, levels."""

import pytest

from model.ids import RAFT0, ConsistencyLevel, DirectoryId, NodeId, Replica, TopicId, partition_group

TOPIC = TopicId("a" * 32)


def test_a_partitions_group_names_topic_id_and_number():
    assert partition_group(TOPIC, 12) == "a" * 32 + "/12"


def test_groups_of_a_recreated_topic_share_nothing_with_its_predecessors():
    assert partition_group(TOPIC, 0) != partition_group(TopicId("b" * 32), 0)


def test_no_partitions_group_is_raft0():
    assert "/" not in RAFT0
    assert partition_group(TOPIC, 0) != RAFT0


@pytest.mark.parametrize(("topic", "number"), [("short", 0), ("", 0), ("a" * 33, 0), ("a" * 32, -1)])
def test_a_group_of_nonsense_is_a_programmers_error(topic, number):
    with pytest.raises(AssertionError):
        partition_group(TopicId(topic), number)


def test_the_levels_are_kafkas_acks():
    assert {level.name: int(level) for level in ConsistencyLevel} == {"QUORUM_ACK": -1, "NO_ACK": 0, "LEADER_ACK": 1}


def test_a_node_with_another_directory_is_another_replica():
    assert Replica(NodeId(1), DirectoryId("x")) != Replica(NodeId(1), DirectoryId("y"))
    assert Replica(NodeId(1), DirectoryId("x")) == Replica(NodeId(1), DirectoryId("x"))
