"""The stamp of a data directory: durable before what an older version would misread, in whatever order a crash comes."""

import asyncio
import errno
import logging
import random

import crc32c
import msgspec
import pytest

from cluster.commands import BrokerRecord, RegisterBroker, SetFeature, encode_command
from cluster.controller_state import ControllerState
from cluster.data_directory import claim_data_directory, read_identity
from cluster.directory_stamp import DirectoryStamp
from cluster.errors import PermanentStartupError
from model.features import KNOWN, MEMBERSHIP, TRANSACTION_VERSION, highest_of, lacking
from model.ids import Index, NodeId, Offset, Term
from model.topic_config import TopicConfig
from runtime.environment import Environment
from runtime.network import OsNetwork
from runtime.rng import Rng
from runtime.workers import Pool
from storage.entry import Entry, EntryKind
from storage.errors import KvStoreError
from storage.memory_kvstore import MemoryKvStore
from tests.feature_levels import LEVEL_0, LIVING
from tests.simulation.world.sim_disk import SimDisk, SimFileSystem
from tests.simulation.world.trace import Trace
from tests.unit.cluster.cluster_nodes import Cluster, run, until

PATH = "/data"
KEY = "node/directory"
_CHANGES = {"mkdir", "rename", "unlink", "fsync_dir"}
_FILE_CHANGES = {"pwritev", "fsync"}


class _Clock:
    time = 0.0


class _Alive:
    dead = False


class Machine:
    """What outlives a process: disk and durable kvstore."""

    def __init__(self, seed=1):
        self.disk = SimDisk(1, random.Random(seed), Trace(_Clock()))
        self.durable = {}
        self.files.mkdir(PATH)
        self.files.fsync_dir("/")

    @property
    def files(self):
        return SimFileSystem(self.disk, _Alive())

    def formats(self):
        """Format in the file and in the kvstore, as a new process finds them."""
        stored = msgspec.json.decode(self.durable[KEY])["format_version"]
        return read_identity(Life(self).env, PATH).format_version, stored


class _File:
    def __init__(self, life, file):
        self._life = life
        self._file = file

    def __getattr__(self, name):
        return self._life.counted(getattr(self._file, name), name in _FILE_CHANGES)


class Life:
    """One process: after `effects` changes of disk or kvstore every further one fails, as if it had ended."""

    def __init__(self, machine, effects=1_000_000):
        self.left, self.spent = effects, 0
        self.files = machine.files
        self.env = Environment(None, self, OsNetwork(), Rng(1), self)
        self.store = MemoryKvStore(self.env, machine.durable)
        self.hang = None

    def spend(self):
        if self.left <= self.spent:
            raise OSError(errno.EIO, "the process has ended")
        self.spent += 1

    def counted(self, call, is_change):
        def count(*arguments, **options):
            if is_change:
                self.spend()
            return call(*arguments, **options)

        return count

    def open(self, path, *, create=False):
        return _File(self, self.counted(self.files.open, create)(path, create=create))

    def __getattr__(self, name):
        return self.counted(getattr(self.files, name), name in _CHANGES)

    async def run(self, pool, job):
        if self.hang is not None:
            await self.hang.wait()
        if pool is Pool.KVSTORE:
            self.spend()
        return job()

    async def claim(self):
        return await claim_data_directory(self.env, PATH, self.store, NodeId(1))

    async def stamp(self):
        """Stamp, as far as the process lives; returns the stamp."""
        stamp = DirectoryStamp(self.env, PATH, self.store)
        stamp.open_soon()
        for _ in range(20):
            await asyncio.sleep(0)  # As many steps as the stamp has, and more: nothing here takes time.
        await stamp.stop()
        return stamp


def former_version_opens(machine):
    """Judge as the version before the stamp does: both records the same, and of format 1."""
    content = machine.files.open(f"{PATH}/directory.id").pread(1000, 0)
    body = content[9:].rstrip(b"\n")
    assert int(content[:8], 16) == crc32c.crc32c(body)
    on_disk, stored = msgspec.json.decode(body), msgspec.json.decode(machine.durable[KEY])
    return on_disk == stored and on_disk["format_version"] == 1


@pytest.mark.parametrize("seed", [None, *range(8)])
def test_a_crash_after_any_effect_leaves_what_an_older_version_refuses_once_the_stamp_was_reported(seed):
    """None: the process is killed; a number: the power is lost, and what no fsync covered is drawn."""

    async def test():
        seen = set()
        for effects in range(30):
            machine = Machine(seed or 0)
            first = await Life(machine).claim()
            life = Life(machine, effects)
            stamp = await life.stamp()
            if seed is not None:
                machine.disk.lose_power()
            formats = machine.formats()
            seen.add(formats)
            assert not (stamp.is_stamped and formats != (2, 2))
            assert former_version_opens(machine) == (formats == (1, 1))
            after = Life(machine)
            assert await after.claim() == first
            repaired = DirectoryStamp(after.env, PATH, after.store)
            assert repaired.is_stamped == (2 in formats), "what one place has, both have after a start"
            assert machine.formats() == ((2, 2) if 2 in formats else (1, 1))
            assert (await after.stamp()).is_stamped
            assert machine.formats() == (2, 2)
            if stamp.is_stamped:
                return seen
        raise AssertionError("never stamped")

    assert {(1, 1), (2, 1), (2, 2)} <= asyncio.run(test()), "the file comes first"


@pytest.mark.parametrize("place", ["file", "kvstore"])
def test_a_repair_that_a_crash_cuts_short_is_repaired_by_the_next_start(place):
    async def test():
        for effects in range(12):
            machine = Machine()
            first = await Life(machine).claim()
            before = dict(machine.durable), machine.files.open(f"{PATH}/directory.id").pread(1000, 0)
            assert (await Life(machine).stamp()).is_stamped
            if place == "file":
                machine.files.unlink(f"{PATH}/directory.id")
                file = machine.files.open(f"{PATH}/directory.id", create=True)
                file.pwritev([before[1]], 0)
                file.fsync()
                machine.files.fsync_dir(PATH)
            else:
                machine.durable[KEY] = before[0][KEY]
            life = Life(machine, effects)
            try:
                await life.claim()
                is_done = True
            except (OSError, KvStoreError):
                is_done = False
            assert not former_version_opens(machine)
            assert await Life(machine).claim() == first
            assert machine.formats() == (2, 2)
            if is_done:
                return
        raise AssertionError("never repaired")

    asyncio.run(test())


def test_a_second_stamp_changes_nothing_and_tells_nobody():
    async def test():
        machine = Machine()
        await Life(machine).claim()
        life, told = Life(machine), []
        stamp = DirectoryStamp(life.env, PATH, life.store)
        stamp.add_listener(lambda: told.append(machine.formats()))
        await asyncio.gather(stamp.ensure(), stamp.ensure(), stamp.ensure())
        spent = life.spent
        await stamp.ensure()
        stamp.open_soon()
        assert (life.spent, told) == (spent, [(2, 2)])
        again = DirectoryStamp(life.env, PATH, life.store)
        assert again.is_stamped
        await again.ensure()
        assert life.spent == spent

    asyncio.run(test())


def test_a_disk_that_refuses_is_asked_again_and_nobody_goes_on_before(monkeypatch, caplog):
    monkeypatch.setattr("cluster.directory_stamp._RETRY_PAUSE", 0.001)

    async def test():
        machine = Machine()
        await Life(machine).claim()
        life = Life(machine, 0)
        stamp = DirectoryStamp(life.env, PATH, life.store)
        waiting = asyncio.ensure_future(stamp.ensure())
        async with asyncio.timeout(10):
            while "cannot be marked as format 2, again in" not in caplog.text:
                await asyncio.sleep(0.001)  # A log line wakes nobody.
        assert not waiting.done()
        assert machine.formats() == (1, 1)
        assert former_version_opens(machine)
        life.left = 1000
        await waiting
        assert machine.formats() == (2, 2)

    with caplog.at_level(logging.INFO):
        asyncio.run(test())
    assert "versions without raftka.membership refuse it from now on" in caplog.text


def test_a_disk_that_hangs_holds_up_who_waits_and_nothing_else(monkeypatch, caplog):
    monkeypatch.setattr("cluster.directory_stamp._REMIND_INTERVAL", 0.001)

    async def test():
        machine = Machine()
        await Life(machine).claim()
        life = Life(machine)
        life.hang = asyncio.Event()
        stamp = DirectoryStamp(life.env, PATH, life.store)
        stamp.open_soon()
        waiting = asyncio.ensure_future(stamp.ensure())
        async with asyncio.timeout(10):
            while "the disk has not marked" not in caplog.text:
                await asyncio.sleep(0.001)  # A log line wakes nobody.
        assert (waiting.done(), stamp.is_open, machine.formats()) == (False, False, (1, 1))
        given_up = asyncio.ensure_future(stamp.ensure())
        await asyncio.sleep(0)  # Its wait has begun.
        given_up.cancel()
        life.hang.set()
        await waiting
        assert stamp.is_open

    asyncio.run(test())


HIGH, LOW = {MEMBERSHIP: 1, TRANSACTION_VERSION: 2}, {MEMBERSHIP: 1, TRANSACTION_VERSION: 1}


@pytest.mark.parametrize(
    ("before", "after"),
    [({}, HIGH), (LOW, HIGH), ({MEMBERSHIP: 1}, HIGH), (HIGH, LOW), (HIGH, {MEMBERSHIP: 1}), ({}, {"x": 3})],
    ids=["raised", "raised further", "raised from membership", "lowered", "lowered to membership", "of another"],
)
def test_levels_that_a_crash_cuts_short_are_the_former_or_the_new_ones_after_a_start(before, after):
    """Lowered they are by founders only, who tell nobody before it is done."""

    async def test():
        seen = set()
        for effects in range(40):
            machine = Machine()
            first = await Life(machine).claim()
            life = Life(machine)
            await DirectoryStamp(life.env, PATH, life.store).ensure(before)
            life = Life(machine, effects)
            stamp = DirectoryStamp(life.env, PATH, life.store)
            assert stamp.levels == before
            writing = asyncio.ensure_future(stamp.bind(after))
            for _ in range(20):
                await asyncio.sleep(0)  # As many steps as the stamp has, and more: nothing here takes time.
            writing.cancel()
            await stamp.stop()
            again = Life(machine)
            assert await again.claim() == first
            found = DirectoryStamp(again.env, PATH, again.store)
            assert found.levels in (before, after)
            assert not (stamp.levels == after and found.levels != after)
            seen.add(found.levels == after)
            if stamp.levels == after:
                assert machine.formats() == ((2, 2) if after == {MEMBERSHIP: 1} else (3, 3))
                return seen
        raise AssertionError("never written")

    assert asyncio.run(test()) == {True, False}


def test_the_former_version_reads_no_other_format_than_of_membership_and_this_one_says_what_is_lacking():
    async def test():
        machine = Machine()
        await Life(machine).claim()
        life = Life(machine)
        stamp = DirectoryStamp(life.env, PATH, life.store)
        await stamp.ensure({TRANSACTION_VERSION: 1})
        assert not stamp.is_stamped, "membership may go back"
        await stamp.ensure()
        assert stamp.is_stamped
        assert machine.formats() == (3, 3)
        stamp.check_version(HIGH)
        with pytest.raises(PermanentStartupError, match=r"only versions with transaction\.version 1 can read"):
            stamp.check_version({MEMBERSHIP: 1})
        await stamp.stop()

    asyncio.run(test())


# -- raft0's tables --------------------------------------------------------------------------------------------------


class Disk:
    """A stamp whose time the test chooses."""

    def __init__(self):
        self.levels = {}
        self.asked = 0
        self.done = asyncio.Event()

    def covers(self, levels):
        return not lacking(levels, self.levels)

    async def ensure(self, levels):
        self.asked += 1
        await self.done.wait()
        self.levels = highest_of(self.levels, levels)

    def stamp(self):
        self.done.set()


def entry(index, command):
    return Entry(Index(index), Term(1), EntryKind.COMMAND, Offset(0), 0, encode_command(command))


def registration(node, level=1):
    return RegisterBroker(BrokerRecord(node, f"dir{node}", "k", 9092, "r", 1, "a", 2, {MEMBERSHIP: level}))


def state_with(disk, *commands, offered=LIVING):
    state = ControllerState(TopicConfig(), offered=offered, stamp=disk)
    for index, command in enumerate(commands, start=1):
        state.note(entry(index, command))
    return state


def test_the_entry_that_raises_the_level_waits_for_the_stamp_and_those_before_it_do_not():
    async def test():
        disk = Disk()
        state = state_with(disk, registration(1), SetFeature(MEMBERSHIP, 1), registration(2))
        assert state.settles_until(Index(3)) == 1
        state.commit(Index(1))
        assert state.settles_until(Index(3)) == 1
        waiting = asyncio.ensure_future(state.wait_until_it_settles())
        await asyncio.sleep(0)  # Its wait has begun.
        assert (disk.asked, waiting.done()) == (1, False)
        disk.stamp()
        await waiting
        assert disk.levels == {MEMBERSHIP: 1}
        assert state.settles_until(Index(3)) == 3
        state.commit(Index(3))
        assert state.tables.features.level(MEMBERSHIP) == 1

    asyncio.run(test())


def test_a_level_that_the_tables_refuse_stamps_nothing():
    async def test():
        disk = Disk()
        state = state_with(disk, registration(1), registration(2, 0), SetFeature(MEMBERSHIP, 1), registration(3))
        state.commit(Index(2))
        await state.wait_until_it_settles()
        assert state.settles_until(Index(4)) == 3
        state.commit(Index(3))
        assert state.settles_until(Index(4)) == 4
        assert (disk.asked, state.tables.features.level(MEMBERSHIP)) == (0, 0)

    asyncio.run(test())


def test_every_level_waits_for_its_own_stamp():
    async def test():
        disk = Disk()
        disk.stamp()
        told = {MEMBERSHIP: 1, TRANSACTION_VERSION: 2}
        levels = [SetFeature(MEMBERSHIP, 1), SetFeature(TRANSACTION_VERSION, 1), SetFeature(TRANSACTION_VERSION, 2)]
        lowered = SetFeature(TRANSACTION_VERSION, 1)
        commands = RegisterBroker(BrokerRecord(1, "dir1", "k", 9092, "r", 1, "a", 2, told)), *levels, lowered
        state = state_with(disk, *commands, offered=KNOWN)
        for index, level in enumerate(levels, start=2):
            assert state.settles_until(Index(5)) == index - 1
            state.commit(Index(index - 1))
            await state.wait_until_it_settles()
            assert disk.levels[level.name] == level.level
        assert state.settles_until(Index(5)) == 5
        state.commit(Index(5))
        assert state.tables.features.all() == {MEMBERSHIP: 1, TRANSACTION_VERSION: 1}
        assert (disk.asked, disk.levels) == (3, told)
        # A snapshot needs what is in force.
        content = b"".join(state.snapshot())
        other = Disk()
        other.stamp()
        wanted = [each for each in state_with(other, offered=KNOWN).restore(content, Index(5)) if each is not None]
        for each in wanted:
            await each
        assert other.levels == {MEMBERSHIP: 1, TRANSACTION_VERSION: 1}

    asyncio.run(test())


def test_a_level_that_was_truncated_stamps_nothing():
    disk = Disk()
    state = state_with(disk, registration(1), SetFeature(MEMBERSHIP, 1))
    state.truncate(Index(2))
    assert state.settles_until(Index(2)) == 2


def test_a_snapshot_with_the_level_waits_for_the_stamp():
    saved = state_with(None, registration(1), SetFeature(MEMBERSHIP, 1))
    saved.commit(Index(2))
    content = b"".join(saved.snapshot())

    async def test():
        disk = Disk()
        state = state_with(disk)
        wanted = [each for each in state.restore(content, Index(2)) if each is not None]
        assert len(wanted) == 1
        disk.stamp()
        await wanted[0]
        assert disk.asked == 1
        assert [each for each in state_with(disk).restore(content, Index(2)) if each is not None] == []

    asyncio.run(test())


# -- whole nodes -----------------------------------------------------------------------------------------------------


def formats(cluster):
    """Format in the file and in the kvstore of each node."""
    found = []
    for number, durable in cluster.durable.items():
        identity = read_identity(cluster[number].env, cluster.data_dir(number))
        found.append((identity.format_version, msgspec.json.decode(durable[KEY])["format_version"]))
    return found


class Upgradable(Cluster):
    """Nodes of the former version, then of this one."""

    features = LEVEL_0

    def make(self, number, **changes):
        return super().make(number, features=self.features, **changes)


async def raise_level(cluster):
    """Raise the level in a cluster of the former one; return the levels at the moment of each node's stamp."""
    await cluster.start()
    await cluster.stop()
    cluster.features = LIVING
    await cluster.start()
    assert formats(cluster) == [(1, 1)] * 3
    levels = []
    for node in cluster.nodes.values():
        features = node.controller.features
        node.stamp.add_listener(lambda features=features: levels.append(features.level(MEMBERSHIP)))
    await until(cluster.has_controller)
    controller = cluster.controller.controller
    await controller.propose(SetFeature(MEMBERSHIP, 1), asyncio.get_running_loop().time() + 10)
    await until(lambda: all(node.controller.features.level(MEMBERSHIP) == 1 for node in cluster.nodes.values()))
    return levels


def test_an_upgraded_cluster_is_stamped_when_its_level_is_raised_and_not_before(tmp_path):
    async def test():
        cluster = Upgradable(tmp_path, 3)
        try:
            assert await raise_level(cluster) == [0, 0, 0], "stamped before the level was applied"
            assert formats(cluster) == [(2, 2)] * 3
            await cluster.stop()
            await cluster.start()
            assert all(node.stamp.is_stamped for node in cluster.nodes.values())
        finally:
            await cluster.stop()

    run(test, seconds=60)


def test_a_node_that_applies_the_level_without_waiting_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(ControllerState, "settles_until", lambda state, index: index)

    async def test():
        cluster = Upgradable(tmp_path, 3)
        try:
            assert await raise_level(cluster) != [0, 0, 0]
        finally:
            await cluster.stop()

    run(test, seconds=60)


def test_a_cluster_that_is_founded_at_the_level_is_stamped_at_once(tmp_path):
    async def test():
        cluster = Upgradable(tmp_path, 1)
        cluster.features = LIVING
        try:
            node = cluster.make(1)
            await node.start()
            assert formats(cluster) == [(2, 2)]
        finally:
            await cluster.stop()

    run(test)
