"""Where a topic goes whose partitions shall have more, or fewer, replicas."""

import pytest

from cluster.errors import InvalidReplicationFactorError
from cluster.replication_spread import spread


def test_added_replicas_go_to_the_brokers_with_the_fewest_and_are_evenly_spread():
    counts = {1: 6, 2: 0, 3: 0, 4: 0}
    found = spread(counts, [[1]] * 6, [1] * 6, 3)
    assert all(nodes[0] == 1 and len(set(nodes)) == 3 for nodes in found)
    added = [node for nodes in found for node in nodes[1:]]
    assert {node: added.count(node) for node in (2, 3, 4)} == {2: 4, 3: 4, 4: 4}


def test_removed_replicas_are_those_on_the_brokers_with_the_most_but_no_leader():
    assert spread({1: 9, 2: 3, 3: 1}, [[1, 2, 3]], [1], 1) == [[1]]
    assert spread({1: 9, 2: 3, 3: 1}, [[1, 2, 3]], [3], 2) == [[2, 3]]
    assert spread({1: 2, 2: 3, 3: 9}, [[1, 2, 3]], [2], 2) == [[1, 2]]


def test_without_a_leader_the_preferred_replica_stays():
    assert spread({1: 9, 2: 3, 3: 1}, [[1, 2, 3]], [None], 1) == [[1]]
    # Who leads is not among those that the partition moves to.
    assert spread({1: 9, 2: 3, 3: 1}, [[1, 2]], [3], 1) == [[1]]


def test_of_equally_loaded_brokers_the_last_goes_and_the_order_stays():
    assert spread({1: 4, 2: 4, 3: 4}, [[3, 1, 2]], [3], 2) == [[3, 1]]
    assert spread({1: 4, 2: 4, 3: 4, 4: 0}, [[3, 1]], [1], 3) == [[3, 1, 4]]


def test_a_node_that_may_get_nothing_any_more_goes_first():
    assert spread({1: 9, 2: 9}, [[1, 3, 2]], [1], 2) == [[1, 2]]


def test_removals_take_turns_as_the_counts_change():
    found = spread({1: 4, 2: 4, 3: 4}, [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 2, 3]], [1, 2, 3, 1], 1)
    assert found == [[1], [2], [3], [1]]
    found = spread({1: 3, 2: 3, 3: 3}, [[1, 2, 3]] * 3, [1, 1, 1], 2)
    assert sorted(nodes[1] for nodes in found) == [2, 2, 3] or sorted(nodes[1] for nodes in found) == [2, 3, 3]


@pytest.mark.parametrize("count", [0, 4])
def test_more_replicas_than_brokers_and_none_are_refused(count):
    with pytest.raises(InvalidReplicationFactorError):
        spread({1: 0, 2: 0, 3: 0}, [[1]], [1], count)
