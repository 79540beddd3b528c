"""Marker, directory and vote of a replica through every crash: no step order makes a rightful start refuse."""

import asyncio
import errno
import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from model.ids import DirectoryId, GroupId, Index
from raft.replica_directories import ReplicaDirectories, clean_key, marker_key
from raft.vote_floor import floor_key
from raft.vote_store import vote_key
from runtime.environment import Environment
from runtime.network import OsNetwork
from runtime.rng import Rng
from runtime.workers import HungWorkersError, Pool
from storage.errors import (
    ForeignDirectoryError,
    KvStoreError,
    LogPoisonedError,
    MismatchedLogError,
    ReplicaRemovedError,
    StorageError,
)
from storage.memory_kvstore import MemoryKvStore
from tests.simulation.world.sim_disk import SimDisk, SimFileSystem
from tests.simulation.world.trace import Trace

GROUP = GroupId("topic/7")
PATH = "/data/groups/topic-7"
SEGMENTS = ("00000000000000000001-1.index", "00000000000000000001-1.log", "00000000000000000009-1.log")
_EFFECTS = {"open", "mkdir", "rename", "unlink", "rmdir", "fsync_dir"}


class _Clock:
    time = 0.0


class _Alive:
    dead = False


class Life:
    """One process on the machine: after `effects` changes of disk or kvstore everything it tries fails."""

    def __init__(self, machine: "Machine", effects: int) -> None:
        self.left = effects
        self._files = SimFileSystem(machine.disk, _Alive())  # type: ignore[arg-type]
        environment = Environment(None, self, OsNetwork(), Rng(1), self)  # type: ignore[arg-type]
        self.store = MemoryKvStore(environment, machine.durable)
        self.directories = ReplicaDirectories(environment, self.store, DirectoryId("here"), "/data/groups", self.look)

    async def look(self) -> int:
        return 1

    def spend(self) -> None:
        if self.left <= 0:
            raise OSError(errno.EIO, "the process has ended")
        self.left -= 1

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._files, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            if name in _EFFECTS:
                self.spend()
            return call(*arguments, **options)

        return counted

    def run_now(self, job: Callable[[], None]) -> bool:
        return False

    async def run(self, pool: Pool, job: Callable[[], Any]) -> Any:
        if pool is Pool.KVSTORE:
            self.spend()
        return job()

    async def take_part(self) -> None:
        """What a replica does once it was claimed: vote, and append."""
        await self.directories.claim(GROUP)
        self.store.put(vote_key(GROUP), b"a vote")
        await self.store.sync()
        for name in SEGMENTS:
            file = self._files.open(f"{PATH}/{name}", create=True)
            file.fsync()
            file.close()
        self._files.fsync_dir(PATH)

    async def fill(self) -> None:
        """What its owner does once something is committed."""
        await self.take_part()
        await self.directories.mark_filled(GROUP)

    async def remove(self) -> None:
        await self.directories.begin_removal(GROUP)
        await self.directories.finish_removal(GROUP)


class Machine:
    """What outlives a process: disk and durable kvstore."""

    def __init__(self, seed: int = 1) -> None:
        self.disk = SimDisk(1, random.Random(seed), Trace(_Clock()))
        self.durable: dict[str, bytes] = {}
        files = SimFileSystem(self.disk, _Alive())  # type: ignore[arg-type]
        files.mkdir("/data")
        files.mkdir("/data/groups")

    def life(self, effects: int = 1_000_000) -> Life:
        return Life(self, effects)

    @property
    def names(self) -> list[str] | None:
        files = SimFileSystem(self.disk, _Alive())  # type: ignore[arg-type]
        return files.listdir(PATH) if files.exists(PATH) else None

    def wipe(self, path: str) -> None:
        files = SimFileSystem(self.disk, _Alive())  # type: ignore[arg-type]
        for name in files.listdir(path):
            if name == "topic-7":
                self.wipe(f"{path}/{name}")
            else:
                files.unlink(f"{path}/{name}")
        files.rmdir(path)
        files.fsync_dir(os.path.dirname(path))


async def crashes_after(machine: Machine, effects: int, act: Callable[[Life], Any]) -> bool:
    """Run `act` in a life of so many effects; whether it was cut short."""
    try:
        await act(machine.life(effects))
    except StorageError:
        return True
    return False


@pytest.mark.parametrize("seed", [None, *range(8)])
def test_a_creation_cut_short_anywhere_is_done_again(seed: int | None) -> None:
    async def scenario() -> int:
        effects = 0
        while True:
            machine = Machine(seed or 0)
            was_cut = await crashes_after(machine, effects, lambda life: life.directories.claim(GROUP))
            if seed is not None:
                machine.disk.lose_power()
            if marker_key(GROUP) in machine.durable:
                assert machine.names == ["replica.id"]
            await machine.life().directories.claim(GROUP)
            # What is claimed stays claimed, whatever a power loss takes.
            assert machine.durable == {marker_key(GROUP): b"created"}
            machine.disk.lose_power()
            await machine.life().take_part()
            if not was_cut:
                return effects
            effects += 1

    assert asyncio.run(scenario()) >= 6


@pytest.mark.parametrize("operation", ["write", "fsync", "fsync_dir"])
@pytest.mark.parametrize("seed", range(8))
def test_a_creation_whose_disk_refused_is_made_durable_before_the_replica_is_known(seed: int, operation: Any) -> None:
    async def scenario() -> None:
        machine = Machine(seed)
        life = machine.life()
        machine.disk.fail_next(operation, path_part=PATH)
        with pytest.raises(LogPoisonedError):
            await life.directories.claim(GROUP)
        assert machine.durable == {}
        await life.directories.claim(GROUP)
        machine.disk.lose_power()
        await machine.life().directories.claim(GROUP)
        assert machine.names == ["replica.id"]

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", [None, *range(8)])
def test_a_removal_cut_short_anywhere_is_finished_and_the_replica_never_returns_without_its_log(
    seed: int | None,
) -> None:
    async def scenario() -> int:
        effects = 0
        while True:
            machine = Machine(seed or 0)
            await machine.life().take_part()
            was_cut = await crashes_after(machine, effects, Life.remove)
            if seed is not None:
                machine.disk.lose_power()
            life = machine.life()
            try:
                await life.directories.claim(GROUP)
            except ReplicaRemovedError:
                assert machine.durable[marker_key(GROUP)] == b"removing"
            else:
                assert machine.names == sorted([*SEGMENTS, "replica.id"]), "not begun: all of it is there"
                assert machine.durable == {marker_key(GROUP): b"created", vote_key(GROUP): b"a vote"}
            assert await life.directories.has_any_of(GROUP)
            await life.remove()
            assert not await life.directories.has_any_of(GROUP)
            await life.store.sync()
            machine.disk.lose_power()
            assert machine.names is None
            assert machine.durable == {}
            if not was_cut:
                return effects
            effects += 1

    assert asyncio.run(scenario()) >= 8


def test_a_disk_that_does_not_tell_what_is_left_of_a_replica_is_an_error_of_storage(monkeypatch) -> None:
    async def scenario() -> None:
        life = Machine().life()

        async def run(pool: Pool, job: Callable[[], Any]) -> Any:
            raise HungWorkersError(errno.EBUSY, "8 reads of the disk hang")

        monkeypatch.setattr(life, "run", run)
        with pytest.raises(LogPoisonedError, match="8 reads of the disk hang"):
            await life.directories.has_any_of(GROUP)

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", [None, *range(8)])
def test_a_filling_cut_short_anywhere_is_noted_later_and_never_forgotten(seed: int | None) -> None:
    async def scenario() -> int:
        effects = 0
        while True:
            machine = Machine(seed or 0)
            was_cut = await crashes_after(machine, effects, Life.fill)
            if seed is not None:
                machine.disk.lose_power()
            marker = machine.durable.get(marker_key(GROUP))
            assert marker == b"filled" or was_cut
            if marker == b"filled":
                assert machine.names == sorted([*SEGMENTS, "replica.id"]), "what was noted was durable before"
            if marker is not None:
                assert await machine.life().directories.claim(GROUP) == (1 if marker == b"filled" else 0)
                await machine.life().directories.mark_filled(GROUP)
                machine.disk.lose_power()
                assert await machine.life().directories.claim(GROUP) == 1
            if not was_cut:
                return effects
            effects += 1

    assert asyncio.run(scenario()) >= 8


def test_what_is_being_removed_or_gone_is_not_noted_as_filled() -> None:
    async def scenario() -> None:
        machine = Machine()
        life = machine.life()
        await life.take_part()
        await life.directories.begin_removal(GROUP)
        await life.directories.mark_filled(GROUP)
        assert machine.durable[marker_key(GROUP)] == b"removing"
        life.store.put(floor_key(GROUP), b"the end of what damage took from the log")
        await life.directories.finish_removal(GROUP)
        await life.directories.mark_filled(GROUP)
        await life.store.sync()
        assert machine.durable == {}

    asyncio.run(scenario())


@pytest.mark.parametrize("place", ["/data/groups", PATH, "replica.id"])
def test_a_known_replica_without_its_log_is_refused_and_nothing_is_made(place: str) -> None:
    async def scenario() -> None:
        machine = Machine()
        await machine.life().take_part()
        before = dict(machine.durable)
        if place == "replica.id":
            SimFileSystem(machine.disk, _Alive()).unlink(f"{PATH}/replica.id")  # type: ignore[arg-type]
        else:
            machine.wipe(place)
        names = machine.names
        for _ in range(2):
            with pytest.raises(MismatchedLogError, match=r"/data/groups/topic-7/replica\.id is missing.*bring"):
                await machine.life().directories.claim(GROUP)
        assert machine.names == names
        assert machine.durable == before

    asyncio.run(scenario())


def test_a_vote_in_a_group_that_was_never_created_here_is_refused() -> None:
    async def scenario() -> None:
        machine = Machine()
        machine.durable[vote_key(GROUP)] = b"a vote"
        with pytest.raises(MismatchedLogError, match="holds a vote in group topic/7"):
            await machine.life().directories.claim(GROUP)
        assert machine.names is None

    asyncio.run(scenario())


def test_a_log_that_the_kvstore_does_not_know_is_refused_and_left_as_it_is() -> None:
    async def scenario() -> None:
        machine = Machine()
        await machine.life().take_part()
        machine.durable.clear()
        with pytest.raises(MismatchedLogError, match=r"holds 00000000000000000001-1\.index, but the kvstore"):
            await machine.life().directories.claim(GROUP)
        assert machine.durable == {}
        assert machine.names == sorted([*SEGMENTS, "replica.id"])

    asyncio.run(scenario())


def test_a_directory_that_is_not_ours_is_neither_claimed_nor_removed() -> None:
    async def scenario() -> None:
        machine = Machine()
        files = SimFileSystem(machine.disk, _Alive())  # type: ignore[arg-type]
        files.mkdir(PATH)
        files.open(f"{PATH}/photo.jpg", create=True).close()
        life = machine.life()
        with pytest.raises(ForeignDirectoryError, match=r"photo\.jpg"):
            await life.directories.claim(GROUP)
        with pytest.raises(ForeignDirectoryError, match=r"photo\.jpg"):
            await life.remove()
        assert machine.names == ["photo.jpg"]

    asyncio.run(scenario())


def test_a_lost_log_of_a_deleted_group_is_forgotten() -> None:
    async def scenario() -> None:
        machine = Machine()
        await machine.life().take_part()
        machine.wipe(PATH)
        life = machine.life()
        await life.remove()
        await life.store.sync()
        assert machine.durable == {}

    asyncio.run(scenario())


def test_a_marker_of_nonsense_is_a_named_error() -> None:
    async def scenario() -> None:
        machine = Machine()
        machine.durable[marker_key(GROUP)] = b"perhaps"
        with pytest.raises(KvStoreError, match=r"raft/topic/7/replica holds b'perhaps'"):
            await machine.life().directories.claim(GROUP)

    asyncio.run(scenario())


# -- a clean stop -----------------------------------------------------------------------------------------------------


async def stop_cleanly(life: Life, last_index: int) -> None:
    await life.directories.mark_clean(GROUP, Index(last_index))


def test_a_clean_stop_is_known_until_the_log_is_opened() -> None:
    async def scenario() -> None:
        machine = Machine()
        await machine.life().fill()
        await stop_cleanly(machine.life(), 42)
        machine.disk.lose_power()
        for _ in range(2):
            # Whoever is refused by what is found is refused again.
            assert await machine.life().directories.claim(GROUP) == 42
        life = machine.life()
        assert await life.directories.claim(GROUP) == 42
        await life.directories.mark_opened(GROUP)
        assert clean_key(GROUP) not in machine.durable, "erased before the replica takes part"
        assert await machine.life().directories.claim(GROUP) == 1
        await machine.life().directories.mark_opened(GROUP)

    asyncio.run(scenario())


@pytest.mark.parametrize("filled", [False, True])
def test_a_clean_stop_knows_a_log_that_is_not_known_to_be_filled(filled: bool) -> None:
    async def scenario() -> None:
        machine = Machine()
        await (machine.life().fill() if filled else machine.life().take_part())
        for last_index in (0, 3):
            await stop_cleanly(machine.life(), last_index)
            life = machine.life()
            assert await life.directories.claim(GROUP) == max(last_index, int(filled))
            assert life.directories.is_filled(GROUP) == filled

    asyncio.run(scenario())


def test_a_clean_stop_cut_short_anywhere_claims_nothing_that_is_not_so() -> None:
    async def scenario() -> None:
        for effects in range(3):
            machine = Machine()
            await machine.life().fill()
            was_cut = await crashes_after(machine, effects, lambda life: stop_cleanly(life, 42))
            assert (clean_key(GROUP) in machine.durable) != was_cut
            # The next life: erased, or the replica does not take part.
            was_cut = await crashes_after(machine, effects, lambda life: life.directories.mark_opened(GROUP))
            assert was_cut or clean_key(GROUP) not in machine.durable

    asyncio.run(scenario())


def test_a_clean_stop_of_a_replica_that_is_removed_or_gone_is_not_noted() -> None:
    async def scenario() -> None:
        machine = Machine()
        life = machine.life()
        await stop_cleanly(life, 7)
        assert machine.durable == {}
        await life.take_part()
        await stop_cleanly(life, 7)
        await life.directories.begin_removal(GROUP)
        await stop_cleanly(life, 8)
        assert machine.durable[clean_key(GROUP)] == b"7"
        await life.directories.finish_removal(GROUP)
        await life.store.sync()
        assert machine.durable == {}

    asyncio.run(scenario())


@pytest.mark.parametrize("value", [b"", b"-1", b"x", b"1.5"])
def test_a_clean_stop_that_cannot_be_read_is_refused_by_name(value: bytes) -> None:
    async def scenario() -> None:
        machine = Machine()
        await machine.life().take_part()
        machine.durable[clean_key(GROUP)] = value
        with pytest.raises(KvStoreError, match=r"topic/7/clean holds .* newer version"):
            await machine.life().directories.claim(GROUP)

    asyncio.run(scenario())
