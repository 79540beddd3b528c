"""Scripts of the membership nemesis: what they begin they end, and a disk that is needed comes back."""

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftka.chaos.broker_admin import Answer
from raftka.chaos.history import History
from raftka.chaos.load import Topics
from raftka.chaos.membership import Membership
from raftka.chaos.schedule import Fault, draw_schedule

REFUSED = Answer(409, {"message": "a partition would have no leader for ever"})


class Brokers:
    """Four brokers that start and end at once."""

    nodes = (1, 2, 3, 4)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.dead: set[int] = set()
        for node in self.nodes:
            self.data_dir(node).mkdir(parents=True)
            (self.data_dir(node) / "first").touch()

    def data_dir(self, node: int) -> Path:
        return self.folder / f"node-{node}" / "data"

    def kill(self, node: int) -> None:
        self.dead.add(node)

    def start_again(self, node: int) -> None:
        self.dead.remove(node)
        self.data_dir(node).mkdir(exist_ok=True)

    def exit_code(self, node: int) -> int | None:
        return -9 if node in self.dead else None

    def is_serving(self, node: int) -> bool:
        return node not in self.dead

    def log_size(self, node: int) -> int:
        return 0

    def has_said(self, node: int, since: int, words: bytes) -> bool:
        return True


class Admin:
    """Answers each question as it is told to; remembers which it did."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.done: list[str] = []
        self.is_retired = False

    def ask(self, path: str, document: Mapping[str, Any] | None = None, but: tuple[int, ...] = ()) -> Answer:
        verb = path.rpartition("/")[2]
        answer = self.answers.get(verb, Answer(200, {}))
        if answer.is_done:
            self.done.append(verb)
        return answer

    def broker(self, node: int) -> Mapping[str, Any]:
        return {"directory_retired": False, "directory_id": "d", "alive": True, "replicas": 1, "raft0": "voter"}


class Running:
    """A nemesis with all that it works on."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("raftka.chaos.membership._STEP_SECONDS", 0.0)
        monkeypatch.setattr("raftka.chaos.membership._REFUSAL_SECONDS", 0.0)
        self.brokers, self.admin = Brokers(folder), Admin()
        self.history = History(folder / "history.jsonl")
        topics = Topics(("t",), 1, 3)
        self.membership = Membership(self.brokers, self.history, topics, random.Random(1))  # type: ignore[arg-type]
        self.membership._admin = self.admin  # type: ignore[assignment]

    def run(self, kind: str) -> list[str]:
        end = self.membership.begin(kind, 2, Fault(0.0, 1.0, "membership", kind, "one"))
        assert end is not None
        self.membership.step()
        end()
        for _ in range(100):
            self.membership.step()
        assert not self.membership.is_busy
        assert not self.membership.held
        return [fault["name"] for fault in self.history.faults]


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    running = Running(tmp_path, monkeypatch)
    with running.history:
        yield running


def test_a_lost_disk_is_replaced_and_the_old_one_returns_and_goes(running: Running) -> None:
    assert running.run("replace-disk") == ["replace-disk", "disk replaced"]
    data = running.brokers.data_dir(2)
    assert list(data.iterdir()) == []
    (data / "second").touch()
    assert running.run("old-disk-returns")[2:] == ["old-disk-returns", "old disk refused"]
    assert [path.name for path in data.iterdir()] == ["second"]
    assert (running.brokers.dead, running.membership.problems) == (set(), [])


def test_a_disk_whose_directory_is_not_retired_comes_back(running: Running) -> None:
    running.admin.answers["retire-directory"] = REFUSED
    assert running.run("replace-disk") == ["replace-disk", "retirement refused", "kept its disk"]
    assert (running.brokers.data_dir(2) / "first").exists()
    assert running.brokers.dead == set()


@pytest.mark.parametrize(("verb", "back"), [("drain", "undrain"), ("decommission", "recommission")])
def test_what_is_begun_is_taken_back(running: Running, verb: str, back: str) -> None:
    running.run(verb)
    assert running.admin.done == [verb, back]


def test_what_is_refused_is_not_taken_back(running: Running) -> None:
    running.admin.answers["decommission"] = REFUSED
    assert running.run("decommission") == ["decommission refused"]
    assert running.admin.done == []


def test_one_change_at_a_time_and_none_without_what_it_needs(running: Running) -> None:
    fault = Fault(0.0, 1.0, "membership", "drain", "one")
    assert running.membership.begin("old-disk-returns", 1, fault) is None
    assert running.membership.begin("remove", 1, fault) is None
    assert running.membership.begin("drain", 1, fault) is not None
    assert running.membership.begin("drain", 2, fault) is None


@given(st.integers(0, 2**31))
def test_nothing_is_drawn_before_what_it_needs(seed: int) -> None:
    kinds = [fault.kind for fault in draw_schedule(seed, ["membership"], 10, "all").faults]
    for first, then in (("join", "remove"), ("replace-disk", "old-disk-returns")):
        assert all(kinds[:at].count(first) > kinds[:at].count(then) for at, kind in enumerate(kinds) if kind == then)
