"""Founders write down the same levels of features, though seeds are started in other versions amid the founding."""

import asyncio
import random
from collections import Counter

import msgspec
import pytest

import cluster.founding
from cluster.errors import PermanentStartupError
from cluster.founding import Founding
from cluster.founding_words import FOUND, ClusterRecord, FoundReply, Seed, SeedWord
from model.features import GROUP_VERSION, MEMBERSHIP, TRANSACTION_VERSION, highest_of, lacking
from model.ids import DirectoryId, NodeId, Replica
from rpc.errors import LinkDownError
from rpc.handshake import FORMAT_VERSION
from rpc.identity import FOUNDING_EPOCH, Peer
from tests.unit.cluster.cluster_nodes import run, until

NODES = (1, 2, 3)
SEEDS = [Seed(node, f"h{node}", 1) for node in NODES]
# Versions by what they have. The first two do not know levels of other features: OLDER none at all, FORMER in messages
# and marks.
OLDER, NEWER = {}, {MEMBERSHIP: 1}
FORMER = {MEMBERSHIP: 1, "it is the former version": 0}
LATER = {MEMBERSHIP: 1, TRANSACTION_VERSION: 2}
LATEST = {MEMBERSHIP: 1, TRANSACTION_VERSION: 2, GROUP_VERSION: 1}


class Stamp:
    """A directory's mark."""

    def __init__(self, pause):
        self._pause, self.levels = pause, {}

    @property
    def is_stamped(self):
        return MEMBERSHIP in self.levels

    async def ensure(self, levels):
        if lacking(levels, self.levels):
            await self._pause()
            self.levels = highest_of(levels, self.levels)

    async def bind(self, levels):
        assert levels
        assert not self.levels or not lacking(levels, self.levels), "a bound seed goes up"
        if levels != self.levels:
            await self._pause()
            self.levels = dict(levels)

    def check_version(self, highest):
        if lacking(self.levels, highest):
            raise PermanentStartupError("an older version")


class Store:
    """What a node has written down; a record of levels comes behind the mark."""

    def __init__(self, stamp):
        self._stamp, self._entries = stamp, {}

    def get(self, key):
        return self._entries.get(key)

    def put(self, key, value):
        assert not lacking(msgspec.json.decode(value, type=ClusterRecord).features, self._stamp.levels)
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


class FormerFounding(Founding):
    """Of the version that agrees on membership only: it sees no other levels that a seed is bound to, and tells none."""

    async def _ask(self, node):
        reply = await super()._ask(node)
        return None if reply is None else msgspec.structs.replace(reply, levels={})

    def _on_found(self, *told):
        reply = super()._on_found(*told)
        assert type(reply) in (FoundReply, SeedWord)
        return reply


class Seeds:
    """Three seeds, each with a directory that outlives its processes."""

    # A stamp takes at least one step of the loop, as on a disk: the others run meanwhile.
    def __init__(self, pause=lambda: asyncio.sleep(0)):
        self._pause = pause
        self.directories = {node: f"d{node}" for node in NODES}
        self.handlers, self.answered, self.gates = {}, set(), {}
        # How often each has asked each, and how many questions pass its gate.
        self.asked, self.free = Counter(), Counter()
        self.stamps = {node: Stamp(pause) for node in NODES}
        self.stores = {node: Store(self.stamps[node]) for node in NODES}
        self.versions, self.refusals, self._tasks = {}, {}, {}

    async def travel(self, asker, asked):
        self.asked[asker, asked] += 1
        await self._pause()
        if (asker, asked) in self.gates and self.asked[asker, asked] > self.free[asker, asked]:
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
        if version == OLDER and self.stamps[node].levels:
            return
        if version == FORMER and self.stamps[node].levels not in ({}, NEWER):
            return
        self.versions[node] = version
        kind = FormerFounding if version == FORMER else Founding
        replica = Replica(NodeId(node), DirectoryId(self.directories[node]))
        stamp = None if version == OLDER else self.stamps[node]
        told = {name: level for name, level in version.items() if level}
        founding = kind(NodeLinks(self, node), self.stores[node], replica, SEEDS, told, stamp)
        if founding.recall() is None:
            self._tasks[node] = asyncio.create_task(self._found(node, founding))

    async def _found(self, node, founding):
        try:
            await founding.found()
        except PermanentStartupError as error:
            self.refusals[node] = str(error)

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
    monkeypatch.setattr(Founding, "_is_bound_alike_or_lower", lambda *_: True)


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
            seeds.stamps[1].levels = NEWER
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


async def _all_found(seeds):
    await until(lambda: len(seeds.levels()) == len(NODES))
    return seeds.levels()


@pytest.mark.parametrize(
    ("versions", "levels"),
    [
        ((LATER, LATER, LATER), LATER),
        ((LATER, LATEST, LATER), LATER),
        ((LATER, {MEMBERSHIP: 1, TRANSACTION_VERSION: 1}, LATEST), {MEMBERSHIP: 1, TRANSACTION_VERSION: 1}),
        ((LATER, NEWER, LATEST), NEWER),
        ((LATER, FORMER, LATER), NEWER),
        ((FORMER, LATER, FORMER), NEWER),
        ((LATER, OLDER, FORMER), OLDER),
        ((LATER, {GROUP_VERSION: 1}, LATER), {}),
        (({TRANSACTION_VERSION: 2}, LATER, LATEST), {TRANSACTION_VERSION: 2}),
    ],
)
def test_founders_that_offer_different_levels_begin_at_the_highest_that_all_have(versions, levels):
    async def test():
        seeds = Seeds()
        try:
            for node, version in zip(NODES, versions, strict=True):
                seeds.start(node, version)
            assert await _all_found(seeds) == [levels] * 3
            assert [stamp.levels for stamp in seeds.stamps.values()] == [levels] * 3
        finally:
            await seeds.end()

    run(test)


@pytest.mark.parametrize("version", [NEWER, FORMER, {MEMBERSHIP: 1, TRANSACTION_VERSION: 1}])
def test_bound_seeds_go_down_to_what_a_seed_has_that_was_not_bound(version):
    async def test():
        seeds = Seeds()
        try:
            for node in NODES:
                seeds.gates[3, node] = asyncio.Event()
                seeds.start(node, LATEST)
            await until(lambda: seeds.stamps[1].levels == seeds.stamps[2].levels == LATEST)
            assert seeds.levels() == []
            seeds.start(3, version)
            for node in NODES:
                seeds.gates.pop((3, node)).set()
            assert await _all_found(seeds) == [{name: level for name, level in version.items() if level}] * 3
        finally:
            await seeds.end()

    run(test)


def test_a_bound_seed_that_is_started_in_a_version_with_less_takes_the_others_down():
    async def test():
        seeds = Seeds()
        try:
            seeds.stamps[2].levels = LATER
            seeds.start(2, NEWER)
            for node in (1, 3):
                seeds.start(node, LATER)
            assert await _all_found(seeds) == [NEWER] * 3
        finally:
            await seeds.end()

    run(test)


def test_the_former_version_does_not_found_with_seeds_that_are_bound_to_more_than_it_has():
    async def test():
        seeds = Seeds()
        try:
            # Seed 3 is not reached by the others, so they do not hear of its version.
            for node in (1, 2):
                seeds.stamps[node].levels = LATER
                seeds.gates[node, 3] = asyncio.Event()
                seeds.start(node, LATER)
            seeds.start(3, FORMER)
            await until(lambda: {(3, 1), (3, 2)} <= seeds.answered)
            for _ in range(3):
                seeds.answered.clear()
                await until(lambda: {(3, 1), (3, 2)} <= seeds.answered)
            assert seeds.levels() == []
            for node in (1, 2):
                seeds.gates.pop((node, 3)).set()
            assert await _all_found(seeds) == [NEWER] * 3
        finally:
            await seeds.end()

    run(test)


def test_a_seed_whose_version_lacks_what_the_others_have_founded_with_does_not_start():
    async def test():
        seeds = Seeds()
        try:
            for node in NODES:
                seeds.start(node, LATER)
            await _all_found(seeds)
            del seeds.stores[2]._entries["node/cluster"]
            seeds.start(2, NEWER)
            await until(lambda: seeds.refusals)
            assert "founded the cluster at transaction.version 2, which this version does not have" in seeds.refusals[2]
            seeds.start(2, LATER)
            assert await _all_found(seeds) == [LATER] * 3
        finally:
            await seeds.end()

    run(test)


def test_a_version_that_has_nothing_of_what_its_directory_is_bound_to_does_not_start():
    async def test():
        seeds = Seeds()
        try:
            seeds.stamps[1].levels = LATER
            seeds.start(1, {GROUP_VERSION: 1})
            await until(lambda: seeds.refusals)
            assert seeds.refusals == {1: "an older version"}
        finally:
            await seeds.end()

    run(test)


async def _random_founding(number, versions=(OLDER, NEWER, NEWER), last=NEWER):
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
                seeds.start(node, rng.choice(versions))
            for _ in range(rng.choice([0, 3, 10, 40])):
                await asyncio.sleep(0)
        for node in NODES:
            seeds.start(node, last)
        return await _all_found(seeds)
    finally:
        await seeds.end()


def test_all_founders_write_down_the_same_levels_in_random_schedules():
    async def test():
        found = [await _random_founding(number) for number in range(300)]
        assert all(levels == [levels[0]] * 3 for levels in found)
        assert {bool(levels[0]) for levels in found} == {True, False}, "only one level was ever begun with"

    run(test, seconds=120)


# Those of a directory's marks that the former version does not open make it wait, as do marks of levels that it lacks.
VERSIONS = (OLDER, FORMER, FORMER, NEWER, LATER, LATER, LATEST, {MEMBERSHIP: 1, TRANSACTION_VERSION: 1})


def test_all_founders_of_many_versions_write_down_the_same_levels_in_random_schedules():
    async def test():
        found = [await _random_founding(number, VERSIONS, LATEST) for number in range(400)]
        assert all(levels == [levels[0]] * 3 for levels in found)
        begun = [levels[0] for levels in found]
        assert all(levels in begun for levels in ({}, NEWER, LATER, LATEST))

    run(test, seconds=120)


async def _one_goes_down_late(seeds):
    """Seed 1 has seed 2's promise and waits for seed 3's, while seed 2 is started in a version with less."""
    seeds.gates.update((pair, asyncio.Event()) for pair in [(1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)])
    # Those of the first round. Seed 1 begins it once the others know which cluster they would found.
    seeds.free.update([(1, 3), (2, 1), (2, 3), (3, 1), (3, 2)])
    for node in NODES:
        seeds.stamps[node].levels = LATER
        seeds.start(node, LATER)
    await until(lambda: seeds.asked[2, 1] == seeds.asked[3, 1] == 2)
    seeds.gates.pop((1, 2)).set()
    await until(lambda: seeds.asked[1, 3] == 2)
    assert seeds.levels() == []
    seeds.start(2, NEWER)
    for pair in [(2, 1), (2, 3)]:
        seeds.gates.pop(pair).set()
    await until(lambda: seeds.stamps[2].levels == NEWER)
    asked = seeds.asked[2, 3]
    await until(lambda: seeds.record(2) or seeds.asked[2, 3] > asked + 1)
    seeds.gates.pop((1, 3)).set()
    await until(lambda: seeds.record(1))


def test_a_founder_waits_until_all_are_bound_to_the_levels_that_it_went_down_to():
    async def test():
        seeds = Seeds()
        try:
            await _one_goes_down_late(seeds)
            await until(lambda: seeds.refusals)
            assert seeds.levels() == [LATER]
            for node in (2, 3):
                seeds.start(node, LATER)
            for pair in [(3, 1), (3, 2)]:
                seeds.gates.pop(pair).set()
            assert await _all_found(seeds) == [LATER] * 3
        finally:
            await seeds.end()

    run(test)


def test_founders_that_count_any_bound_seed_begin_at_different_levels(monkeypatch):
    def is_bound(founding, reply):
        return bool(reply.cluster or reply.bound) or founding._levels.must_go_down_to(reply.word)

    monkeypatch.setattr(Founding, "_is_bound_alike_or_lower", is_bound)

    async def test():
        seeds = Seeds()
        try:
            await _one_goes_down_late(seeds)
            assert seeds.levels() == [LATER, NEWER]
        finally:
            await seeds.end()

    run(test)
