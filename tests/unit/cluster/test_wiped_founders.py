"""Seeds found one cluster at the same levels, though a disk of one is lost amid the founding (RFC 0018 section 2)."""

import asyncio
import random

import msgspec
import pytest

import cluster.founding
from cluster.founding import Founding
from model.features import MEMBERSHIP, TRANSACTION_VERSION
from tests.unit.cluster.cluster_nodes import run, until
from tests.unit.cluster.test_founders_levels import FORMER, LATER, LATEST, NEWER, NODES, Seeds

# All have a level, so their seeds compare which cluster they would found (RFC 0020, limits).
VERSIONS = (FORMER, NEWER, LATER, LATER, LATEST, {MEMBERSHIP: 1, TRANSACTION_VERSION: 1})


class LossySeeds(Seeds):
    """Seeds whose questions get lost, or are held up on their way, by number."""

    def __init__(self, pause=lambda: asyncio.sleep(0)):
        super().__init__(pause)
        self.lost, self.held, self.cut = set(), {}, set()

    async def travel(self, asker, asked):
        number = self.asked[asker, asked] + 1
        await super().travel(asker, asked)
        if (asker, asked, number) in self.held:
            await self.held[asker, asked, number].wait()

    def refuse(self, one, other):
        question = one, other, self.asked[one, other]
        return question in self.lost or frozenset((one, other)) in self.cut or super().refuse(one, other)

    def stop(self, node):
        task = self._tasks.get(node)
        if task is not None and task.done() and not task.cancelled():
            task.exception()  # A seed ends where the others have founded without its directory.
        super().stop(node)

    def stamped(self, levels):
        for node in NODES:
            self.stamps[node].levels = levels

    def ids(self):
        """The ids of the clusters that directories belong to."""
        return {msgspec.json.decode(self.record(node))["cluster_id"] for node in NODES if self.record(node)}


@pytest.fixture(autouse=True)
def fixture_no_pauses(monkeypatch):
    monkeypatch.setattr(cluster.founding, "_ASK_PAUSE", 0.0)


@pytest.fixture(name="deaf")
def fixture_deaf(monkeypatch):
    """Founders do not compare which cluster they would found."""
    monkeypatch.setattr(Founding, "_is_news", lambda *_: False)
    monkeypatch.setattr(Founding, "_wants_the_same", lambda *_: True)


async def _the_disk_of_one_is_lost(seeds, version, version_after):
    """Broker 2 has the word of the old directory of broker 1, and broker 3 gets that of the new one."""
    seeds.stamped(version)
    # Broker 2 waits for the word of 3; 3 hears 2 before 2 has founded the cluster, and asks 1 again later.
    held = seeds.held[2, 3, 2], seeds.held[3, 1, 3] = asyncio.Event(), asyncio.Event()
    seeds.lost.add((3, 1, 2))
    for node in NODES:
        seeds.start(node, version)
    await until(lambda: seeds.asked.get((2, 3)) == 2 and seeds.asked.get((3, 1)) == 3)
    seeds.wipe(1)
    # It hears the others while none has founded the cluster, and goes no further before both have.
    number = seeds.asked[1, 2] + 2
    last = seeds.held[1, 2, number] = asyncio.Event()
    seeds.start(1, version_after)
    await until(lambda: seeds.asked.get((1, 2)) == number)
    for event in held:
        event.set()
        await until(lambda: seeds.record(2))
    await until(lambda: seeds.record(3))
    last.set()


@pytest.mark.parametrize(
    ("version", "version_after"), [(NEWER, NEWER), (LATER, LATER), (LATER, NEWER), (LATER, FORMER), (NEWER, LATER)]
)
def test_a_disk_that_is_lost_amid_the_founding_leaves_one_cluster(version, version_after):
    async def test():
        seeds = LossySeeds()
        try:
            await _the_disk_of_one_is_lost(seeds, version, version_after)
            assert len(seeds.ids()) == 1
            assert seeds.levels() == [version] * 2
            # It is that of the lost disk, which is to be replaced as any other.
            assert dict(msgspec.json.decode(seeds.record(3))["members"])[1] == "d1"
            assert seeds.record(1) is None
        finally:
            await seeds.end()

    run(test)


@pytest.mark.usefixtures("deaf")
@pytest.mark.parametrize("version", [NEWER, LATER])
def test_founders_that_do_not_compare_their_clusters_found_two(version):
    async def test():
        seeds = LossySeeds()
        try:
            await _the_disk_of_one_is_lost(seeds, version, version)
            assert len(seeds.ids()) == 2
        finally:
            await seeds.end()

    run(test)


async def _random_founding(number, versions=(NEWER,)):
    rng = random.Random(number)

    async def pause():
        for _ in range(rng.choice([0, 0, 1, 5, 20])):
            await asyncio.sleep(0)

    seeds = LossySeeds(pause)
    try:
        for node in NODES:
            seeds.start(node, rng.choice(versions))
        for _ in range(rng.randrange(20)):
            node = rng.choice(NODES)
            draw = rng.random()
            if draw < 0.3:
                seeds.wipe(node)
            if draw < 0.6:
                seeds.start(node, rng.choice(versions))
            else:
                seeds.cut = {frozenset(rng.sample(NODES, 2)) for _ in range(rng.choice([0, 0, 1, 2]))}
            for _ in range(rng.choice([0, 3, 10, 40, 80])):
                await asyncio.sleep(0)
            if len(seeds.ids()) > 1:
                break
        seeds.cut = set()
        if len(versions) > 1:
            # A version that lacks what its directory is marked with waits, or does not start.
            for node in NODES:
                seeds.start(node, LATEST)
        for _ in range(600):
            await asyncio.sleep(0)
        return seeds.ids(), seeds.levels()
    finally:
        await seeds.end()


def test_there_is_one_cluster_in_random_schedules_in_which_disks_are_lost():
    async def test():
        found = [await _random_founding(number) for number in range(400)]
        assert all(len(ids) <= 1 for ids, _ in found)
        # Some founded, some lost a founder, and a few have lost all that the founding had left.
        assert {len(levels) for _, levels in found} >= {2, 3}

    run(test, seconds=300)


def test_there_is_one_cluster_at_the_same_levels_in_random_schedules_that_lose_disks_and_change_versions():
    async def test():
        found = [await _random_founding(number, VERSIONS) for number in range(800)]
        assert all(len(ids) <= 1 for ids, _ in found)
        assert all(levels == levels[:1] * len(levels) for _, levels in found)
        assert {len(levels) for _, levels in found} >= {2, 3}
        begun = [levels[0] for _, levels in found if levels]
        assert all(levels in begun for levels in (NEWER, LATER, LATEST))

    run(test, seconds=300)


@pytest.mark.usefixtures("deaf")
@pytest.mark.parametrize("versions", [(NEWER,), VERSIONS])
def test_random_schedules_find_founders_that_do_not_compare_their_clusters(versions):
    async def test():
        found = [await _random_founding(number, versions) for number in range(400)]
        assert any(len(ids) > 1 for ids, _ in found)

    run(test, seconds=300)
