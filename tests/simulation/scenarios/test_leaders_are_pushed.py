"""RFC 0001 section 6: brokers without a replica learn who leads (counterexample 21)."""

import contextlib

import pytest

from cluster.admin_messages import CreateTopicRequest
from cluster.errors import ClusterError
from cluster.leadership import Leader, Leadership
from cluster.node import Node
from model.ids import GroupId
from tests.simulation.world.cluster import ClusterOptions, SimCluster
from tests.simulation.world.world import World

# A push and its way; repetitions are 5 s apart.
_SOON = 1.0


class _OneReplicaEach(SimCluster):
    """Its topic has replication factor 1."""

    async def _create_topic(self, node: Node) -> None:
        request = CreateTopicRequest("orders", self.options.partitions, 1, [], {}, False, 10.0)
        with contextlib.suppress(ClusterError):
            await node.admin.create_topic(request)


async def _leader(node: Node, group: GroupId) -> Leader | None:
    return node.leadership.leader_of(group)


def _four_brokers_and_one_replica_each() -> None:
    with World(381) as world:
        cluster = _OneReplicaEach(world, ClusterOptions(nodes=4, partitions=4))
        cluster.found()
        world.run_until(world.time + _SOON)
        world.check()
        groups = cluster.data_groups()
        for group in groups:
            holders = [node_id for node_id in cluster.nodes if cluster.consensus(node_id, group) is not None]
            assert holders == [cluster.leader_of(group)]
            for node_id in cluster.nodes:
                leader = world.run(world.nodes[node_id], _leader(cluster.nodes[node_id], group))
                assert leader is not None, f"node {node_id} does not know who leads {group}"
                assert leader.node_id == holders[0]


def test_every_broker_knows_the_leader_of_a_partition_that_it_does_not_hold() -> None:
    _four_brokers_and_one_replica_each()


def test_a_broker_does_not_know_the_leader_if_it_has_only_what_raft0_says(monkeypatch) -> None:
    monkeypatch.setattr(Leadership, "_push", lambda leadership, peer, led: None)
    with pytest.raises(AssertionError, match="does not know who leads"):
        _four_brokers_and_one_replica_each()
