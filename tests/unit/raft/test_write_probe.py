"""What hangs on a disk is found, and a doubt ends with a probe write that has passed in time (RFC 0003 section 7)."""

import asyncio
import errno
from collections.abc import Iterator

import pytest

from model.ids import GroupId
from raft.node_stalls import NodeStalls
from raft.options import RaftOptions
from raft.probe import RaftProbe
from raft.write_probe import WriteProbe
from raft.write_steps import Stall, Step, WriteSteps
from runtime.gate import Gate
from runtime.workers import Pool
from storage.memory_kvstore import MemoryKvStore
from tests.simulation.world.world import World

_OPTIONS = RaftOptions()
_GROUP = GroupId("g")


class _Node:
    """A disk, the steps of one replica, and what watches them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.machine = world.add_node(1)
        self.steps = WriteSteps()
        self.stalls = NodeStalls(_OPTIONS.stall_timeout)
        self.counts = RaftProbe()
        self.machine.environment.files.mkdir("/data")
        self.machine.spawn(self._watch())
        self.run_for(0.1)

    async def _watch(self) -> None:
        env = self.machine.environment
        self.kvstore = MemoryKvStore(env, {})
        self.stalls.kvstore_since = lambda: self.kvstore.syncing_since
        probe = WriteProbe(env, _OPTIONS, self.kvstore, "/data", self.stalls, self.counts, Gate("test"))
        await probe.watch(lambda: [(_GROUP, self.steps)])

    def run_for(self, seconds: float) -> None:
        self.world.run_until(self.world.time + seconds)
        self.world.check()

    def begin(self, step: Step) -> asyncio.Event:
        """A step of the replica is under way until the event is set."""
        ends = asyncio.Event()

        async def write() -> None:
            with self.steps.under_way(step):
                await ends.wait()

        self.machine.spawn(write())
        self.run_for(0.01)
        return ends

    def end(self, ends: asyncio.Event) -> None:
        async def finish() -> None:
            ends.set()

        self.machine.spawn(finish())
        self.run_for(1.0)


@pytest.fixture
def node() -> Iterator[_Node]:
    with World(1) as world:
        yield _Node(world)


def test_steps_of_a_kind_are_as_old_as_the_oldest_of_them(node) -> None:
    first = node.begin(Step.FSYNC)
    since = node.steps.since(Step.FSYNC)
    node.begin(Step.FSYNC)
    assert node.steps.since(Step.FSYNC) == since
    node.end(first)
    assert node.steps.since(Step.FSYNC) > since
    assert node.steps.since(Step.APPEND) is None


def test_a_step_hangs_from_the_bound_on_and_not_before(node) -> None:
    node.begin(Step.APPEND)
    since = node.steps.since(Step.APPEND)
    assert node.steps.stalls(since - 0.001) == []
    assert node.steps.stalls(since) == [Stall(Step.APPEND, since)]
    node.run_for(2.8)
    assert node.stalls.doubt is None
    node.run_for(0.6)
    assert node.stalls.doubt == "its append hangs"
    assert node.counts.append_stalls == 1


def test_a_probe_does_not_end_a_doubt_while_the_step_hangs(node) -> None:
    ends = node.begin(Step.APPEND)
    node.run_for(20.0)
    assert node.stalls.doubt is not None
    assert node.counts.append_stalls == 1, "each is counted once"
    node.end(ends)
    assert node.stalls.doubt is None
    assert node.machine.environment.files.listdir("/data") == [], "the probe leaves nothing"


@pytest.mark.parametrize("pool", [Pool.APPEND, Pool.FSYNC, Pool.KVSTORE])
def test_a_probe_that_takes_longer_than_a_stall_has_not_passed(node, pool) -> None:
    node.machine.workers.stall(pool, 5.0)
    node.stalls.raise_doubt("test")
    node.run_for(4.0)
    assert [stall.step.name for stall in node.stalls.stalls(node.machine.loop.time())] == [pool.name]
    node.run_for(0.9)
    assert node.stalls.doubt is not None
    node.run_for(1.5)
    assert node.stalls.doubt is None, "the next one has"


def test_a_doubt_that_is_raised_during_a_probe_waits_for_the_next_one(node) -> None:
    on_passed = node.stalls.begin_probe()
    node.stalls.raise_doubt("test")
    on_passed()
    assert node.stalls.doubt == "test"


def test_a_disk_that_refuses_a_probe_stays_in_doubt_and_a_full_one_does_not(node) -> None:
    for _ in range(3):
        node.machine.disk.fail_next("write", path_part="write.probe")
    node.stalls.raise_doubt("test")
    node.run_for(0.7)
    assert node.stalls.doubt == "test"
    node.run_for(2.0)
    assert node.stalls.doubt is None
    node.machine.disk.fail_next("write", error=errno.ENOSPC, path_part="write.probe")
    node.stalls.raise_doubt("again")
    node.run_for(0.5)
    assert node.stalls.doubt is None, "it has answered"


def test_a_loop_that_stood_still_says_nothing_of_the_disk(node) -> None:
    ends = node.begin(Step.FSYNC)
    node.machine.pause()
    node.run_for(10.0)
    node.machine.resume()
    node.end(ends)
    assert node.counts.flush_stalls == 0
    assert node.stalls.doubt is None
