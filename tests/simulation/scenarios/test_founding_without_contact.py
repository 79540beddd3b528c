"""RFC 0001 section 4: a cluster is founded once, when all seeds have agreed (counterexample 22)."""

import pytest

import tests.simulation.world.observer
from cluster.founding import Founding
from tests.simulation.world.cluster import ClusterOptions, SimCluster
from tests.simulation.world.world import World


def _three_brokers_begin_without_seeing_each_other() -> None:
    with World(391) as world:
        cluster = SimCluster(world, ClusterOptions())
        for one in world.nodes:
            for other in world.nodes:
                if one < other:
                    world.network.cut_both(one, other)
        for node_id in world.nodes:
            cluster.start(node_id)
        world.run_until(8.0)
        world.check()
        assert not any("node/cluster" in kvstore for kvstore in cluster._kvstores.values()), "founded alone"
        # Two of three are no cluster either.
        world.network.heal(1, 2)
        world.network.heal(2, 1)
        world.run_until(16.0)
        assert not any("node/cluster" in kvstore for kvstore in cluster._kvstores.values())
        world.network.heal_all()
        goal = world.run_until(lambda: all(node.is_registered.is_set() for node in cluster.nodes.values()), 40.0)
        world.check()
        assert goal
        assert len({node.cluster.cluster_id for node in cluster.nodes.values()}) == 1


def test_brokers_that_are_cut_off_found_nothing_and_later_one_cluster() -> None:
    _three_brokers_begin_without_seeing_each_other()


def test_brokers_that_are_cut_off_found_one_cluster_each_if_nobody_waits_for_the_seeds(monkeypatch) -> None:
    # What a founder of its own commits is another proof's matter.
    monkeypatch.setattr(tests.simulation.world.observer, "ALL", ())
    monkeypatch.setattr(Founding, "_other_seeds", lambda founding: [])
    with pytest.raises(AssertionError, match="founded alone"):
        _three_brokers_begin_without_seeing_each_other()
