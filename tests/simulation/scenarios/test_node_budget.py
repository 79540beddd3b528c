"""RFC 0003 section 9: the batchers of a node share one budget that never locks up (counterexample 12, row P15)."""

import asyncio
from collections import Counter

import pytest

from model.ids import ConsistencyLevel, GroupId
from raft.errors import RaftError
from raft.options import RaftOptions
from runtime.byte_budget import ReservedBudget
from runtime.workers import Pool
from tests.simulation.clients.workload import record_batch
from tests.simulation.world.cluster import ClusterOptions, SimCluster
from tests.simulation.world.replica_view import content_key
from tests.simulation.world.world import World

_NODE_BYTES = 128 * 1024
_SHARE = _NODE_BYTES // 8
_BATCH_BYTES = 3000
_PARTITIONS = 24
_OPTIONS = RaftOptions(node_batcher_bytes=_NODE_BYTES)


class _Broker:
    """Node 1 of three, which leads many partitions, under producers that offer more than it can hold."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.cluster = SimCluster(world, ClusterOptions(partitions=_PARTITIONS, raft=_OPTIONS))
        self.cluster.found()
        groups = [group for group in self.cluster.data_groups() if self.cluster.leader_of(group) == 1]
        self.groups = groups
        assert len(groups) * _SHARE > _NODE_BYTES // 2
        self.offered = 0
        self.outcomes: Counter[str] = Counter()
        self.most_taken = 0
        self.most_of_a_group: Counter[GroupId] = Counter()
        world.scheduler.observers.append(self._look)

    @property
    def budget(self) -> ReservedBudget:
        return self.cluster.nodes[1].groups.limits.batcher_budget

    @property
    def is_answered(self) -> bool:
        return self.outcomes.total() == self.offered

    def _look(self) -> None:
        self.most_taken = max(self.most_taken, self.budget.taken)
        for group in self.groups:
            consensus = self.cluster.consensus(1, group)
            assert consensus is not None
            held = consensus._batcher._budget.taken
            self.most_of_a_group[group] = max(self.most_of_a_group[group], held)

    def offer(self, batches: int) -> None:
        """Hand so many batches to each partition at once."""
        for group in self.groups:
            for _ in range(batches):
                self.offered += 1
                self.world.nodes[1].spawn(self._produce(group, b"%d-" % self.offered + b"x" * _BATCH_BYTES))

    async def _produce(self, group: GroupId, value: bytes) -> None:
        partition = self.cluster.partition(1, group)
        assert partition is not None
        batch = record_batch([value])
        self.cluster.history.sent.add(content_key(batch))
        deadline = asyncio.get_running_loop().time() + 20.0
        stages = partition.produce(batch, 1, ConsistencyLevel.LEADER_ACK, deadline)
        try:
            await stages.replicated
        except RaftError as error:
            self.outcomes[type(error).__name__] += 1
        else:
            self.outcomes["done"] += 1

    def run_for(self, seconds: float) -> None:
        self.world.run_until(self.world.time + seconds)
        self.world.check()


def _the_budget_bounds_and_never_locks_up() -> None:
    with World(211) as world:
        broker = _Broker(world)
        # The disk stands still: what is in the batchers stays there.
        world.nodes[1].workers.stall(Pool.APPEND, 1.0)
        broker.offer(20)
        broker.run_for(0.9)
        assert broker.most_taken <= _NODE_BYTES - _SHARE, "the reserve is not for producers"
        assert broker.most_taken > _NODE_BYTES // 2, "the bound was reached: this shows something"
        assert max(broker.most_of_a_group.values()) <= _SHARE
        broker.run_for(5.0)
        assert broker.outcomes == {"done": broker.offered}, "everybody who waited has been served"
        # And where leaderships end while their producers wait, nothing of the budget is lost with them.
        world.nodes[1].workers.stall(Pool.APPEND, 1.0)
        broker.offer(20)
        broker.run_for(0.2)
        for group in broker.groups[::2]:
            consensus = broker.cluster.consensus(1, group)
            assert consensus is not None
            world.nodes[1].loop.post(lambda consensus=consensus: consensus.step_down("the story says so"))
        broker.run_for(8.0)
        assert broker.is_answered
        assert broker.budget.taken == 0
        assert all(broker.cluster.leader_of(group) is not None for group in broker.cluster.groups())


def test_row_p15_a_node_holds_no_more_than_its_budget_and_serves_everybody() -> None:
    _the_budget_bounds_and_never_locks_up()


def _has_room_for_all(budget: ReservedBudget, units: int, *, urgent: bool) -> bool:
    return True


def _has_no_reserve(budget: ReservedBudget, units: int, *, urgent: bool) -> bool:
    return budget.taken + units <= budget.limit


@pytest.mark.parametrize("has_room", [_has_room_for_all, _has_no_reserve])
def test_row_p15_fails_without_the_bound(monkeypatch, has_room) -> None:
    monkeypatch.setattr(ReservedBudget, "_has_room", has_room)
    with pytest.raises(AssertionError):
        _the_budget_bounds_and_never_locks_up()


def test_row_p15_fails_where_waiters_are_forgotten(monkeypatch) -> None:
    monkeypatch.setattr(ReservedBudget, "_serve", lambda budget: None)
    with pytest.raises(AssertionError):
        _the_budget_bounds_and_never_locks_up()
