"""The identity of a disk: drawn once, in two places, and never guessed."""

import asyncio
import os

import crc32c
import pytest
from cluster_nodes import run

from cluster.data_directory import claim_data_directory, lock_data_directory
from cluster.errors import PermanentStartupError, StartupError
from model.ids import NodeId
from runtime.environment import system_environment
from storage.memory_kvstore import MemoryKvStore


class Disk:
    """A data directory with its kvstore's durable content; every claim is a new process."""

    def __init__(self, path):
        self.path = str(path)
        self.durable = {}

    @property
    def identity_file(self):
        return f"{self.path}/directory.id"

    async def claim(self, node=1):
        env = system_environment()
        store = MemoryKvStore(env, self.durable)
        try:
            return await claim_data_directory(env, self.path, store, NodeId(node))
        finally:
            await store.close()
            env.workers.close()


def with_disk(path, test):
    disk = Disk(path)
    run(lambda: test(disk))


def test_a_new_directory_draws_an_id_and_keeps_it(tmp_path):
    async def test(disk):
        first = await disk.claim()
        assert first.node_id == 1
        assert len(first.directory_id) == 32
        int(first.directory_id, 16)
        assert await disk.claim() == first
        assert sorted(os.listdir(disk.path)) == ["directory.id", "groups"]

    with_disk(tmp_path, test)


def test_two_directories_draw_different_ids(tmp_path):
    async def test(disk):
        other = Disk(tmp_path / "other")
        os.mkdir(other.path)
        assert (await disk.claim()).directory_id != (await other.claim()).directory_id

    with_disk(tmp_path, test)


def test_a_directory_that_is_missing_is_not_made_where_that_is_forbidden(tmp_path):
    async def test():
        env = system_environment()
        path = f"{tmp_path}/data"
        try:
            with pytest.raises(
                PermanentStartupError, match=r"does not exist, and data\.dir\.create is false: mount its"
            ):
                lock_data_directory(env, path, create=False)
            assert not os.path.exists(path)
            os.mkdir(path)
            lock_data_directory(env, path, create=False).release()
        finally:
            env.workers.close()

    asyncio.run(test())


def test_another_nodes_directory_is_refused(tmp_path):
    async def test(disk):
        await disk.claim(1)
        with pytest.raises(StartupError, match=r"belongs to node 1, but node\.id is 2"):
            await disk.claim(2)
        assert (await disk.claim(1)).node_id == 1

    with_disk(tmp_path, test)


def test_a_missing_kvstore_is_refused(tmp_path):
    async def test(disk):
        await disk.claim()
        disk.durable.clear()
        with pytest.raises(
            StartupError, match=r"its kvstore is missing.*bring the whole data directory back.*raftka broker replace 1"
        ):
            await disk.claim()
        assert disk.durable == {}

    with_disk(tmp_path, test)


def test_a_missing_file_is_refused_once_the_node_has_voted(tmp_path):
    async def test(disk):
        await disk.claim()
        disk.durable["raft/raft0"] = b"a vote"
        os.unlink(disk.identity_file)
        with pytest.raises(StartupError, match="its identity file is missing"):
            await disk.claim()
        assert not os.path.exists(disk.identity_file)

    with_disk(tmp_path, test)


def test_logs_without_file_and_kvstore_are_refused(tmp_path):
    async def test(disk):
        os.makedirs(f"{disk.path}/groups/raft0")
        with pytest.raises(StartupError, match="but it holds logs; bring the whole data directory back"):
            await disk.claim()
        assert os.listdir(disk.path) == ["groups"]
        assert disk.durable == {}

    with_disk(tmp_path, test)


def test_a_crash_between_kvstore_and_file_is_completed_with_the_same_id(tmp_path):
    async def test(disk):
        first = await disk.claim()
        os.unlink(disk.identity_file)
        assert await disk.claim() == first
        assert os.path.exists(disk.identity_file)

    with_disk(tmp_path, test)


def test_what_a_crash_left_of_a_temporary_file_does_not_matter(tmp_path):
    async def test(disk):
        with open(f"{disk.identity_file}.tmp", "wb") as file:
            file.write(b"half of a rec")
        await disk.claim()
        assert sorted(os.listdir(disk.path)) == ["directory.id", "groups"]

    with_disk(tmp_path, test)


def test_the_kvstore_of_another_directory_is_refused(tmp_path):
    async def test(disk):
        other = Disk(tmp_path / "other")
        os.mkdir(other.path)
        await disk.claim()
        await other.claim()
        disk.durable = other.durable
        with pytest.raises(StartupError, match="its kvstore belongs to another directory"):
            await disk.claim()

    with_disk(tmp_path, test)


@pytest.mark.parametrize("position", [0, 3, 12, 40, -2])
def test_a_flipped_bit_in_the_file_is_refused(tmp_path, position):
    async def test(disk):
        await disk.claim()
        with open(disk.identity_file, "r+b") as file:
            content = bytearray(file.read())
            content[position] ^= 0x01
            file.seek(0)
            file.write(content)
        with pytest.raises(StartupError, match="is damaged"):
            await disk.claim()

    with_disk(tmp_path, test)


@pytest.mark.parametrize("body", [b"", b"nonsense", b"{}", b'{"node_id": "one"}', b"\xff\xfe"])
def test_a_file_that_is_no_record_is_refused_even_with_a_right_checksum(tmp_path, body):
    async def test(disk):
        await disk.claim()
        with open(disk.identity_file, "wb") as file:
            file.write(f"{crc32c.crc32c(body):08x} ".encode() + body + b"\n")
        with pytest.raises(StartupError, match="is damaged"):
            await disk.claim()

    with_disk(tmp_path, test)


@pytest.mark.parametrize("content", [b"", b"\n", b"00000000", b"zzzzzzzz {}", bytes(100)])
def test_a_file_of_nonsense_is_refused(tmp_path, content):
    async def test(disk):
        await disk.claim()
        with open(disk.identity_file, "wb") as file:
            file.write(content)
        with pytest.raises(StartupError, match="is damaged"):
            await disk.claim()

    with_disk(tmp_path, test)


def test_a_damaged_record_in_the_kvstore_is_refused(tmp_path):
    async def test(disk):
        await disk.claim()
        disk.durable["node/directory"] = b"nonsense"
        with pytest.raises(StartupError, match="kvstore"):
            await disk.claim()

    with_disk(tmp_path, test)


def test_another_format_is_refused(tmp_path):
    async def test(disk):
        await disk.claim()
        body = disk.durable["node/directory"].replace(b'"format_version":1', b'"format_version":4')
        disk.durable["node/directory"] = body
        with open(disk.identity_file, "wb") as file:
            file.write(f"{crc32c.crc32c(body):08x} ".encode() + body + b"\n")
        with pytest.raises(StartupError, match="has format 4, this version reads 1 to 3: start the newer version"):
            await disk.claim()

    with_disk(tmp_path, test)


def test_a_format_with_levels_that_it_does_not_have_is_refused(tmp_path):
    async def test(disk):
        await disk.claim()
        body = disk.durable["node/directory"].replace(b'"format_version":1', b'"format_version":3')
        disk.durable["node/directory"] = body
        with open(disk.identity_file, "wb") as file:
            file.write(f"{crc32c.crc32c(body):08x} ".encode() + body + b"\n")
        with pytest.raises(StartupError, match="has format 3 and the levels of another format"):
            await disk.claim()

    with_disk(tmp_path, test)


def test_the_lock_is_held_by_one(tmp_path):
    env, path = system_environment(), str(tmp_path / "data")
    lock = lock_data_directory(env, path)
    for _ in range(2):
        with pytest.raises(StartupError, match="in use by another broker process"):
            lock_data_directory(system_environment(), path)
    lock.release()
    lock_data_directory(env, path).release()


def test_the_directory_above_is_not_made_it_may_be_a_disk_that_is_not_mounted(tmp_path):
    with pytest.raises(StartupError, match=r"the directory above it does not exist; mount its disk, or make it"):
        lock_data_directory(system_environment(), str(tmp_path / "disk" / "data"))
    assert os.listdir(tmp_path) == []


def test_a_folder_of_other_things_is_refused_and_nothing_is_made_in_it(tmp_path):
    env = system_environment()
    for name in "dcba":
        (tmp_path / name).touch()
    with pytest.raises(StartupError, match=r"holds 'a', 'b', 'c' and more and no directory\.id: it is not a data"):
        lock_data_directory(env, str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c", "d"]


def test_what_a_first_start_or_the_file_system_left_is_no_hindrance(tmp_path):
    env = system_environment()
    for name in ("kvstore", "groups", "lost+found"):
        (tmp_path / name).mkdir()
    lock_data_directory(env, str(tmp_path)).release()
    (tmp_path / "directory.id").touch()
    (tmp_path / "notes.txt").touch()
    lock_data_directory(env, str(tmp_path)).release()


def test_a_directory_that_cannot_be_made_is_a_named_error(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StartupError, match="cannot use data directory"):
        lock_data_directory(system_environment(), str(tmp_path / "file" / "data"))
