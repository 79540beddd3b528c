"""`raftka partition move` and `cancel`, without any broker: what they say of what verbs answer."""

from typing import Any

import pytest

from raftka.cli import move_wait
from raftka.cli.admin_verbs import VerbRefusedError
from raftka.cli.root import run

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
