"""RFC 0003 section 6: what the followers of a node hold before it is in their logs shares one budget."""

import asyncio

import pytest

from model.ids import ConsistencyLevel, GroupId
from raft.append_buffer_budget import AppendBufferBudget
from raft.consensus import Consensus
from raft.errors import RaftError
from raft.options import RaftOptions
from runtime.workers import Pool
from tests.simulation.clients.workload import record_batch
from tests.simulation.world.cluster import ClusterOptions, SimCluster
from tests.simulation.world.replica_view import content_key
from tests.simulation.world.world import World

_NODE_BYTES = 128 * 1024
_SHARE = _NODE_BYTES // 8
_BATCH_BYTES = 3000
_PARTITIONS = 24
_FROZEN = 3
_STALL_SECONDS = 2.0


def _held(consensus: Consensus) -> int:
    """Bytes of entries that a follower has in memory and not in its log."""
    buffer = consensus._buffer
    return sum(entry.size for queued in (*buffer._queue, *buffer._taken) for entry in queued.entries)


class _Follower:
    """Node 3 of three, whose disk takes nothing, while the partitions that others lead are written to."""

    def __init__(self, world: World) -> None:
        self.world = world
        options = RaftOptions(
            node_append_buffer_bytes=_NODE_BYTES, append_chunk_bytes=8 * 1024, recovery_chunk_bytes=4 * 1024
        )
        self.cluster = SimCluster(world, ClusterOptions(partitions=_PARTITIONS, raft=options))
        self.cluster.found()
        groups = self.cluster.data_groups()
        self.leaders = {group: leader for group in groups if (leader := self.cluster.leader_of(group)) != _FROZEN}
        assert len(self.leaders) * _SHARE > _NODE_BYTES, "their shares alone are no bound"
        self.most_held = 0
        self.most_of_a_group = 0
        self.done = 0
        world.scheduler.observers.append(self._look)

    def _look(self) -> None:
        held = [
            _held(consensus)
            for group in self.cluster.groups()
            if (consensus := self.cluster.consensus(_FROZEN, group)) is not None
        ]
        self.most_held = max(self.most_held, sum(held))
        self.most_of_a_group = max(self.most_of_a_group, *held)

    def offer(self, batches: int) -> None:
        for group in self.leaders:
            for number in range(batches):
                self.world.nodes[self.leaders[group]].spawn(self._produce(group, number))

    async def _produce(self, group: GroupId, number: int) -> None:
        partition = self.cluster.partition(self.leaders[group], group)
        assert partition is not None
        batch = record_batch([b"%s %d" % (group.encode(), number) + b"x" * _BATCH_BYTES])
        self.cluster.history.sent.add(content_key(batch))
        # One after the other: each is a request of its own.
        await asyncio.sleep(0.02 * number)
        deadline = asyncio.get_running_loop().time() + 20.0
        try:
            await partition.produce(batch, 1, ConsistencyLevel.QUORUM_ACK, deadline).replicated
        except RaftError:
            return
        self.done += 1


def _a_followers_disk_stands_still() -> None:
    with World(223) as world:
        follower = _Follower(world)
        world.nodes[_FROZEN].workers.stall(Pool.APPEND, _STALL_SECONDS)
        follower.offer(16)
        world.run_until(world.time + 0.8 * _STALL_SECONDS)
        world.check()
        assert follower.done == 16 * len(follower.leaders), "nobody waits for a minority"
        assert follower.most_held <= _NODE_BYTES
        assert follower.most_of_a_group <= _SHARE
        assert follower.most_held > _NODE_BYTES * 3 // 4 - _SHARE, "the bound was reached: this shows something"
        assert world.run_until(follower.cluster.has_converged, world.time + 30.0), "what was refused has come later"
        world.check()
        budget = follower.cluster.nodes[_FROZEN].groups.limits.append_buffers
        assert budget.refused > 0
        assert budget.bytes.taken == 0


def test_a_follower_whose_disk_stands_still_holds_no_more_than_its_nodes_budget() -> None:
    _a_followers_disk_stands_still()


def test_a_follower_holds_more_if_nothing_bounds_the_node(monkeypatch) -> None:
    """A follower queues whatever a leader's window allows, group by group."""
    monkeypatch.setattr(AppendBufferBudget, "has_room", lambda budget, size, held, *, is_internal: True)
    monkeypatch.setattr(AppendBufferBudget, "try_acquire", lambda budget, size, held, *, is_internal: 0)
    with pytest.raises(AssertionError):
        _a_followers_disk_stands_still()
