"""A bounded number of descriptors for any number of files; and what happens where the kernel refuses one."""

import errno
import os
import threading
from pathlib import Path

import pytest

from runtime.files import File, OsFileSystem
from runtime.open_files import OPEN_FILES_MIN, CachedFile, FileGoneError, OpenFiles


class Kernel(OsFileSystem):
    """The machine's file system with `left` descriptors; counts how often a path is opened."""

    def __init__(self) -> None:
        self.left = 10**6
        self.opened: list[str] = []

    def _spend(self) -> None:
        if self.left <= 0:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def open(self, path: str, *, create: bool = False) -> File:
        self._spend()
        file = super().open(path, create=create)
        self.left -= 1
        self.opened.append(path)
        return _Counted(self, file)  # type: ignore[return-value]

    def fsync_dir(self, path: str) -> None:
        self._spend()
        super().fsync_dir(path)


class _Counted:
    def __init__(self, kernel: Kernel, file: File) -> None:
        self._kernel = kernel
        self._file = file

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def close(self) -> None:
        self._kernel.left += 1
        self._file.close()


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


def _files(kernel: Kernel, folder: Path, count: int) -> tuple[OpenFiles, list[CachedFile]]:
    files = OpenFiles(kernel, OPEN_FILES_MIN)
    made = []
    for number in range(count):
        path = folder / str(number)
        path.write_bytes(b"%d" % number)
        made.append(files.cached(str(path)))
    return files, made


def test_no_more_files_are_open_than_the_bound(kernel: Kernel, tmp_path: Path) -> None:
    files, made = _files(kernel, tmp_path, 100)
    for _ in range(2):
        assert [int(file.pread(10, 0)) for file in made] == list(range(100))
        assert files.descriptors.open_count == OPEN_FILES_MIN
    assert kernel.left == 10**6 - OPEN_FILES_MIN


def test_what_was_used_last_stays_open(kernel: Kernel, tmp_path: Path) -> None:
    _, made = _files(kernel, tmp_path, 100)
    for file in made:
        file.pread(1, 0)
        made[0].pread(1, 0)
    assert kernel.opened.count(made[0].path) == 1


def test_a_file_that_will_be_written_again_is_closed_last(kernel: Kernel, tmp_path: Path) -> None:
    files, made = _files(kernel, tmp_path, 100)
    made[0].set_active(True)
    for file in made:
        file.pread(1, 0)
    assert made[0].is_open
    for file in made[1:]:
        file.set_active(True)
        file.pread(1, 0)
    assert not made[0].is_open
    assert files.descriptors.open_count == OPEN_FILES_MIN


def test_a_pinned_file_is_never_closed_and_the_bound_holds_again_afterwards(kernel: Kernel, tmp_path: Path) -> None:
    files, made = _files(kernel, tmp_path, 40)
    handles = [file.pin() for file in made]
    assert files.descriptors.open_count == 40
    assert [file.pin() for file in made] == handles
    for file in made:
        file.unpin()
    assert files.descriptors.open_count == 40
    for file in made:
        file.unpin()
    assert files.descriptors.open_count == OPEN_FILES_MIN


def test_a_pinned_file_that_is_closed_for_good_stays_open_until_it_is_unpinned(kernel: Kernel, tmp_path: Path) -> None:
    files, [file] = _files(kernel, tmp_path, 1)
    handle = file.pin()
    file.close()
    assert handle.pread(1, 0) == b"0"
    file.unpin()
    assert files.descriptors.open_count == 0
    assert kernel.left == 10**6
    with pytest.raises(OSError, match="closed"):
        file.pread(1, 0)


def test_a_removed_file_is_read_while_it_is_open_and_never_opened_again(kernel: Kernel, tmp_path: Path) -> None:
    _, made = _files(kernel, tmp_path, 100)
    first = made[0]
    first.pread(1, 0)
    first.give_up_name()
    os.unlink(first.path)
    assert first.pread(1, 0) == b"0"
    for file in made[1:]:
        file.pread(1, 0)
    Path(first.path).write_bytes(b"of another log")
    with pytest.raises(FileGoneError):
        first.pread(1, 0)
    # It may be unpinned and closed all the same.
    first.close()
    with pytest.raises(FileGoneError):
        first.pread(1, 0)


def test_where_the_kernel_refuses_a_descriptor_idle_files_make_room(kernel: Kernel, tmp_path: Path) -> None:
    files, made = _files(kernel, tmp_path, 100)
    for file in made:
        file.pread(1, 0)
    kernel.left = 0
    files.fsync_dir(str(tmp_path))
    assert files.descriptors.open_count == OPEN_FILES_MIN // 2
    assert files.descriptors.refused == 1
    assert [int(file.pread(10, 0)) for file in made] == list(range(100)), "the others work on with what is left"
    assert kernel.left >= 0
    kernel.left = 10**6
    for _ in range(2):
        assert [int(file.pread(10, 0)) for file in made] == list(range(100))
    assert files.descriptors.open_count == OPEN_FILES_MIN, "the bound comes back"


def test_where_nothing_is_idle_the_refusal_is_told(kernel: Kernel, tmp_path: Path) -> None:
    files, made = _files(kernel, tmp_path, 20)
    for file in made[:19]:
        file.pin()
    kernel.left = 0
    for attempt in (lambda: files.fsync_dir(str(tmp_path)), lambda: made[19].pread(1, 0), lambda: made[19].pin()):
        with pytest.raises(OSError, match="Too many open files"):
            attempt()
    assert files.descriptors.open_count == 19
    kernel.left = 1
    assert made[19].pread(2, 0) == b"19"
    for file in made[:19]:
        file.unpin()
    assert files.descriptors.open_count <= OPEN_FILES_MIN


def test_threads_that_read_the_same_files_never_meet_a_closed_one(kernel: Kernel, tmp_path: Path) -> None:
    files, made = _files(kernel, tmp_path, 3 * OPEN_FILES_MIN)
    wrong: list[object] = []

    def read() -> None:
        try:
            for _ in range(50):
                wrong.extend(number for number, file in enumerate(made) if int(file.pread(10, 0)) != number)
        except OSError as error:
            wrong.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert files.descriptors.open_count == OPEN_FILES_MIN
    for file in made:
        file.close()
    assert files.descriptors.open_count == 0
