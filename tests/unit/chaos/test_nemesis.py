"""Who starts a broker again, and whose end is a death; the clusters of runs are in tests/chaos."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from raftka.chaos.history import History
from raftka.chaos.load import Topics
from raftka.chaos.nemesis import Nemesis
from raftka.chaos.schedule import Fault, Schedule

_NO_ROOM = "raftka: kvstore cannot be opened: IO error: No space left on device"


class Brokers:
    """A cluster of one broker on a disk; it ends at once when it is started on a full one."""

    nodes = range(1, 2)
    FILLER = "filler"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.code: int | None = None
        self.said = ""
        self.starts = 0
        self.hangs = False
        self.is_away = False
        self.notices = True
        self.restored: list[tuple[int, int]] = []

    def data_dir(self, node: int) -> Path:
        return self.folder

    def fill(self, path: Path, left_bytes: int) -> int:
        (path / "filler").touch()
        return 1

    def empty(self, path: Path) -> None:
        (path / "filler").unlink(missing_ok=True)

    def kill(self, node: int) -> None:
        self.code = -9

    def start_again(self, node: int) -> None:
        assert self.code is not None, "it runs"
        assert not self.is_away, "it would make a new directory"
        self.starts += 1
        self.code, self.said = (1, _NO_ROOM) if (self.folder / "filler").exists() else (None, "")

    def exit_code(self, node: int) -> int | None:
        return self.code

    def last_line(self, node: int) -> str:
        return self.said

    def resume(self, node: int) -> None:
        pass

    def hang_appends(self, node: int, *, hang: bool) -> None:
        self.hangs = hang

    def limit_descriptors(self, node: int, spare: int) -> tuple[int, int] | None:
        return None if self.code is not None else (1, 100)

    def restore_descriptors(self, node: int, pid: int, soft: int) -> None:
        self.restored.append((pid, soft))

    def is_serving(self, node: int) -> bool:
        return self.code is None

    def take_directory_away(self, node: int) -> None:
        """The broker notices at once, and ends."""
        self.is_away = True
        self.code, self.said = (1, "stopped") if self.notices else (self.code, self.said)

    def bring_directory_back(self, node: int) -> None:
        assert self.is_away
        self.is_away = False

    def has_lost_its_directory(self, node: int, since: int) -> bool:
        return self.notices

    def log_size(self, node: int) -> int:
        return 0

    def has_stopped_replicas(self, node: int, since: int) -> bool:
        return False


class Quiet:
    """A network, and a watch, of which nothing is asked here."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def _run(brokers: Brokers, seed: int, faults: list[Fault], folder: Path) -> tuple[Nemesis, list[str]]:
    with History(folder / "history.jsonl") as history:
        schedule = Schedule(seed, 0.9, faults)
        nemesis = Nemesis(brokers, Quiet(), history, Quiet(), Topics((), 1, 1), schedule)  # type: ignore[arg-type]
        nemesis.run(lambda: False)
    return nemesis, [json.loads(line)["name"] for line in (folder / "history.jsonl").read_text().splitlines()]


@pytest.fixture
def brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Brokers:
    brokers = Brokers(tmp_path)
    monkeypatch.setattr("raftka.chaos.nemesis.small_disks", brokers)
    monkeypatch.setattr("raftka.chaos.nemesis._LEFT_BYTES", (0,))
    return brokers


def test_a_broker_that_finds_no_room_is_started_by_who_makes_it(brokers: Brokers, tmp_path: Path):
    """It could only leave, and says why: nothing that a run could hold against it."""
    faults = [Fault(0.0, 0.6, "disk", "full", "all"), Fault(0.1, 0.1, "kill", "kill", "all")]
    nemesis, names = _run(brokers, 1, faults, tmp_path)
    assert names == ["full", "kill", "kill ends", "no room to start", "full ends", "healed"]
    assert nemesis.deaths == []
    assert (brokers.code, brokers.starts) == (None, 2)


def test_a_broker_that_finds_no_room_and_is_killed_is_started_once(brokers: Brokers, tmp_path: Path):
    faults = [Fault(0.0, 0.4, "disk", "full", "all"), Fault(0.05, 0.05, "kill", "kill", "all")]
    nemesis, names = _run(brokers, 1, [*faults, Fault(0.3, 0.3, "kill", "kill", "all")], tmp_path)
    assert names == ["full", "kill", "kill ends", "no room to start", "kill", "full ends", "kill ends", "healed"]
    assert nemesis.deaths == []
    assert (brokers.code, brokers.starts) == (None, 2)


def test_a_broker_that_runs_on_a_full_disk_must_not_end(
    brokers: Brokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its replicas stop; the process stays. That it names the disk excuses nothing."""
    fill = brokers.fill

    def fill_and_end(path: Path, left_bytes: int) -> int:
        brokers.code, brokers.said = 1, _NO_ROOM
        return fill(path, left_bytes)

    monkeypatch.setattr(brokers, "fill", fill_and_end)
    nemesis, _ = _run(brokers, 1, [Fault(0.0, 0.3, "disk", "full", "all")], tmp_path)
    assert nemesis.deaths == [(1, 1, _NO_ROOM)]
    assert brokers.code is None


def test_a_broker_that_ends_with_room_to_write_is_a_death_with_its_last_words(brokers: Brokers, tmp_path: Path):
    brokers.code, brokers.said = 1, "AssertionError: committed beyond the log"
    nemesis, names = _run(brokers, 1, [], tmp_path)
    assert nemesis.deaths == [(1, 1, "AssertionError: committed beyond the log")]
    assert names == ["ended by itself", "healed"]
    assert (brokers.code, brokers.starts) == (None, 1)


def test_what_was_done_late_leaves_as_much_time_behind_it(
    brokers: Brokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Or a busy machine would leave a run without anything to show that the cluster has recovered."""
    monkeypatch.setattr(brokers, "kill", lambda node: threading.Event().wait(0.7))
    _run(brokers, 1, [Fault(0.1, 0.2, "kill", "kill", "all")], tmp_path)
    at = {
        each["name"]: each["inv"] / 1e9
        for each in map(json.loads, (tmp_path / "history.jsonl").read_text().splitlines())
    }
    assert at["healed"] - at["kill ends"] >= 0.6 - 0.1


def _fault(kind: str, at: float = 0.0, seconds: float = 0.3) -> Fault:
    return Fault(at, seconds, kind.removesuffix("-shortly"), kind, "one")


def test_a_broker_whose_directory_is_away_ends_is_not_started_and_is_no_death(brokers: Brokers, tmp_path: Path):
    nemesis, told = _run(brokers, 1, [_fault("vanish-directory")], tmp_path)
    assert told == ["vanish-directory", "ended without its directory", "vanish-directory ends", "healed"]
    assert (brokers.starts, nemesis.deaths, brokers.is_away) == (1, [], False)


def test_a_kill_that_ends_while_the_directory_is_away_starts_nobody(brokers: Brokers, tmp_path: Path):
    faults = [Fault(0.0, 0.6, "vanish-directory", "vanish-directory", "one"), Fault(0.1, 0.1, "kill", "kill", "one")]
    nemesis, _ = _run(brokers, 1, faults, tmp_path)
    assert (brokers.starts, nemesis.deaths, brokers.code) == (1, [], None)


def test_a_broker_that_ends_for_another_reason_while_its_directory_is_away_is_a_death(brokers: Brokers, tmp_path: Path):
    brokers.has_lost_its_directory = lambda node, since: False  # type: ignore[method-assign]
    nemesis, _ = _run(brokers, 1, [_fault("vanish-directory")], tmp_path)
    assert nemesis.deaths == [(1, 1, "stopped")]


def test_a_broker_that_has_not_looked_lives_on(brokers: Brokers, tmp_path: Path):
    brokers.notices = False
    nemesis, told = _run(brokers, 1, [_fault("vanish-directory")], tmp_path)
    assert told == ["vanish-directory", "vanish-directory ends", "healed"]
    assert (brokers.starts, nemesis.deaths) == (0, [])


@pytest.mark.parametrize("kind", ["hang-append", "hang-append-shortly"])
@pytest.mark.parametrize("seconds", [0.3, 60.0])
def test_hangs_end_also_where_the_run_ends_before(brokers: Brokers, tmp_path: Path, kind: str, seconds: float):
    seen: list[bool] = []
    hang_appends = brokers.hang_appends
    brokers.hang_appends = lambda node, hang: (seen.append(hang), hang_appends(node, hang=hang))[1]  # type: ignore[method-assign]
    _run(brokers, 1, [_fault(kind, seconds=seconds)], tmp_path)
    assert seen[0]
    assert not brokers.hangs


@pytest.mark.parametrize("seconds", [0.3, 60.0])
def test_descriptors_are_given_back_once(brokers: Brokers, tmp_path: Path, seconds: float):
    _run(brokers, 1, [_fault("few-descriptors", seconds=seconds)], tmp_path)
    assert brokers.restored == [(1, 100)]
