"""What every FileSystem does; and what only the simulated one can show: what a power loss leaves."""

import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.files import FileSystem, OsFileSystem
from tests.simulation.world.sim_disk import ObservedFile, SimDisk, SimFile, SimFileSystem
from tests.simulation.world.world import SimNode, World


@pytest.fixture
def node() -> Iterator[SimNode]:
    with World(7) as world:
        yield world.add_node(1)


@pytest.fixture(params=["os", "sim"])
def files(request: pytest.FixtureRequest, node: SimNode) -> FileSystem:
    return OsFileSystem() if request.param == "os" else node.environment.files


@pytest.fixture
def root(tmp_path: Path, files: FileSystem) -> str:
    path = ""
    for name in f"{tmp_path}/a/b".split("/")[1:]:
        path += f"/{name}"
        files.mkdir(path)
    return path


def test_written_bytes_are_read_back(files: FileSystem, root: str) -> None:
    file = files.open(f"{root}/f", create=True)
    file.pwritev([b"hello ", bytearray(b"wor"), memoryview(b"ld")], 0)
    file.pwritev([b"W"], 6)
    file.fsync()
    assert file.pread(100, 0) == b"hello World"
    assert file.pread(3, 9) == b"ld"
    assert file.pread(3, 11) == b""
    assert file.size() == 11
    file.close()
    again = files.open(f"{root}/f")
    assert again.pread(5, 0) == b"hello"
    again.close()


def test_a_socket_gets_bytes_of_the_file_as_far_as_it_takes_them(files: FileSystem, root: str) -> None:
    file = files.open(f"{root}/f", create=True)
    written = bytes(number % 251 for number in range(3_000_000))
    file.pwritev([written], 0)
    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        assert file.send(here.fileno(), 10, 5) == 10
        assert there.recv(100) == written[5:15]
        assert file.send(here.fileno(), 10, len(written)) == 0
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while sent < len(written):
                sent += file.send(here.fileno(), len(written) - sent, sent)
        assert 0 < sent < len(written)
        received = b""
        while len(received) < sent:
            received += there.recv(1 << 20)
        assert received == written[:sent]
    file.close()


def test_bytes_that_are_not_in_the_page_cache_do_not_count_as_cached(files: FileSystem, root: str) -> None:
    file = files.open(f"{root}/f", create=True)
    file.pwritev([bytes(40_000)], 0)
    file.fsync()
    if isinstance(files, OsFileSystem) and file.is_cached(40_000, 0):
        # What the machine knows it tells of any part.
        assert all(file.is_cached(size, position) for size, position in ((1, 0), (1, 39_999), (10_000, 5_000)))
        with open(f"{root}/f", "rb") as other:
            os.posix_fadvise(other.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert not file.is_cached(40_000, 0)
    assert not file.is_cached(0, 0)
    file.close()


def test_more_buffers_than_one_call_takes_are_all_written(files: FileSystem, root: str) -> None:
    file = files.open(f"{root}/f", create=True)
    file.pwritev([bytes([i % 256]) for i in range(3000)], 0)
    assert file.pread(4000, 0) == bytes(i % 256 for i in range(3000))
    file.close()


def test_an_append_may_make_the_file_longer_by_zeros_which_truncate_takes_back(files: FileSystem, root: str) -> None:
    file = files.open(f"{root}/f", create=True)
    end = 0
    for size in (1, 100, 5000, 40_000, 200_000, 3):
        file.append([b"x" * (size - 1), b"y"], end)
        end += size
        behind = file.pread(file.size(), end)
        assert behind == bytes(file.size() - end)
        assert file.pread(size, end - size) == b"x" * (size - 1) + b"y"
    assert file.size() <= end + 256 * 1024
    file.truncate(end)
    assert file.size() == end
    file.append([b"z"], end)
    assert file.pread(2, end - 1) == b"yz"
    file.close()


def test_a_hole_and_an_extension_read_as_zeros(files: FileSystem, root: str) -> None:
    file = files.open(f"{root}/f", create=True)
    file.pwritev([b"x"], 4)
    assert file.pread(10, 0) == b"\0\0\0\0x"
    file.truncate(2)
    file.truncate(6)
    assert file.pread(10, 0) == bytes(6)
    file.close()


def test_a_closed_file_is_refused(files: FileSystem, root: str, request: pytest.FixtureRequest) -> None:
    file = files.open(f"{root}/f", create=True)
    file.close()
    with pytest.raises(OSError) as caught:
        file.size()
    assert caught.value.errno == errno.EBADF


def test_create_is_exclusive_and_open_needs_the_file(files: FileSystem, root: str) -> None:
    with pytest.raises(FileNotFoundError):
        files.open(f"{root}/f")
    files.open(f"{root}/f", create=True).close()
    with pytest.raises(FileExistsError):
        files.open(f"{root}/f", create=True)
    with pytest.raises(FileNotFoundError):
        files.open(f"{root}/nowhere/f", create=True)
    with pytest.raises(IsADirectoryError):
        files.open(root)
    with pytest.raises(NotADirectoryError):
        files.open(f"{root}/f/below", create=True)


def test_names_are_listed_sorted_renamed_and_removed(files: FileSystem, root: str) -> None:
    for name in ("c", "a", "b"):
        file = files.open(f"{root}/{name}", create=True)
        file.pwritev([name.encode()], 0)
        file.close()
    assert files.listdir(root) == ["a", "b", "c"]
    files.rename(f"{root}/a", f"{root}/b")
    files.unlink(f"{root}/c")
    files.fsync_dir(root)
    assert files.listdir(root) == ["b"]
    assert not files.exists(f"{root}/a")
    assert files.exists(f"{root}/b")
    file = files.open(f"{root}/b")
    assert file.pread(9, 0) == b"a"
    file.close()
    with pytest.raises(FileNotFoundError):
        files.rename(f"{root}/a", f"{root}/x")
    with pytest.raises(FileNotFoundError):
        files.unlink(f"{root}/a")


def test_an_unlinked_file_stays_readable_while_open(files: FileSystem, root: str) -> None:
    file = files.open(f"{root}/f", create=True)
    file.pwritev([b"still"], 0)
    files.unlink(f"{root}/f")
    assert file.pread(9, 0) == b"still"
    file.close()


def test_a_directory_needs_its_parent_may_be_there_already_and_goes_when_empty(files: FileSystem, root: str) -> None:
    with pytest.raises(FileNotFoundError):
        files.mkdir(f"{root}/x/y")
    assert not files.exists(f"{root}/x")
    files.mkdir(f"{root}/x")
    files.mkdir(f"{root}/x/y")
    files.mkdir(f"{root}/x/y")
    files.open(f"{root}/f", create=True).close()
    with pytest.raises(FileExistsError):
        files.mkdir(f"{root}/f")
    with pytest.raises(NotADirectoryError):
        files.mkdir(f"{root}/f/below")
    with pytest.raises(OSError) as caught:
        files.rmdir(f"{root}/x")
    assert caught.value.errno == errno.ENOTEMPTY
    files.rmdir(f"{root}/x/y")
    assert files.listdir(f"{root}/x") == []
    with pytest.raises(FileNotFoundError):
        files.listdir(f"{root}/x/y")


def _moved(files: FileSystem, source: str, target: str) -> None:
    """What somebody else does to a directory behind the back of the process."""
    if isinstance(files, SimFileSystem):
        files.disk.move(source, target)
    else:
        Path(source).rename(target)


def _use(files: FileSystem, root: str) -> None:
    """Every call, below the held directory `root`, which has a directory `kept`."""
    files.mkdir(f"{root}/new")
    file = files.open(f"{root}/new/a", create=True)
    file.pwritev([b"held"], 0)
    file.close()
    files.rename(f"{root}/new/a", f"{root}/kept/b")
    files.fsync_dir(f"{root}/kept")
    files.fsync_dir(root)
    assert files.exists(f"{root}/kept/b")
    assert files.listdir(f"{root}/kept") == ["b"]
    assert files.listdir(root) == ["kept", "new"]
    files.lock(f"{root}/lock").release()
    files.unlink(f"{root}/lock")
    files.rmdir(f"{root}/new")
    assert 0 < files.free_bytes(root) <= files.total_bytes(root)


def test_what_is_done_below_a_held_directory_follows_it_and_touches_no_other(files: FileSystem, root: str) -> None:
    files.mkdir(f"{root}/data")
    files.mkdir(f"{root}/data/kept")
    files.hold(f"{root}/data/")
    assert files.is_in_place()
    _moved(files, f"{root}/data", f"{root}/away")
    assert not files.is_in_place()
    _use(files, f"{root}/data")
    assert files.listdir(root) == ["away"]
    assert files.listdir(f"{root}/away/kept") == ["b"]
    # Another one takes its name. Its neighbours are no part of it, whatever they are called.
    files.unlink(f"{root}/data/kept/b")
    files.mkdir(f"{root}/data-of-another")
    _moved(files, f"{root}/data-of-another", f"{root}/data")
    assert not files.is_in_place()
    _use(files, f"{root}/data")
    files.let_go()
    assert files.listdir(f"{root}/data") == []
    assert files.listdir(f"{root}/away") == ["kept"]


def test_a_held_directory_that_is_back_is_in_place_again(files: FileSystem, root: str) -> None:
    files.mkdir(f"{root}/data")
    files.hold(f"{root}/data")
    _moved(files, f"{root}/data", f"{root}/away")
    assert not files.is_in_place()
    _moved(files, f"{root}/away", f"{root}/data")
    assert files.is_in_place()
    files.let_go()


def test_only_a_directory_that_is_there_can_be_held(files: FileSystem, root: str) -> None:
    with pytest.raises(FileNotFoundError):
        files.hold(f"{root}/nowhere")
    files.open(f"{root}/f", create=True).close()
    with pytest.raises(NotADirectoryError):
        files.hold(f"{root}/f")


def test_what_is_made_is_for_its_owner_alone(tmp_path: Path) -> None:
    files, root = OsFileSystem(), str(tmp_path / "data")
    files.mkdir(root)
    files.open(f"{root}/f", create=True).close()
    files.lock(f"{root}/lock").release()
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("data", "data/f", "data/lock")] == [
        0o700,
        0o600,
        0o600,
    ]


def test_a_lock_has_one_holder(files: FileSystem, root: str) -> None:
    lock = files.lock(f"{root}/lock")
    with pytest.raises(BlockingIOError):
        files.lock(f"{root}/lock")
    lock.release()
    files.lock(f"{root}/lock").release()


def test_there_are_free_bytes_and_not_more_than_the_disk_has(files: FileSystem, root: str) -> None:
    assert 0 < files.free_bytes(root) <= files.total_bytes(root)


# The simulated disk only.


def _written(node: SimNode, *, name_durable: bool = True) -> None:
    files = node.environment.files
    files.mkdir("/d")
    file = files.open("/d/f", create=True)
    if name_durable:
        files.fsync_dir("/d")
    file.pwritev([b"A" * 1000], 0)
    file.fsync()
    file.pwritev([b"B" * 3000], 1000)


def _read(node: SimNode) -> bytes | None:
    files = node.environment.files
    if not files.exists("/d/f"):
        return None
    file = files.open("/d/f")
    return file.pread(1 << 20, 0)


def _after_crash(seed: int, *, power_loss: bool, name_durable: bool = True) -> bytes | None:
    with World(seed) as world:
        node = world.add_node(1)
        _written(node, name_durable=name_durable)
        node.crash(power_loss=power_loss)
        node.restart()
        return _read(node)


def test_a_killed_process_loses_no_written_byte() -> None:
    assert _after_crash(1, power_loss=False, name_durable=False) == b"A" * 1000 + b"B" * 3000


def test_a_power_loss_keeps_fsynced_bytes_and_loses_or_tears_the_rest_at_sectors() -> None:
    left = [_after_crash(seed, power_loss=True) for seed in range(60)]
    lengths = set()
    for data in left:
        assert data is not None
        assert data[:1000] == b"A" * 1000
        tail = data[1000:]
        kept = tail.count(b"B")
        assert tail == b"B" * kept + bytes(len(tail) - kept)
        assert kept in (0, 3000) or (1000 + kept) % 512 == 0
        lengths.add(len(data))
    assert {1000, 4000} < lengths


def test_a_name_that_was_not_fsynced_may_be_lost() -> None:
    left = [_after_crash(seed, power_loss=True, name_durable=False) for seed in range(20)]
    assert None in left
    assert any(left)


def test_directory_changes_survive_in_any_subset() -> None:
    seen = set()
    for seed in range(200):
        with World(seed) as world:
            node = world.add_node(1)
            files = node.environment.files
            files.mkdir("/d")
            files.open("/d/1", create=True)
            files.rename("/d/1", "/d/2")
            files.open("/d/3", create=True)
            files.unlink("/d/2")
            node.crash(power_loss=True)
            node.restart()
            seen.add(tuple(node.environment.files.listdir("/d")))
    # Created, renamed, created, unlinked; without the rename "1" stays.
    assert seen == {(), ("1",), ("2",), ("2", "3"), ("3",), ("1", "3")}


def test_what_a_failed_fsync_left_behind_is_readable_and_never_durable(node: SimNode) -> None:
    _written(node)
    file = node.environment.files.open("/d/f")
    node.disk.fail_next("fsync")
    with pytest.raises(OSError) as caught:
        file.fsync()
    assert caught.value.errno == errno.EIO
    file.fsync()
    assert _read(node) == b"A" * 1000 + b"B" * 3000
    assert node.disk.durable_bytes("/d/f") == b"A" * 1000
    node.crash(power_loss=True)
    node.restart()
    assert _read(node) == b"A" * 1000


def test_a_full_disk_takes_a_prefix_and_says_so(node: SimNode) -> None:
    _written(node)
    files = node.environment.files
    node.disk.capacity = 4100
    assert files.free_bytes("/d") == 100
    file = files.open("/d/f")
    with pytest.raises(OSError) as caught:
        file.pwritev([b"C" * 300], 4000)
    assert caught.value.errno == errno.ENOSPC
    assert file.size() == 4100
    file.pwritev([b"D" * 300], 0)
    file.truncate(4000)
    assert files.free_bytes("/d") == 100
    files.unlink("/d/f")
    assert files.free_bytes("/d") == 4100


def test_errors_can_be_aimed_at_a_path_or_drawn(node: SimNode) -> None:
    _written(node)
    file = node.environment.files.open("/d/f")
    node.disk.fail_next("write", path_part="other")
    file.pwritev([b"x"], 0)
    node.disk.probability["write"] = 1.0
    with pytest.raises(OSError):
        file.pwritev([b"y"], 0)
    assert file.pread(1, 0) == b"x"
    node.disk.clear_faults()
    file.pwritev([b"y"], 0)


def test_a_dead_process_writes_nothing_and_holds_no_lock(node: SimNode) -> None:
    _written(node)
    files = node.environment.files
    file = files.open("/d/f")
    files.lock("/d/lock")
    node.crash(power_loss=False)
    with pytest.raises(OSError):
        file.pwritev([b"ghost"], 0)
    with pytest.raises(OSError):
        files.unlink("/d/f")
    node.restart()
    assert _read(node) == b"A" * 1000 + b"B" * 3000
    node.environment.files.lock("/d/lock")


def test_a_disk_has_no_use_for_an_unknown_name() -> None:
    with World(1) as world:
        disk: SimDisk = world.add_node(1).disk
        assert disk.durable_bytes("/nowhere/f") is None


def test_an_observer_reads_past_faults_and_draws_none(node: SimNode) -> None:
    _written(node)
    file = node.environment.files.open("/d/f")
    assert isinstance(file, SimFile)
    written = file.pread(100, 0)
    node.disk.probability["read"] = 1.0
    before = node.disk.rng.getstate()
    inode = node.disk.inode("/d/f")
    assert inode is not None
    assert ObservedFile(inode).pread(100, 0) == written
    assert node.disk.rng.getstate() == before
    with pytest.raises(OSError):
        file.pread(100, 0)
