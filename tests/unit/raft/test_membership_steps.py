"""Which configurations follow each other: quorums of neighbours overlap, and every walk ends at what is wanted."""

from itertools import combinations, pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.ids import DirectoryId, NodeId, Replica
from raft.group_configuration import NO_REVISION, GroupConfiguration, RaftPolicy, Revision
from raft.membership_steps import FORCE, Append, Reached, Target, WaitFor, next_step
from raft.rules.agreement import has_majority

FIRST, LATER = Revision(0, 7), Revision(0, 9)


def replica(node, directory=0):
    return Replica(NodeId(node), DirectoryId(f"{node}.{directory}"))


def replicas(*nodes):
    return tuple(replica(node) for node in nodes)


def simple(*nodes, revision=NO_REVISION):
    return GroupConfiguration((replicas(*nodes),), (), revision)


def always(_):
    return True


def never(_):
    return False


def walk(current, target, caught_up=always, answering=always):
    """All configurations up to the end, `current` first, and how it ended."""
    found = [current]
    while isinstance(step := next_step(found[-1], target, caught_up, answering), Append):
        found.append(step.configuration)
        assert len(found) < 10, "it does not end"
    return found, step


def quorums(configuration):
    """Every smallest set of replicas that may elect and commit."""
    majorities = [
        [frozenset(chosen) for chosen in combinations(voters, len(voters) // 2 + 1)]
        for voters in configuration.voter_sets
    ]
    return [frozenset().union(*chosen) for chosen in product(*majorities)]


def overlap(one, other):
    return all(a & b for a in quorums(one) for b in quorums(other))


def test_a_voter_is_replaced_by_a_learner_that_catches_up_first():
    path, end = walk(simple(1, 2, 3), Target(replicas(2, 3, 4), FIRST))
    assert isinstance(end, Reached)
    assert path[1:] == [
        GroupConfiguration((replicas(1, 2, 3),), replicas(4), FIRST),
        GroupConfiguration((replicas(1, 2, 3), replicas(2, 3, 4)), (), FIRST),
        GroupConfiguration((replicas(2, 3, 4),), (), FIRST),
    ]


def test_what_is_in_force_needs_only_its_revision():
    path, end = walk(simple(1, 2, 3), Target(replicas(3, 2, 1), FIRST))
    assert isinstance(end, Reached)
    assert path[1:] == [simple(1, 2, 3, revision=FIRST)]


def test_a_learner_that_is_behind_is_waited_for():
    path, end = walk(simple(1, 2), Target(replicas(1, 2, 3), FIRST), caught_up=never)
    assert (len(path), end) == (2, WaitFor("nodes [3] catch up"))


def test_no_joint_configuration_before_a_majority_of_the_new_voters_answers():
    target = Target(replicas(1, 4, 5), FIRST)
    _, end = walk(simple(1, 2, 3), target, answering=lambda each: each.node_id == 1)
    assert end == WaitFor("1 of the 3 new voters answer")
    path, _ = walk(simple(1, 2, 3), target, answering=lambda each: each.node_id in (1, 4))
    assert path[-1].voter_sets == (replicas(1, 4, 5),)


def test_a_joint_configuration_is_left_for_the_old_voters_if_they_are_wanted_again():
    joint = GroupConfiguration((replicas(1, 2, 3), replicas(3, 4, 5)), (), FIRST)
    path, end = walk(joint, Target(replicas(1, 2, 3), LATER))
    assert isinstance(end, Reached)
    assert path[1:] == [simple(1, 2, 3, revision=LATER)]


def test_a_joint_configuration_is_left_forwards_for_a_third_target():
    joint = GroupConfiguration((replicas(1, 2, 3), replicas(3, 4, 5)), (), FIRST)
    path, end = walk(joint, Target(replicas(5, 6), LATER))
    assert isinstance(end, Reached)
    assert [each.voter_sets for each in path[1:]] == [
        (replicas(3, 4, 5),),
        (replicas(3, 4, 5),),
        (replicas(3, 4, 5), replicas(5, 6)),
        (replicas(5, 6),),
    ]


def test_another_target_drops_the_learners_of_the_former():
    current = GroupConfiguration((replicas(1, 2, 3),), replicas(4), FIRST)
    path, _ = walk(current, Target(replicas(1, 2, 3), LATER))
    assert path[1:] == [simple(1, 2, 3, revision=LATER)]
    path, _ = walk(current, Target(replicas(1, 2, 5), LATER))
    assert path[1] == GroupConfiguration((replicas(1, 2, 3),), replicas(5), LATER)


def test_a_retired_directory_leaves_first_and_the_same_node_may_come_with_another_one():
    new = replica(3, directory=1)
    target = Target((*replicas(1, 2), new), FIRST, frozenset([replica(3).directory_id]))
    path, end = walk(simple(1, 2, 3), target)
    assert isinstance(end, Reached)
    assert [(each.voter_sets, each.learners) for each in path[1:]] == [
        ((replicas(1, 2, 3), replicas(1, 2)), ()),
        ((replicas(1, 2),), ()),
        ((replicas(1, 2),), (new,)),
        ((replicas(1, 2), (*replicas(1, 2), new)), ()),
        (((*replicas(1, 2), new),), ()),
    ]


def test_a_node_does_not_come_with_another_directory_while_the_old_one_votes():
    _, end = walk(simple(1, 2, 3), Target((*replicas(1, 2), replica(3, directory=1)), FIRST))
    assert end == WaitFor("node 3 still votes with another directory")


def test_a_group_whose_voters_are_all_retired_waits():
    _, end = walk(simple(1), Target(replicas(2), FIRST, frozenset([replica(1).directory_id])))
    assert isinstance(end, WaitFor)
    assert end.reason == f"all voters are in retired directories, so the group waits for {FORCE}"
    # No command is named that does not exist.
    assert "this version has no command for it" in FORCE


def test_whoever_learns_for_good_is_a_learner_on_the_whole_way():
    current = GroupConfiguration((replicas(1, 2, 3),), replicas(4, 5, 6))
    path, end = walk(current, Target(replicas(2, 3, 4), FIRST, learners=replicas(1, 5, 6)))
    assert isinstance(end, Reached)
    assert path[1:] == [
        # Only to say the revision: all learn already.
        GroupConfiguration((replicas(1, 2, 3),), replicas(4, 5, 6), FIRST),
        GroupConfiguration((replicas(1, 2, 3), replicas(2, 3, 4)), replicas(5, 6), FIRST),
        GroupConfiguration((replicas(2, 3, 4),), replicas(1, 5, 6), FIRST),
    ]


def test_other_learners_are_one_simple_configuration():
    current = GroupConfiguration((replicas(1, 2, 3),), replicas(4), FIRST)
    path, end = walk(current, Target(replicas(3, 2, 1), LATER, learners=replicas(5, 6)), caught_up=never)
    assert isinstance(end, Reached)
    assert path[1:] == [GroupConfiguration((replicas(1, 2, 3),), replicas(5, 6), LATER)]


def test_a_learner_for_good_that_is_behind_holds_nothing_up():
    target = Target(replicas(2, 3, 4), FIRST, learners=replicas(1, 5))
    _, end = walk(simple(1, 2, 3), target, caught_up=lambda each: each.node_id == 4)
    assert isinstance(end, Reached)


def test_another_directory_of_a_node_is_no_learner_before_the_former_has_gone():
    """The leader keeps by node what was confirmed: of the former directory."""
    new = replica(4, directory=1)
    current = GroupConfiguration((replicas(1, 2, 3),), replicas(4, 5), FIRST)
    gone = frozenset([replica(4).directory_id])
    path, end = walk(current, Target(replicas(1, 2, 3), LATER, gone, (new, *replicas(5))))
    assert isinstance(end, Reached)
    assert [each.learners for each in path[1:]] == [replicas(5), (new, *replicas(5))]
    path, end = walk(current, Target((*replicas(1, 2), new), LATER, gone, replicas(3, 5)))
    assert isinstance(end, Reached)
    assert [each.learners for each in path[1:]] == [replicas(5), (new, *replicas(5)), replicas(5), replicas(3, 5)]


@pytest.mark.parametrize("learners", [replicas(3), (replica(1, directory=1),), replicas(9)])
def test_a_target_that_cannot_be_is_not_made(learners):
    with pytest.raises(AssertionError, match=r"on one node|retired directory"):
        Target(replicas(1, 3), FIRST, frozenset([replica(9).directory_id]), learners)


_NODES = st.integers(1, 6)
_VOTERS = st.sets(_NODES, min_size=1, max_size=5)


@given(
    _VOTERS,
    _VOTERS,
    st.sets(_NODES, max_size=2),
    st.integers(0, 5),
    _VOTERS,
    st.tuples(st.sets(_NODES), st.sets(_NODES), st.sets(_NODES)),
)
def test_neighbours_overlap_and_every_walk_ends(begin, wanted, retired, cut, second, learning):
    """Also where the target changes in the middle, after any configuration, and where some learn for good."""
    gone = frozenset(replica(node).directory_id for node in retired)

    def members(nodes):
        return tuple(replica(node, directory=int(node in retired)) for node in sorted(nodes))

    first = Target(members(wanted), FIRST, gone, members(learning[1] - wanted))
    last = Target(members(second), LATER, gone, members(learning[2] - second))
    path, _ = walk(GroupConfiguration((replicas(*sorted(begin)),), replicas(*sorted(learning[0] - begin))), first)
    path = path[: cut + 1]
    rest, end = walk(path[-1], last)
    whole = path + rest[1:]
    for one, other in pairwise(whole):
        assert overlap(one, other), (one, other)
        # What a leader knows of a follower it knows by its node: another directory begins anew.
        for each in other.replicas:
            assert one.replica_on(each.node_id) in (None, each)
    for each in rest[1:]:
        # Whoever learns for good, or learns and is to vote, lacks no entry on the way.
        kept = ({*path[-1].replicas} & {*last.learners}) | ({*path[-1].learners} & {*last.voters})
        assert kept <= {*each.replicas}
    if isinstance(end, Reached):
        assert frozenset(whole[-1].voter_sets[0]) == frozenset(last.voters)
        assert frozenset(whole[-1].learners) == frozenset(last.learners)
        assert whole[-1].revision == LATER
    else:
        assert FORCE in end.reason


def test_learners_count_in_no_quorum():
    configuration = GroupConfiguration((replicas(1, 2, 3),), replicas(4, 5))
    policy = RaftPolicy(3)
    for found in (policy.commit_quorums, policy.answer_quorums, policy.in_sync_quorums):
        assert found(configuration) == found(simple(1, 2, 3))
    assert not has_majority(policy.commit_quorums(configuration), {1, 4, 5})


@pytest.mark.parametrize(
    ("sets", "learners", "flaw"),
    [
        ((), (), "0 voter sets"),
        ((replicas(1),) * 3, (), "3 voter sets"),
        (((),), (), "a voter set is empty"),
        ((replicas(1, 1),), (), "names a replica twice"),
        ((replicas(1), (replica(1, 1),)), (), "on one node"),
        ((replicas(1),), replicas(1), "on one node"),
    ],
)
def test_what_cannot_be_a_configuration_is_not_made(sets, learners, flaw):
    with pytest.raises(AssertionError, match=flaw):
        GroupConfiguration(sets, learners)
