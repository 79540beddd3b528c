"""`raftka broker`, without any broker: what it says of what verbs answer."""

from typing import Any

import pytest

from raftka.cli import brokers
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
