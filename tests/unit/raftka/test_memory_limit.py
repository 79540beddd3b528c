"""The memory that a process may use: the machine's, or that of the smallest control group around it."""

import os
from pathlib import Path

import pytest

from raftka.broker import memory_limit as module
from raftka.broker.memory_limit import memory_limit, read_cache_bytes

MACHINE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20


def limits(folder: Path, own: str, **found: str) -> int:
    """Ask with /proc/self/cgroup as `own`, and with files of limits by their path, "__" for "/"."""
    (folder / "own").write_text(own)
    for name, text in found.items():
        path = folder / "groups" / name.replace("__", "/").replace("_in_", ".limit_in_").replace("_max", ".max")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return memory_limit(folder / "own", folder / "groups")


def test_without_control_groups_it_is_the_machines(tmp_path):
    assert memory_limit(tmp_path / "none", tmp_path) == MACHINE
    assert limits(tmp_path, "0::/a\n") == MACHINE


@pytest.mark.parametrize(("own", "around", "expected"), [("max", "max", MACHINE), (f"{5 * MIB}", "max", 5 * MIB)])
def test_the_group_of_a_service_counts(tmp_path, own, around, expected):
    assert limits(tmp_path, "0::/system.slice/raftka.service\n", memory_max=around) == MACHINE
    (tmp_path / "groups/system.slice/raftka.service").mkdir(parents=True)
    (tmp_path / "groups/system.slice/raftka.service/memory.max").write_text(own)
    assert memory_limit(tmp_path / "own", tmp_path / "groups") == expected


def test_a_group_around_it_counts_if_it_has_less(tmp_path):
    assert limits(tmp_path, "0::/a/b\n", a__b__memory_max=str(9 * MIB), a__memory_max=str(3 * MIB)) == 3 * MIB


def test_in_a_container_the_root_counts_though_the_path_is_the_hosts(tmp_path):
    assert limits(tmp_path, "0::/../host/path\n", memory_max=str(7 * MIB)) == 7 * MIB


def test_version_1_has_a_file_of_another_name(tmp_path):
    (tmp_path / "groups/memory/docker/x").mkdir(parents=True)
    (tmp_path / "groups/memory/docker/x/memory.limit_in_bytes").write_text(str(8 * MIB))
    assert limits(tmp_path, "9:cpu,memory:/docker/x\n1:name=systemd:/\n") == 8 * MIB


def test_the_read_cache_takes_an_eighth_and_a_gibibyte_at_most(monkeypatch):
    monkeypatch.setattr(module, "memory_limit", lambda: 512 * MIB)
    assert read_cache_bytes(-1) == 64 * MIB
    monkeypatch.setattr(module, "memory_limit", lambda: 64 << 30)
    assert read_cache_bytes(-1) == 1 << 30
    assert [read_cache_bytes(size) for size in (0, 5)] == [0, 5]
