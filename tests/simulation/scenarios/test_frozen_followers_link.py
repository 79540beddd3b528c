"""RFC 0003 section 9: bytes for a follower that takes nothing are bounded, and hold nobody up."""

import asyncio

import pytest

from model.ids import ConsistencyLevel, GroupId, NodeId
from raft.errors import RaftError
from rpc.link import OutgoingLink
from tests.simulation.clients.workload import record_batch
from tests.simulation.world.cluster import ClusterOptions, SimCluster
from tests.simulation.world.replica_view import content_key
from tests.simulation.world.world import World

_BATCH_BYTES = 700_000
_BATCHES = 20
_PARTITIONS = 6
_LINK_BYTES = 16 << 20
_FROZEN = 3
# Heartbeats and votes are never refused; a link that is silent for longer than this is closed, and its bytes with it.
_URGENT_BYTES = 64 * 1024
_SECONDS = 4.0


class _Cluster:
    """Three nodes, one of which stands still while the others write more for it than its links may hold."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.cluster = SimCluster(world, ClusterOptions(partitions=_PARTITIONS, segment_bytes=64 << 20))
        self.cluster.found()
        groups = self.cluster.data_groups()
        self.leaders = {group: leader for group in groups if (leader := self.cluster.leader_of(group)) != _FROZEN}
        self.most_unsent = 0
        self.offered = self.done = 0
        world.scheduler.observers.append(self._look)

    def _look(self) -> None:
        for leader in set(self.leaders.values()):
            connection = self.cluster.nodes[leader].links._outgoing[NodeId(_FROZEN)]._connection
            if connection is not None:
                self.most_unsent = max(self.most_unsent, connection.unsent_bytes)

    def offer(self) -> None:
        for group in self.leaders:
            for number in range(_BATCHES):
                self.offered += 1
                self.world.nodes[self.leaders[group]].spawn(self._produce(group, number))

    async def _produce(self, group: GroupId, number: int) -> None:
        partition = self.cluster.partition(self.leaders[group], group)
        assert partition is not None
        batch = record_batch([b"%s %d" % (group.encode(), number) + b"x" * _BATCH_BYTES])
        self.cluster.history.sent.add(content_key(batch))
        # One after the other: each is a round of its own.
        await asyncio.sleep(0.05 * number)
        deadline = asyncio.get_running_loop().time() + 20.0
        try:
            await partition.produce(batch, 1, ConsistencyLevel.QUORUM_ACK, deadline).replicated
        except RaftError:
            return
        self.done += 1


def _a_follower_takes_nothing() -> None:
    with World(229) as world:
        story = _Cluster(world)
        of_one = max(list(story.leaders.values()).count(leader) for leader in set(story.leaders.values()))
        assert of_one * 16 * _BATCH_BYTES > _LINK_BYTES + (4 << 20), "windows alone are no bound"
        world.nodes[_FROZEN].pause()
        story.offer()
        world.run_until(world.time + _SECONDS)
        world.check()
        assert story.done == story.offered, "nobody waits for a minority"
        assert story.most_unsent <= _LINK_BYTES + _URGENT_BYTES
        assert story.most_unsent > _LINK_BYTES // 2, "much was waiting: this shows something"
        world.nodes[_FROZEN].resume()
        assert world.run_until(story.cluster.has_converged, world.time + 30.0), "it gets what it has missed"
        world.check()


def test_a_follower_that_takes_nothing_fills_no_more_than_its_links_bound_and_stops_nobody() -> None:
    _a_follower_takes_nothing()


def test_a_stuck_follower_fills_more_than_its_links_bound_if_nothing_is_refused(monkeypatch) -> None:
    """A link queues whatever the windows of all groups allow."""
    monkeypatch.setattr(OutgoingLink, "has_room", lambda link, size: True)
    with pytest.raises(AssertionError):
        _a_follower_takes_nothing()
