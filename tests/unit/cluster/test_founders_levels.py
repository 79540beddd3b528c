"""Founders write down the same levels of features, though seeds are started in other versions amid the founding."""

import asyncio
import random

import msgspec
import pytest

import cluster.founding
from cluster.founding import FOUND, Founding, Seed
from model.features import MEMBERSHIP
from model.ids import DirectoryId, NodeId, Replica
from rpc.errors import LinkDownError
from rpc.handshake import FORMAT_VERSION
from rpc.identity import FOUNDING_EPOCH, Peer
from tests.unit.cluster.cluster_nodes import run, until

NODES = (1, 2, 3)
SEEDS = [Seed(node, f"h{node}", 1) for node in NODES]
OLDER, NEWER = {}, {MEMBERSHIP: 1}


class Stamp:
    """A directory's mark."""

    def __init__(self, pause):
        self._pause, self.is_stamped = pause, False

    async def ensure(self):
        if not self.is_stamped:
            await self._pause()
            self.is_stamped = True


class Store:
    """What a node has written down; a record of the level comes behind the mark."""

    def __init__(self, stamp):
        self._stamp, self._entries = stamp, {}

    def get(self, key):
        return self._entries.get(key)

    def put(self, key, value):
        assert self._stamp.is_stamped or MEMBERSHIP.encode() not in value
        self._entries[key] = value

    async def sync(self):
        pass


class NodeLinks:
    """Links of one life of a seed to those that run."""

    def __init__(self, seeds, node):
        self._seeds, self._node, self._directory = seeds, node, seeds.directories[node]

    def register(self, _, handler):
        self._seeds.handlers[self._node] = handler

    def why_down(self, _):
        return None

    async def send(self, node, method, request, *, timeout):
        assert method is FOUND
        await self._seeds.travel(self._node, int(node))
        handler = self._seeds.handlers.get(int(node))
        if handler is None or self._seeds.refuse(self._node, int(node)):
            raise LinkDownError(f"node {node}")
        peer = Peer(
            Replica(NodeId(self._node), DirectoryId(self._directory)), None, False, FORMAT_VERSION, FOUNDING_EPOCH
        )
        reply = handler(peer, _travelled(request, method.request), memoryview(b""))
        self._seeds.answered.add((self._node, int(node)))
        return _travelled(reply, method.reply)


def _travelled(body, shape):
    return msgspec.msgpack.decode(msgspec.msgpack.encode(body), type=shape)


class Seeds:
    """Three seeds, each with a directory that outlives its processes."""

    # A stamp takes at least one step of the loop, as on a disk: the others run meanwhile.
    def __init__(self, pause=lambda: asyncio.sleep(0)):
        self._pause = pause
        self.directories = {node: f"d{node}" for node in NODES}
        self.handlers, self.answered, self.gates = {}, set(), {}
        self.stamps = {node: Stamp(pause) for node in NODES}
        self.stores = {node: Store(self.stamps[node]) for node in NODES}
        self.versions, self._tasks = {}, {}

    async def travel(self, asker, asked):
        await self._pause()
        if (asker, asked) in self.gates:
            await self.gates[asker, asked].wait()

    def refuse(self, one, other):
        """An older version and a marked directory make no link."""
        return any(
            self.versions.get(first) == OLDER and self.stamps[second].is_stamped
            for first, second in ((one, other), (other, one))
        )

    def start(self, node, version):
        """End the node's process, and begin another one; an older version does not open a marked directory."""
        self.stop(node)
        if version == OLDER and self.stamps[node].is_stamped:
            return
        self.versions[node] = version
        replica = Replica(NodeId(node), DirectoryId(self.directories[node]))
        stamp = None if version == OLDER else self.stamps[node]
        founding = Founding(NodeLinks(self, node), self.stores[node], replica, SEEDS, version, stamp)
        if founding.recall() is None:
            self._tasks[node] = asyncio.create_task(founding.found())

    def wipe(self, node):
        """End the node's process; its disk is lost, and there is an empty one."""
        self.stop(node)
        self.directories[node] += "'"
        self.stamps[node] = Stamp(self._pause)
        self.stores[node] = Store(self.stamps[node])

    def stop(self, node):
        self.handlers.pop(node, None)
        self.versions.pop(node, None)
        if node in self._tasks:
            self._tasks.pop(node).cancel()

    async def end(self):
        tasks = list(self._tasks.values())
        for node in NODES:
            self.stop(node)
        await asyncio.gather(*tasks, return_exceptions=True)

    def record(self, node):
        return self.stores[node].get("node/cluster")

    def levels(self):
        """The levels that each founder has written down."""
        return [msgspec.json.decode(self.record(node)).get("features", {}) for node in NODES if self.record(node)]


@pytest.fixture(autouse=True)
def fixture_no_pauses(monkeypatch):
    monkeypatch.setattr(cluster.founding, "_ASK_PAUSE", 0.0)


@pytest.fixture(name="hasty")
def fixture_hasty(monkeypatch):
    """Founders wait for nobody: as they have heard of the level, they begin at it."""
    monkeypatch.setattr(cluster.founding, "_is_bound_or_founded", lambda _: True)


async def _one_goes_back(seeds):
    """Broker 2 has the level for broker 1, and lacks it for broker 3."""
    for node in (1, 2):
        seeds.start(node, NEWER)
    await until(lambda: (1, 2) in seeds.answered)
    # Broker 2 does not hear of broker 3 in this life, so it is not bound.
    for pair in ((3, 2), (2, 3)):
        seeds.gates[pair] = asyncio.Event()
    seeds.start(3, NEWER)
    await until(lambda: {(3, 1), (1, 3)} <= seeds.answered)
    await until(lambda: seeds.stamps[1].is_stamped)
    seeds.start(2, OLDER)
    for pair in ((3, 2), (2, 3)):
        seeds.gates.pop(pair).set()
    await until(lambda: seeds.record(1) and seeds.record(3))


def test_a_seed_that_goes_back_to_an_older_version_leaves_the_others_at_one_level():
    async def test():
        seeds = Seeds()
        try:
            await _one_goes_back(seeds)
            assert seeds.levels() == [{}, {}]
            # Broker 1 has marked its directory, so the older version cannot ask it. The newer one can.
            seeds.start(2, NEWER)
            await until(lambda: seeds.record(2))
            assert seeds.levels() == [{}, {}, {}]
        finally:
            await seeds.end()

    run(test)


@pytest.mark.usefixtures("hasty")
def test_founders_that_do_not_wait_for_each_other_begin_at_two_levels():
    async def test():
        seeds = Seeds()
        try:
            await _one_goes_back(seeds)
            assert seeds.levels() == [NEWER, {}]
        finally:
            await seeds.end()

    run(test)


def test_a_seed_that_is_upgraded_amid_the_founding_counts_with_its_new_version():
    async def test():
        seeds = Seeds()
        try:
            seeds.gates[1, 3] = asyncio.Event()
            seeds.start(2, OLDER)
            seeds.start(1, NEWER)
            await until(lambda: (1, 2) in seeds.answered)
            seeds.start(2, NEWER)
            seeds.answered.clear()
            seeds.start(3, NEWER)
            await until(lambda: {(2, 1), (3, 1), (3, 2)} <= seeds.answered)
            seeds.gates.pop((1, 3)).set()
            await until(lambda: len(seeds.levels()) == len(NODES))
            assert seeds.levels() == [NEWER] * 3
        finally:
            await seeds.end()

    run(test)


def test_a_bound_seed_waits_for_a_version_that_has_the_level():
    async def test():
        seeds = Seeds()
        try:
            seeds.stamps[1].is_stamped = True
            for pair in ((3, 2), (2, 3)):
                seeds.gates[pair] = asyncio.Event()
            # A version that makes links with a marked directory, and does not have the level.
            seeds.start(2, {"other": 1})
            for node in (1, 3):
                seeds.start(node, NEWER)
            await until(lambda: {(1, 2), (1, 3)} <= seeds.answered)
            seeds.answered.clear()
            await until(lambda: (1, 2) in seeds.answered)
            assert seeds.record(1) is None
            seeds.start(2, NEWER)
            for pair in ((3, 2), (2, 3)):
                seeds.gates.pop(pair).set()
            await until(lambda: len(seeds.levels()) == len(NODES))
            assert seeds.levels() == [NEWER] * 3
        finally:
            await seeds.end()

    run(test)


async def _random_founding(number):
    rng = random.Random(number)

    # A random number of steps of the loop for each write, and between restarts: that draws the schedule.
    async def pause():
        for _ in range(rng.choice([0, 0, 1, 5, 20])):
            await asyncio.sleep(0)

    seeds = Seeds(pause)
    try:
        for _ in range(rng.randrange(12)):
            node = rng.choice(NODES)
            if rng.random() < 0.15:
                seeds.stop(node)
            else:
                seeds.start(node, rng.choice([OLDER, NEWER, NEWER]))
            for _ in range(rng.choice([0, 3, 10, 40])):
                await asyncio.sleep(0)
        for node in NODES:
            seeds.start(node, NEWER)
        await until(lambda: len(seeds.levels()) == len(NODES))
        return seeds.levels()
    finally:
        await seeds.end()


def test_all_founders_write_down_the_same_levels_in_random_schedules():
    async def test():
        found = [await _random_founding(number) for number in range(300)]
        assert all(levels == [levels[0]] * 3 for levels in found)
        assert {bool(levels[0]) for levels in found} == {True, False}, "only one level was ever begun with"

    run(test, seconds=120)
