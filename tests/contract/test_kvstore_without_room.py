"""A RocksDB that finds no room or no descriptor of its own ends the store, and loses nothing synced (RFC 0002, 8)."""

import asyncio
import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from runtime.environment import Environment, system_environment
from storage.errors import KvStoreError
from storage.rocks_kvstore import RocksKvStore
from tests.small_disks import small_disk

_MIB = 1024 * 1024
_VALUE_BYTES = 60_000
# Twice as many as one memtable of 4 MiB holds: RocksDB opens a WAL and a table on the way.
_PUTS = 140
_OPEN_FILES_MAX = 256


@pytest.fixture
def env() -> Iterator[Environment]:
    env = system_environment()
    yield env
    env.workers.close()


@contextmanager
def _few_descriptors(left: int) -> Iterator[None]:
    """The process has `left` descriptors inside."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as held:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES_MAX, hard))
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        taken: list[int] = []
        try:
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            assert len(taken) > left
        for descriptor in taken[left:]:
            held.callback(os.close, descriptor)
        for descriptor in taken[:left]:
            os.close(descriptor)
        yield


async def _fails(store: RocksKvStore, reason: str) -> None:
    """Put until the store fails: each later call is refused, and the failure was told to whoever ends the process."""
    told: list[KvStoreError] = []
    store.call_on_failure(told.append)
    with pytest.raises(KvStoreError, match=reason):
        _fill(store)
    assert len(told) == 1
    with pytest.raises(KvStoreError, match=reason):
        await store.sync()
    with pytest.raises(KvStoreError, match=reason):
        store.get("vote")


def _fill(store: RocksKvStore) -> None:
    for number in range(_PUTS):
        store.put(f"later-{number}", os.urandom(_VALUE_BYTES))


async def _synced(env: Environment, path: Path) -> RocksKvStore:
    store = await RocksKvStore.open(env, str(path))
    store.put("vote", b"in term 7")
    await store.sync()
    return store


async def _finds_the_vote(env: Environment, path: Path) -> None:
    store = await RocksKvStore.open(env, str(path))
    assert store.get("vote") == b"in term 7"
    await store.close()


@pytest.mark.parametrize("left", [0, 1])
def test_a_store_whose_rocksdb_finds_no_descriptor_fails_and_keeps_what_was_synced(
    env, tmp_path: Path, left: int
) -> None:
    async def scenario() -> None:
        store = await _synced(env, tmp_path / "kvstore")
        with _few_descriptors(left):
            await _fails(store, "Too many open files")
        with pytest.raises(KvStoreError, match="what was synced is kept"):
            await store.close()
        await _finds_the_vote(env, tmp_path / "kvstore")

    asyncio.run(scenario())


def test_a_store_on_a_disk_that_another_program_has_filled_fails_and_keeps_what_was_synced(env, tmp_path: Path) -> None:
    async def scenario(filler: Path) -> None:
        store = await _synced(env, tmp_path / "kvstore")
        await _fails(store, "No space left")
        with pytest.raises(KvStoreError, match="what was synced is kept"):
            await store.close()
        filler.unlink()
        await _finds_the_vote(env, tmp_path / "kvstore")

    with small_disk(tmp_path, 16 * _MIB):
        filler = tmp_path / "filler"
        filler.write_bytes(bytes(14 * _MIB))
        asyncio.run(scenario(filler))
