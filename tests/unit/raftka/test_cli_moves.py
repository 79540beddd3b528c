"""`raftka partition move` and `cancel`, without any broker: what they say of what verbs answer."""

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from raftka.cli import move_wait
from raftka.cli.admin_verbs import VerbRefusedError
from raftka.cli.root import run
from raftka.kafka import client as kafka_client

WAITS = "1 partition to be moved: GET /v1/moves says what each waits for"
SHOWN = "raftka: `raftka partition moves` says what this waits for\n"


def row(error: str | None = None, message: str | None = None) -> dict[str, Any]:
    return {"topic": "orders", "partition": 0, "replicas": [2, 3], "error": error, "message": message}


@pytest.mark.parametrize(
    ("arguments", "waits_for", "out", "err"),
    [
        (["move", "orders/0", "--to", "2,3"], WAITS, "orders/0: moves to 2,3\n", SHOWN),
        (["move", "orders/0", "--to", "2,3"], "", "orders/0: moves to 2,3\n", ""),
        (
            *(["move", "orders/0", "--to", "2,3", "--dry-run"], ""),
            *("orders/0: would move to 2,3\nnothing is changed (--dry-run)\n", ""),
        ),
        (["cancel", "orders/0"], WAITS, "orders/0: goes back to where it was\n", SHOWN),
        (
            *(["cancel", "orders/0", "--dry-run"], ""),
            *("orders/0: would go back to where it was\nnothing is changed (--dry-run)\n", ""),
        ),
    ],
)
def test_a_move_that_nobody_waits_for_names_the_command_that_shows_it(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    arguments: list[str],
    waits_for: str,
    out: str,
    err: str,
) -> None:
    monkeypatch.setattr(move_wait, "ask_verb", lambda *_: {"waits_for": waits_for, "partitions": [row()]})
    assert run(["partition", *arguments]) == 0
    assert capsys.readouterr() == (out, err)


def test_a_partition_that_is_there_already_is_not_said_to_move(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(move_wait, "ask_verb", lambda *_: {"waits_for": "", "partitions": [row() | {"is_there": True}]})
    assert run(["partition", "move", "orders/0", "--to", "2,3"]) == 0
    assert capsys.readouterr() == ("orders/0: is on 2,3 already\n", "")


@pytest.mark.parametrize(("option", "cure"), [([], "; --change-count allows it"), (["--change-count"], "")])
def test_another_number_of_replicas_is_refused_with_the_option_that_allows_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: list[str], cure: str
) -> None:
    def refuse(*_: Any) -> dict[str, Any]:
        name = "INVALID_REPLICATION_FACTOR"
        raise VerbRefusedError("2 are given", {"error": name, "partitions": [row(name, "2 are given")]})

    monkeypatch.setattr(move_wait, "ask_verb", refuse)
    assert run(["partition", "move", "orders/0", "--to", "2,3", *option]) == 1
    said = f"raftka: orders/0: 2 are given (INVALID_REPLICATION_FACTOR){cure}\n"
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize(
    "command",
    [
        ["partition", "move", "orders/0", "--to", "2,3"],
        ["partition", "cancel", "orders/0"],
        ["topic", "alter-replication", "orders", "-r", "2"],
    ],
)
def test_a_move_that_takes_longer_than_its_time_out_is_said_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    moving = {"topic": "orders", "partition": 0, "state": "copying", "waits_for": "nodes [3] catch up"}
    now = itertools.count(0.0, 0.6)

    def answer(_: str, path: str, document: Any = None) -> dict[str, Any]:
        return {"moves": [moving]} if document is None else {"waits_for": WAITS, "partitions": [row()]}

    monkeypatch.setattr(move_wait, "ask_verb", answer)
    # No time passes: each look at the clock is 0.6 s after the one before.
    monkeypatch.setattr(move_wait, "time", SimpleNamespace(monotonic=lambda: next(now), sleep=lambda _: None))
    monkeypatch.setattr(kafka_client, "read_cluster", lambda _: SimpleNamespace(topic=lambda _: [], topics={}))
    assert run([*command, "--wait", "--timeout", "2"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        "raftka: not done within 2 s: 1 to be moved: orders/0 is copying, and waits until nodes [3] catch up; it goes"
        " on, and the same command waits again"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["move", "orders/0", "--to", "2,3"], "orders/0: moves to 2,3, but not before "),
        (["cancel", "orders/0"], "orders/0: goes back to where it was, but not before "),
        (["cancel", "orders/0", "--dry-run"], "orders/0: would go back to where it was, but not before "),
    ],
)
def test_a_move_of_a_group_that_can_decide_nothing_says_until_what_it_waits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    until = "a majority of the voters 2,6,7 answers: brokers 6,7 do not"
    monkeypatch.setattr(
        move_wait, "ask_verb", lambda *_: {"waits_for": WAITS, "partitions": [{**row(), "waits_for": until}]}
    )
    assert run(["partition", *arguments]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"{said}{until}"
