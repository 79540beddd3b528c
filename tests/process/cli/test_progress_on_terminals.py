"""How far long work is, as somebody at a terminal sees it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.command_line import raftka
from tests.process.terminals import Terminal, a_newcomers_folder

pytestmark = pytest.mark.process

# A second of reading, of which a bar is drawn ten times.
SENDS = 400_000


@pytest.fixture
def history(tmp_path: Path) -> Path:
    path = tmp_path / "history.jsonl"
    with path.open("w") as file:
        for number in range(SENDS):
            send = {"f": "send", "type": "ok", "proc": 1, "inv": 2 * number, "ret": 2 * number + 1, "tp": "orders-0"}
            file.write(json.dumps(send | {"acks": "all", "val": str(number), "off": number}) + "\n")
        poll = {"f": "poll", "type": "ok", "proc": 2, "inv": 2 * SENDS, "ret": 2 * SENDS + 1, "tp": "orders-0"}
        recs = [[number, str(number)] for number in range(SENDS)]
        file.write(json.dumps(poll | {"recs": recs, "hw": SENDS, "final": True}) + "\n")
    return path


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    with a_newcomers_folder(tmp_path) as folder:
        terminal = Terminal(folder, home=folder)
        try:
            terminal.run("source .venv/bin/activate")
            yield terminal
        finally:
            terminal.close()


def test_a_check_shows_how_much_it_has_read_and_that_it_judges_and_takes_the_line_away(
    terminal: Terminal, history: Path
) -> None:
    terminal.type(f"raftka check {history}")
    terminal.read_until(re.compile(r" *\d+% \[[#.]+\] [\d.]+ MB  [\d.]+ MB/s  \d+ s left"))
    terminal.read_until(re.compile(r"all is read, judging  \d+ s"))
    said = terminal.wait()
    assert said.code == 0
    assert not any("MB" in line or "judging" in line for line in said.lines)
    assert said.lines == raftka("check", str(history)).stdout.splitlines(), "the verdict is what it is without a bar"


def test_nothing_is_drawn_where_there_is_no_terminal(history: Path) -> None:
    assert raftka("check", str(history)).stderr == ""
