"""Where the replicas of a new topic go."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.errors import InvalidReplicationFactorError
from cluster.partition_allocator import allocate
from model.ids import NodeId


def empty(count):
    return {NodeId(node): 0 for node in range(1, count + 1)}


def test_leaders_and_replicas_of_one_topic_are_spread_evenly():
    placed = allocate(empty(3), 6, 2, shift=0)
    assert Counter(nodes[0] for nodes in placed) == {1: 2, 2: 2, 3: 2}
    assert Counter(node for nodes in placed for node in nodes) == {1: 4, 2: 4, 3: 4}


def test_partitions_with_the_same_leader_differ_in_their_followers():
    placed = allocate(empty(4), 12, 2, shift=0)
    followers = {leader: {nodes[1] for nodes in placed if nodes[0] == leader} for leader in range(1, 5)}
    assert all(len(each) > 1 for each in followers.values())


def test_many_topics_of_one_partition_do_not_all_lead_on_one_node():
    counts = empty(3)
    leaders = Counter()
    for shift in range(30):
        (nodes,) = allocate(counts, 1, 3, shift)
        leaders[nodes[0]] += 1
        for node in nodes:
            counts[node] += 1
    assert leaders == {1: 10, 2: 10, 3: 10}


def test_nodes_with_fewer_replicas_come_first():
    counts = {NodeId(1): 10, NodeId(2): 0, NodeId(3): 10, NodeId(4): 0}
    placed = allocate(counts, 1, 2, shift=0)
    assert sorted(placed[0]) == [2, 4]


def test_the_counts_given_are_not_changed():
    counts = empty(3)
    allocate(counts, 5, 3, shift=1)
    assert counts == empty(3)


@pytest.mark.parametrize("factor", [-1, 0, 4, 2**15])
def test_a_replication_factor_that_cannot_be_is_refused(factor):
    with pytest.raises(
        InvalidReplicationFactorError,
        match=f"replication factor {factor}: from 1 to the number of active brokers, 3",
    ):
        allocate(empty(3), 1, factor, shift=0)


def test_without_brokers_there_is_no_placement():
    with pytest.raises(InvalidReplicationFactorError):
        allocate({}, 1, 1, shift=0)


@settings(deadline=None)
@given(
    st.dictionaries(st.integers(1, 40).map(NodeId), st.integers(0, 50), min_size=1, max_size=9),
    st.integers(1, 40),
    st.integers(0, 1000),
    st.data(),
)
def test_every_placement_is_complete_distinct_and_balanced(counts, partitions, shift, data):
    factor = data.draw(st.integers(1, len(counts)))
    placed = allocate(counts, partitions, factor, shift)
    assert len(placed) == partitions
    for nodes in placed:
        assert len(nodes) == factor
        assert len(set(nodes)) == factor, "two replicas on one node"
        assert set(nodes) <= counts.keys()
    leads = Counter(nodes[0] for nodes in placed)
    assert max(leads.values()) - min(leads[node] for node in counts) <= 1
    assert allocate(counts, partitions, factor, shift) == placed


@settings(deadline=None)
@given(st.integers(1, 9), st.integers(1, 40), st.integers(0, 20), st.data())
def test_on_an_empty_cluster_no_node_holds_much_more_than_another(nodes, partitions, shift, data):
    factor = data.draw(st.integers(1, nodes))
    held = Counter(node for each in allocate(empty(nodes), partitions, factor, shift) for node in each)
    assert max(held.values()) - min(held[NodeId(node)] for node in range(1, nodes + 1)) <= 2
