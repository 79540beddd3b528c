"""Whether the data directory is still the one at its path: what is found, what is not known, and what hangs."""

import asyncio
import errno
import os
import threading

import pytest
from cluster_nodes import Cluster, run, until

from cluster.data_directory import claim_data_directory, lock_data_directory
from cluster.data_directory_watch import DataDirectoryWatch
from model.ids import NodeId, Replica
from runtime.environment import system_environment
from runtime.workers import Pool
from storage.errors import LostDirectoryError
from storage.memory_kvstore import MemoryKvStore


def with_watch(tmp_path, test):
    """Run `test(watch, env, path, lost)` with a claimed directory at `path`; `lost` fills with what was found."""

    async def scenario():
        env, path, lost = system_environment(), str(tmp_path / "data"), []
        lock = lock_data_directory(env, path)
        store = MemoryKvStore(env, {})
        replica = await claim_data_directory(env, path, store, NodeId(1))
        watch = DataDirectoryWatch(env, path, replica, lost.append)
        try:
            await test(watch, env, path, lost)
        finally:
            await watch.stop()
            await store.close()
            env.workers.close()
            lock.release()

    run(scenario)


def test_a_directory_in_its_place_tells_its_free_bytes(tmp_path):
    async def test(watch, env, path, lost):
        assert 0 < await watch.look() <= env.files.total_bytes(path)
        assert lost == []

    with_watch(tmp_path, test)


def _move(path):
    os.rename(path, path + "-away")


def _replace(path):
    _move(path)
    os.mkdir(path)


def _replace_by_file(path):
    _move(path)
    with open(path, "wb"):
        pass


def _forget(path):
    os.unlink(f"{path}/directory.id")


def _damage(path):
    with open(f"{path}/directory.id", "r+b") as file:
        file.write(b"00000000")


def _take_groups(path):
    os.rename(f"{path}/groups", path + "-groups")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            _move,
            "is gone: moved, removed, unmounted or replaced; bring it back, then start this broker again; if it is lost: raftka broker replace 1",
        ),
        (
            _replace,
            "is gone: moved, removed, unmounted or replaced; bring it back, then start this broker again; if it is lost: raftka broker replace 1",
        ),
        (
            _replace_by_file,
            "is gone: moved, removed, unmounted or replaced; bring it back, then start this broker again; if it is lost: raftka broker replace 1",
        ),
        (_forget, "has been replaced: it holds no directory.id; bring it back"),
        (_take_groups, "has lost its folder groups; bring it back"),
        (_damage, "directory.id is damaged: wrong checksum"),
    ],
)
def test_a_directory_that_is_not_where_it_was_is_told_once_and_for_good(tmp_path, change, words):
    async def test(watch, env, path, lost):
        await watch.look()
        change(path)
        for _ in range(3):
            with pytest.raises(LostDirectoryError):
                await watch.look()
        assert len(lost) == 1
        assert words in lost[0]

    with_watch(tmp_path, test)


def test_the_directory_of_another_disk_of_this_node_is_another(tmp_path):
    async def test(watch, env, path, lost):
        other = DataDirectoryWatch(env, path, Replica(NodeId(1), "another"), lost.append)
        with pytest.raises(LostDirectoryError, match=r"another directory\.id, of node 1"):
            await other.look()
        await other.stop()

    with_watch(tmp_path, test)


def test_what_the_disk_does_not_tell_is_not_taken_for_lost(tmp_path, monkeypatch):
    async def test(watch, env, path, lost):
        def refuse(*_):
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as patched:
            patched.setattr(os, "fstat", refuse)
            with pytest.raises(OSError, match="Input/output"):
                await watch.look()
        assert lost == []
        assert await watch.look() > 0

    with_watch(tmp_path, test)


def test_a_look_that_hangs_is_one_and_holds_up_neither_reads_nor_the_stop(tmp_path, monkeypatch):
    async def test(watch, env, path, lost):
        monkeypatch.setattr("cluster.data_directory_watch._LOOK_SECONDS", 0.05)
        hung, begun = threading.Event(), []
        is_in_place = env.files.is_in_place

        def hang():
            begun.append(1)
            hung.wait()
            return is_in_place()

        monkeypatch.setattr(env.files, "is_in_place", hang)
        try:
            found = await asyncio.gather(*(watch.look() for _ in range(20)), return_exceptions=True)
            assert [error.errno for error in found] == [errno.ETIMEDOUT] * 20
            assert await env.workers.run(Pool.READ, lambda: env.files.listdir(path)) == [
                "directory.id",
                "groups",
                "lock",
            ]
            assert len(begun) == 1
        finally:
            hung.set()
        await until(lambda: watch._looking is None)
        monkeypatch.undo()
        assert await watch.look() > 0
        assert lost == []

    with_watch(tmp_path, test)


def test_no_look_is_begun_by_a_broker_that_stops(tmp_path):
    async def test(watch, env, path, lost):
        await watch.stop()
        with pytest.raises(OSError, match="the broker stops"):
            await watch.look()

    with_watch(tmp_path, test)


def test_no_replica_is_made_once_the_directory_has_gone(tmp_path):
    async def test():
        cluster, lost = Cluster(tmp_path, 1), []
        await cluster.start()
        try:
            watch = cluster[1]._directory_watch
            watch._on_lost = lost.append
            away = cluster.data_dir(1) + "-away"
            os.rename(cluster.data_dir(1), away)
            asked = asyncio.ensure_future(cluster.create_topic("t"))
            await until(lambda: cluster[1].backend.failed)
            (why,) = cluster[1].backend.failed.values()
            assert "is gone" in why
            assert len(lost) == 1
            assert not os.path.exists(cluster.data_dir(1))
            assert os.listdir(f"{away}/groups") == ["raft0"]
            asked.cancel()
        finally:
            await cluster.stop()

    run(test)
