"""Commit, visibility and the answer: one function, checked against a deliberately dumb version."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.ids import DirectoryId, Index, NodeId, Replica, Term
from raft.group_configuration import GroupConfiguration, RaftPolicy
from raft.rules.agreement import Quorum, answer_point, commit_point, has_majority, point, visible_point


def nodes(*ids: int) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, ids))


def dumb_point(quorums: list[Quorum], values: dict[NodeId, int]) -> int:
    """The largest index that some k members of every quorum all have reached."""
    return max(
        index
        for index in [0, *values.values()]
        if all(
            any(min(values[m] for m in some) >= index for some in combinations(members, k)) for members, k in quorums
        )
    )


@settings(deadline=None)
@given(st.data())
def test_point_agrees_with_a_dumb_version(data: st.DataObject) -> None:
    values = {NodeId(n): data.draw(st.integers(0, 9)) for n in range(1, 6)}
    quorums = []
    for _ in range(data.draw(st.integers(1, 2))):
        members = data.draw(st.lists(st.sampled_from(sorted(values)), min_size=1, unique=True))
        quorums.append(Quorum(tuple(members), data.draw(st.integers(1, len(members)))))
    assert point(quorums, lambda node: Index(values[node])) == dumb_point(quorums, values)


def configurations(voters: list[int]) -> st.SearchStrategy[GroupConfiguration]:
    """Simple and joint configurations of these nodes."""
    sets = st.lists(st.sampled_from(voters), min_size=1, unique=True).map(
        lambda ids: tuple(Replica(NodeId(node), DirectoryId(f"d{node}")) for node in ids)
    )
    return st.lists(sets, min_size=1, max_size=2).map(lambda found: GroupConfiguration(tuple(found)))


GRANTED = st.sets(st.integers(1, 7).map(NodeId))


@given(configurations(list(range(1, 8))), GRANTED, GRANTED, st.integers(1, 9))
def test_any_two_quorums_of_a_configuration_share_a_voter(
    configuration: GroupConfiguration, one: set[NodeId], other: set[NodeId], min_in_sync: int
) -> None:
    policy = RaftPolicy(min_in_sync)
    quorums = policy.commit_quorums(configuration)
    if has_majority(quorums, one) and has_majority(quorums, other):
        assert one & other & set(configuration.node_ids)
    # Who answers acks=all is a majority, too, whatever min.insync.replicas says.
    if has_majority(policy.answer_quorums(configuration), one):
        assert has_majority(quorums, one)


@given(configurations([1, 2, 3, 4, 5]), st.lists(st.integers(0, 9), min_size=5, max_size=5), st.integers(1, 6))
def test_what_a_quorum_holds_every_later_quorum_sees(
    configuration: GroupConfiguration, held_by: list[int], min_in_sync: int
) -> None:
    """Leader completeness in small: whoever is elected got the vote of one that holds what was committed."""
    quorums = RaftPolicy(min_in_sync).commit_quorums(configuration)
    values = {NodeId(node): Index(at) for node, at in enumerate(held_by, start=1)}
    committed = point(quorums, values.__getitem__)
    for count in range(1, 6):
        for voters in combinations(values, count):
            if has_majority(quorums, voters):
                assert max(values[voter] for voter in voters) >= committed


MAJORITY_OF_3 = [Quorum(nodes(1, 2, 3), 2)]


def held(**positions: int) -> object:
    return {NodeId(int(name[1:])): Index(at) for name, at in positions.items()}.__getitem__


def test_an_entry_of_an_older_term_is_not_committed_by_counting() -> None:
    """Paper figure 8 (c): term 2's entry is on a majority, the leader is of term 4."""
    terms = {1: 1, 2: 2, 3: 4}
    commit = commit_point(MAJORITY_OF_3, held(n1=3, n2=2, n3=2), Index(3), Term(4), terms.__getitem__, Index(1))
    assert commit == 1


def test_an_entry_of_the_own_term_commits_all_before_it() -> None:
    terms = {1: 1, 2: 2, 3: 4}
    commit = commit_point(MAJORITY_OF_3, held(n1=3, n2=3, n3=1), Index(3), Term(4), terms.__getitem__, Index(1))
    assert commit == 3


def test_commit_is_never_above_the_leaders_own_flushed() -> None:
    commit = commit_point(MAJORITY_OF_3, held(n1=2, n2=5, n3=5), Index(2), Term(1), lambda _: Term(1), Index(0))
    assert commit == 2


def test_relaxed_data_is_visible_once_a_majority_has_written_it() -> None:
    dirty, flushed = held(n1=9, n2=7, n3=0), held(n1=4, n2=0, n3=0)
    visible = visible_point(MAJORITY_OF_3, dirty, flushed, Index(4), Index(1), None)
    assert visible == 7


def test_nothing_is_visible_past_an_uncommitted_quorum_write() -> None:
    """Redpanda PR 14794: relaxed entry 8 behind quorum write 6 that is not fsynced on a majority yet."""
    dirty, flushed = held(n1=9, n2=9, n3=0), held(n1=5, n2=5, n3=0)
    visible = visible_point(MAJORITY_OF_3, dirty, flushed, Index(5), Index(1), Index(6))
    assert visible == 5


def test_what_lies_before_a_committed_barrier_is_visible() -> None:
    quorums = [Quorum(nodes(1, 2, 3), 3)]
    held_by_two = held(n1=9, n2=9, n3=0)
    assert visible_point(quorums, held_by_two, held_by_two, Index(8), Index(8), None) == 8


def replicas(*ids: int) -> tuple[Replica, ...]:
    return tuple(Replica(NodeId(n), DirectoryId(f"d{n}")) for n in ids)


@pytest.mark.parametrize(("voters", "min_isr", "k"), [(1, 1, 1), (2, 1, 2), (3, 1, 2), (3, 3, 3), (3, 9, 3), (5, 2, 3)])
def test_min_insync_raises_only_the_answer(voters: int, min_isr: int, k: int) -> None:
    configuration = GroupConfiguration.of(replicas(*range(1, voters + 1)))
    policy = RaftPolicy(min_isr)
    assert [q.k for q in policy.answer_quorums(configuration)] == [k]
    assert [q.k for q in policy.commit_quorums(configuration)] == [voters // 2 + 1]


def test_a_joint_configuration_needs_both_majorities() -> None:
    configuration = GroupConfiguration((replicas(1, 2, 3), replicas(3, 4, 5)))
    quorums = RaftPolicy().commit_quorums(configuration)
    values = {1: 9, 2: 9, 3: 9, 4: 2, 5: 1}
    assert point(quorums, lambda node: Index(values[node])) == 2


def test_the_answer_waits_for_commit_and_for_k_copies() -> None:
    quorums = [Quorum(nodes(1, 2, 3), 3)]
    assert answer_point(quorums, held(n1=9, n2=9, n3=4), Index(9)) == 4
    assert answer_point(quorums, held(n1=9, n2=9, n3=9), Index(6)) == 6
