"""Disks that are filled while brokers write."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from raftka.chaos import small_disks

PAGE = 4096


class Disk:
    """A disk of which brokers take so many pages before each attempt to take some of it, until it is full."""

    def __init__(self, pages: int, taken_each_time: int) -> None:
        self.free = pages
        self.attempts = 0
        self._taken_each_time = taken_each_time

    def statvfs(self, _: Path) -> SimpleNamespace:
        return SimpleNamespace(f_bavail=self.free, f_frsize=PAGE)

    def allocate(self, _descriptor: int, _position: int, size: int) -> None:
        self.attempts += 1
        self.free -= min(self.free, self._taken_each_time)
        if size > self.free * PAGE:
            raise OSError(errno.ENOSPC, "no space left on device")
        self.free -= size // PAGE


@pytest.mark.parametrize("taken_each_time", [0, 1, 40, 3_000])
@pytest.mark.parametrize("left", [0, 100])
def test_a_disk_is_full_after_a_few_steps_however_fast_brokers_write(
    taken_each_time: int, left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(200_000, taken_each_time)
    monkeypatch.setattr(os, "statvfs", disk.statvfs)
    monkeypatch.setattr(os, "posix_fallocate", disk.allocate)
    taken = small_disks.fill(tmp_path, left * PAGE)
    assert 0 < taken <= 200_000 * PAGE
    assert disk.free <= left
    assert disk.attempts < 100


def test_of_a_disk_that_is_fuller_than_asked_for_nothing_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(100, 0)
    monkeypatch.setattr(os, "statvfs", disk.statvfs)
    monkeypatch.setattr(os, "posix_fallocate", disk.allocate)
    assert small_disks.fill(tmp_path, 200 * PAGE) == 0
    assert disk.attempts == 0


def test_what_is_wrong_with_a_disk_besides_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: int) -> None:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "posix_fallocate", fail)
    with pytest.raises(OSError, match="input/output"):
        small_disks.fill(tmp_path, 0)
