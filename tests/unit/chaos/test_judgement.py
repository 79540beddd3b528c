"""What is said of a run: anomalies count always, and what did not happen as it was asked for proves nothing."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from raftka.chaos.history import History
from raftka.chaos.judgement import judge
from raftka.chaos.register_workload import RegisterWorkload
from raftka.chaos.run_facts import Judgement, RunFacts, RunRequest
from raftka.chaos.schedule import Fault, Schedule


@contextmanager
def _history(out: Path) -> Iterator[History]:
    """Make a history of 30 creations, of which each has moved a name of its own."""
    with History(out / "history.jsonl") as history:
        yield history
        process = history.process()
        for number in range(30):
            _cas(history, process, f"name-{number}", out=True)


def _cas(history: History, process: int, key: str, *, out: bool) -> None:
    line = history.begin("cas", process, key=key, **{"in": [None, "there"]})
    history.end(line, "ok", out=out)


def _judged(out: Path, history: History, *nemeses: str, **facts: Any) -> Judgement:
    request = RunRequest(
        out=out,
        brokers=3,
        bootstrap=None,
        workload="register",
        acks="all",
        nemeses=list(nemeses),
        schedule=Schedule(1, 60.0, []),
        rate=200.0,
        command="raftka chaos",
    )
    with RegisterWorkload("127.0.0.1:1", history, 1, 200.0, 1) as workload:
        return judge(request, history, RunFacts(history.began_ns, **facts), workload, {})


def _outcome(out: Path) -> tuple[str, bool]:
    told = json.loads((out / "verdict.json").read_text())
    assert json.loads((out / "summary.json").read_text())["outcome"] == told["outcome"]
    return told["outcome"], told["valid"]


def test_a_whole_run_is_valid(tmp_path: Path):
    with _history(tmp_path) as history:
        pass
    judgement = _judged(tmp_path, history)
    assert judgement.outcome == "valid"
    assert "valid" in judgement.lines
    assert _outcome(tmp_path) == ("valid", True)


def test_an_interrupted_run_is_not_valid_and_says_so_everywhere(tmp_path: Path):
    with _history(tmp_path) as history:
        pass
    judgement = _judged(tmp_path, history, problems=["interrupted after 25 s of 60 s"])
    assert judgement.outcome == "invalid"
    assert judgement.lines[0] == "INVALID RUN: interrupted after 25 s of 60 s"
    assert "valid" not in judgement.lines
    assert "no anomaly" in (tmp_path / "verdict.txt").read_text().splitlines()
    assert _outcome(tmp_path) == ("invalid", False)
    for name in ("verdict.txt", "summary.json", "report.html"):
        assert "interrupted after 25 s of 60 s" in (tmp_path / name).read_text()


def test_anomalies_of_an_interrupted_run_count(tmp_path: Path):
    with _history(tmp_path) as history:
        process = history.process()
        _cas(history, process, "twice", out=True)
        _cas(history, process, "twice", out=True)
    judgement = _judged(tmp_path, history, problems=["interrupted after 25 s of 60 s"])
    assert judgement.outcome == "anomalies"
    assert "<h1>Anomalies</h1>" in (tmp_path / "report.html").read_text()


def test_a_nemesis_that_was_asked_for_and_did_not_happen_is_named(tmp_path: Path):
    with _history(tmp_path) as history:
        history.fault("kill", nodes=[1], nemesis="kill")
        history.fault("kill ends", nodes=[1], nemesis="kill")
        # A storm of transfers in which nobody has handed over.
        history.fault("transfer", nodes=[1, 2, 3], nemesis="transfer")
        history.fault("transferred", nodes=[1], to=2, nemesis="disk")
    judgement = _judged(tmp_path, history, "disk", "kill", "pause", "transfer", ended_ns=history.began_ns)
    absent = [problem.split()[1] for problem in judgement.problems if problem.endswith("did not happen")]
    assert absent == ["disk", "pause", "transfer"]
    assert judgement.outcome == "invalid"
    assert "INVALID RUN: nemesis pause was asked for, and did not happen" in (tmp_path / "verdict.txt").read_text()


def test_what_happened_and_what_was_due_and_did_not_is_told(tmp_path: Path):
    with _history(tmp_path) as history:
        history.fault("kill", nodes=[1], nemesis="kill")
        history.fault("transfer", nodes=[1, 2, 3], nemesis="transfer")
        history.fault("transferred", nodes=[1], to=2, nemesis="transfer")
    undone = [Fault(41.0, 0.0, "disk", "bit-flip", "marked")]
    judgement = _judged(tmp_path, history, "kill", "transfer", ended_ns=history.began_ns, undone=undone)
    assert not any("did not happen" in problem for problem in judgement.problems)
    assert "faults: 1 kill, 1 transfer, 1 transferred" in judgement.lines
    assert "not done: bit-flip (disk), due at 41 s" in judgement.lines
