"""31 whole nodes, of which five vote in raft0."""

import pytest

from model.ids import RAFT0
from tests.unit.cluster.cluster_nodes import create_request, run, until
from tests.unit.cluster.test_joins import growing

_NODES = 31
# 31 nodes share one event loop, and this may share the machine.
_SECONDS = 60


def voters_of(cluster, node):
    """Return who votes in raft0 by a node's log, once nothing moves there; None before."""
    configuration = cluster[node].groups.get(RAFT0).configuration
    is_moving = configuration.is_joint or cluster[node].controller.raft0.move is not None
    return None if is_moving else {*configuration.voter_ids}


async def settled(cluster):
    """Wait until all running nodes agree on five voters, and all others learn; return the voters."""
    await until(
        lambda: (
            len(found := {frozenset(voters_of(cluster, node) or ()) for node in cluster.nodes}) == 1
            and len(next(iter(found))) == 5
            and all(
                len(cluster[node].groups.get(RAFT0).configuration.learners) == len(cluster.nodes) - 5
                for node in cluster.nodes
            )
        ),
        seconds=200,
    )
    return voters_of(cluster, next(iter(cluster.nodes)))


async def create_at(cluster, node, name):
    """Create a topic at a node, and wait until every running one knows it."""
    await until(cluster.has_controller, seconds=_SECONDS)
    await cluster[node].admin.create_topic(create_request(name))
    await until(lambda: all(each.controller.topics.get(name) for each in cluster.nodes.values()), seconds=_SECONDS)


@pytest.mark.slow
def test_five_of_31_brokers_vote_and_one_of_the_five_is_lost_and_replaced(tmp_path):
    async def test():
        async with growing(tmp_path, _NODES) as cluster:
            voters = await settled(cluster)
            await until(cluster.has_controller, seconds=_SECONDS)
            leader = int(cluster.controller.options.node_id)
            lost, other = sorted(voters - {leader})[:2]
            learner = next(node for node in sorted(cluster.nodes) if node not in voters)
            # Two of the five are away, and any other broker is served.
            await cluster.stop(lost, other)
            await create_at(cluster, learner, "a")
            await cluster.start(other)
            # The disk of the first is lost.
            cluster.wipe(lost)
            await cluster.change(lost, "retire", through=learner)
            # A learner takes its place. A broker that comes back before that may vote as well as any other.
            now = await settled(cluster)
            assert now >= voters - {lost}
            assert lost not in now
            node = await cluster.join(lost)
            # Its node learns.
            assert await settled(cluster) == now
            assert node.replica in cluster[learner].groups.get(RAFT0).configuration.learners
            await create_at(cluster, lost, "b")

    run(test, seconds=500)
