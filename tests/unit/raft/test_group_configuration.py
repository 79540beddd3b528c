"""Voters, and the quorums a policy makes of them."""

import pytest

from model.ids import DirectoryId, NodeId, Replica
from raft.group_configuration import GroupConfiguration, RaftPolicy
from tests.unit.raft.message_wire import replica


def voters(*nodes: int) -> tuple[Replica, ...]:
    return tuple(map(replica, nodes))


def test_a_configuration_needs_voters_and_one_replica_per_node() -> None:
    other_directory = Replica(NodeId(1), DirectoryId("f" * 32))
    for wrong in ((), ((),), ((replica(1), other_directory),)):
        with pytest.raises(AssertionError):
            GroupConfiguration(wrong)


def test_a_joint_configuration_finds_the_replicas_of_both_sets() -> None:
    joint = GroupConfiguration((voters(3, 1), voters(4, 3)))
    assert joint.node_ids == (1, 3, 4)
    assert joint.replica_on(NodeId(4)) == replica(4)
    assert joint.replica_on(NodeId(2)) is None


@pytest.mark.parametrize(("nodes", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_commit_takes_the_majority(nodes: int, majority: int) -> None:
    (quorum,) = RaftPolicy().commit_quorums(GroupConfiguration.of(voters(*range(1, nodes + 1))))
    assert (quorum.members, quorum.k) == (tuple(range(1, nodes + 1)), majority)


@pytest.mark.parametrize(("min_in_sync", "answer"), [(1, 2), (2, 2), (3, 3), (9, 3)])
def test_min_in_sync_raises_only_the_answer_and_never_above_the_voters(min_in_sync: int, answer: int) -> None:
    policy, configuration = RaftPolicy(min_in_sync), GroupConfiguration.of(voters(1, 2, 3))
    assert [quorum.k for quorum in policy.answer_quorums(configuration)] == [answer]
    assert [quorum.k for quorum in policy.commit_quorums(configuration)] == [2]


def test_a_joint_configuration_asks_both_sets() -> None:
    joint = GroupConfiguration((voters(1, 2, 3), voters(4)))
    assert [(quorum.members, quorum.k) for quorum in RaftPolicy(2).answer_quorums(joint)] == [((1, 2, 3), 2), ((4,), 1)]
