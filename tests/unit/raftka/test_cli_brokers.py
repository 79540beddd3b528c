"""`raftka broker`, without any broker: what it says of what verbs answer."""

from types import SimpleNamespace
from typing import Any

import pytest

from raftka.cli import broker_wait, brokers
from raftka.cli.admin_verbs import VerbRefusedError
from raftka.cli.root import run

LEADS = "3 partitions to get another leader"


@pytest.mark.parametrize("change", ["undrain", "recommission"])
def test_a_broker_that_is_active_again_says_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], change: str
) -> None:
    for waits_for, lines in (("", []), ("broker 2 to join", ["waits for broker 2 to join"])):
        monkeypatch.setattr(brokers, "ask_verb", lambda *_, told=waits_for: {"waits_for": told})
        assert run(["broker", change, "2"]) == 0
        assert capsys.readouterr().out.splitlines() == ["broker 2: is active", *lines]


def test_a_decommission_that_nobody_waits_for_names_the_command_that_waits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting = [{"partition": "orders-0", "why": "a broker"}]
    answer = {"waits_for": "4 replicas to move (3 on the way)", "waiting": waiting}
    monkeypatch.setattr(brokers, "ask_verb", lambda *_: answer)
    assert run(["broker", "decommission", "2", "--no-wait"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "broker 2: is being decommissioned",
        "waits for 4 replicas to move (3 on the way)",
        "orders-0: waits for a broker",
        "next: raftka broker decommission 2 waits until it is empty",
    ]


@pytest.mark.parametrize(
    ("arguments", "waits_for", "lines"),
    [
        (["--no-wait"], LEADS, ["broker 2: is being drained", f"waits for {LEADS}"]),
        (["--no-wait"], "", ["broker 2: is drained"]),
        (["--dry-run"], "", ["broker 2: would be drained", "nothing is changed (--dry-run)"]),
    ],
)
def test_a_drain_that_nobody_waits_for_says_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    waits_for: str,
    lines: list[str],
) -> None:
    def answer(_: str, path: str, document: dict[str, Any]) -> dict[str, Any]:
        assert (path, document) == ("/v1/brokers/2/drain", {"dry_run": "--dry-run" in arguments})
        return {"state": "draining", "waits_for": waits_for, "only_here_count": 0, "only_here": []}

    monkeypatch.setattr(brokers, "ask_verb", answer)
    assert run(["broker", "drain", "2", *arguments]) == 0
    assert capsys.readouterr().out.splitlines() == lines


@pytest.mark.parametrize("option", [[], ["--dry-run"]])
def test_a_replacement_that_leaves_partitions_without_a_majority_is_refused_alike_where_it_is_only_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: list[str]
) -> None:
    def refuse(*_: Any) -> dict[str, Any]:
        waiting = [{"partition": "orders-0", "why": "it had no other replica"}]
        raise VerbRefusedError(
            "1 partition would have no leader", {"error": "WITHOUT_MAJORITY", "without_majority": waiting}
        )

    monkeypatch.setattr(brokers, "ask_verb", refuse)
    assert run(["broker", "replace", "6", *option]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "orders-0 would have no leader: it had no other replica" in said.err
    assert "--accept-waiting goes on all the same" in said.err


@pytest.mark.parametrize("option", [[], ["--dry-run"]])
def test_a_removal_of_a_broker_that_was_never_there_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: list[str]
) -> None:
    def refuse(*_: Any) -> dict[str, Any]:
        raise VerbRefusedError("broker 99 is not in the cluster", {"error": "BROKER_ID_NOT_REGISTERED"})

    monkeypatch.setattr(brokers, "ask_verb", refuse)
    assert run(["broker", "remove", "99", *option]) == 1
    assert capsys.readouterr() == ("", "raftka: broker 99 is not in the cluster\n")


def test_a_replacement_that_was_waited_for_says_that_the_broker_is_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    joining = {"directory_id": "old", "waits_for": "broker 3 to join with an empty data.dir; 2 replicas to move"}
    moving = {"directory_id": "new", "waits_for": "2 replicas to move"}
    done = {"directory_id": "new", "waits_for": ""}
    answers = iter([joining, moving, done, done])
    monkeypatch.setattr(
        brokers, "ask_verb", lambda *_: {"without_majority": [], "directory_id": "old", "waits_for": "much"}
    )
    monkeypatch.setattr(broker_wait, "ask_verb", lambda *_: next(answers))
    monkeypatch.setattr(broker_wait, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _: None))
    assert run(["broker", "replace", "3", "--wait"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "broker 3: data directory old is retired",
        "broker 3: has joined with data directory new, and has its replicas back",
    ]
    assert said.err.splitlines()[1:] == [
        "raftka: broker 3 is to join with an empty data.dir; 2 replicas to move",
        "raftka: broker 3 waits for 2 replicas to move",
    ]
