"""Ids: groups, replicas, levels."""

import pytest

from model.ids import (
    FORCED_MARK,
    RAFT0,
    ConsistencyLevel,
    DirectoryId,
    GroupId,
    NodeId,
    Replica,
    TopicId,
    group_of_link_name,
    link_name,
    partition_group,
)

TOPIC = TopicId("a" * 32)


def test_a_partitions_group_names_topic_id_and_number():
    assert partition_group(TOPIC, 12) == "a" * 32 + "/12"


def test_groups_of_a_recreated_topic_share_nothing_with_its_predecessors():
    assert partition_group(TOPIC, 0) != partition_group(TopicId("b" * 32), 0)


def test_no_partitions_group_is_raft0():
    assert "/" not in RAFT0
    assert partition_group(TOPIC, 0) != RAFT0


@pytest.mark.parametrize(("topic", "number"), [("short", 0), ("", 0), ("a" * 33, 0), ("a" * 32, -1), ("~" * 32, 0)])
def test_a_group_of_nonsense_is_a_programmers_error(topic, number):
    with pytest.raises(AssertionError):
        partition_group(TopicId(topic), number)


def test_a_group_whose_configuration_was_forced_is_called_by_the_revision_as_well():
    group = partition_group(TOPIC, 4)
    assert link_name(group, (0, 71)) == f"{group}~0.71"
    assert link_name(group, (0, 71)) not in {link_name(group, (7, 1)), link_name(group, (0, 7)), group}


@pytest.mark.parametrize("group", [RAFT0, partition_group(TOPIC, 0), partition_group(TOPIC, 12)])
def test_the_group_of_a_link_name_is_found_again(group):
    assert FORCED_MARK not in group
    assert group_of_link_name(group) == group
    assert group_of_link_name(link_name(group, (2, 12345))) == group


@pytest.mark.parametrize(("group", "forced"), [("a/0~0.1", (0, 1)), ("a/0", (-1, 1)), ("a/0", (0, -1))])
def test_a_link_name_of_nonsense_is_a_programmers_error(group, forced):
    with pytest.raises(AssertionError):
        link_name(GroupId(group), forced)


def test_the_levels_are_kafkas_acks():
    assert {level.name: int(level) for level in ConsistencyLevel} == {"QUORUM_ACK": -1, "NO_ACK": 0, "LEADER_ACK": 1}


def test_a_node_with_another_directory_is_another_replica():
    assert Replica(NodeId(1), DirectoryId("x")) != Replica(NodeId(1), DirectoryId("y"))
    assert Replica(NodeId(1), DirectoryId("x")) == Replica(NodeId(1), DirectoryId("x"))
