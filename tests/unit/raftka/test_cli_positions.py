"""Positions as they are typed, progress as it is shown, and shells that complete."""

import io
import sys
import threading
import time

import click
import pytest

from raftka.cli.exit_codes import CommandError
from raftka.cli.group import _is_chosen, _parse_topic
from raftka.cli.output import print_table
from raftka.cli.positions import Anchor, Position, parse_position
from raftka.cli.progress_bar import ProgressBar, progress_line, underway
from raftka.cli.root import run
from raftka.kafka import groups as kafka_groups
from raftka.kafka.groups import GroupListing

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "anchor", "value"),
    [
        ("start", Anchor.START, 0),
        ("end", Anchor.END, 0),
        ("beginning", Anchor.START, 0),
        ("s@1700000000", Anchor.TIME, 1_700_000_000),
        ("0", Anchor.OFFSET, 0),
        ("47", Anchor.OFFSET, 47),
        ("-3", Anchor.LAST, 3),
        ("-0", Anchor.END, 0),
        ("@0", Anchor.TIME, 0),
        ("@1700000000", Anchor.TIME, 1_700_000_000_000),
        ("@1700000000123", Anchor.TIME, 1_700_000_000_123),
        ("@2023-11-14T22:13:20Z", Anchor.TIME, 1_700_000_000_000),
        ("@2023-11-14T22:13:20", Anchor.TIME, 1_700_000_000_000),
        ("@2023-11-14T23:13:20.5+01:00", Anchor.TIME, 1_700_000_000_500),
        ("@2023-11-14", Anchor.TIME, 1_699_920_000_000),
        ("@-90s", Anchor.TIME, NOW - 90_000),
        ("@-1d2h3m4s5ms", Anchor.TIME, NOW - 93_784_005),
        ("@-999999999d", Anchor.TIME, 0),
    ],
)
def test_a_position_is_understood(text: str, anchor: Anchor, value: int) -> None:
    assert parse_position(text, "--to", NOW) == Position(anchor, value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "middle",
        "-",
        "--1",
        "1.5",
        "1e3",
        "@",
        "@yesterday",
        "@-",
        "@-1",
        "@-1w",
        "9" * 19,
        "@" + "9" * 19,
        "s@",
        "s@x",
    ],
)
def test_what_is_no_position_is_refused_by_the_flags_name(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"^--to "):
        parse_position(text, "--to", NOW)


@pytest.mark.parametrize(
    ("position", "offset"),
    [
        (Position(Anchor.START), 10),
        (Position(Anchor.END), 20),
        (Position(Anchor.LAST, 3), 17),
        (Position(Anchor.LAST, 300), 10),
        (Position(Anchor.OFFSET, 10), 10),
        (Position(Anchor.OFFSET, 20), 20),
    ],
)
def test_a_position_has_an_offset_in_a_partition(position: Position, offset: int) -> None:
    assert position.within(10, 20, ("t", 0)) == offset


def test_an_offset_that_a_partition_does_not_have_is_refused_with_what_it_has() -> None:
    for value in (9, 21):
        with pytest.raises(CommandError, match=f"partition 3 of t has offsets 10 to 19; {value} is out of range"):
            Position(Anchor.OFFSET, value).within(10, 20, ("t", 3))
    with pytest.raises(CommandError, match="is empty, its next offset is 5; 1 is out of range"):
        Position(Anchor.OFFSET, 1).within(5, 5, ("t", 0))


def test_the_nearest_offset_is_taken_where_it_is_noted() -> None:
    notes: list[str] = []
    found = [Position(Anchor.OFFSET, value).near(10, 20, ("t", 3), notes.append) for value in (9, 10, 20, 21)]
    assert found == [10, 10, 20, 20]
    assert notes == [
        "partition 3 of t has offsets 10 to 19; 10 is used instead of 9",
        "partition 3 of t has offsets 10 to 19; 20 is used instead of 21",
    ]
    assert Position(Anchor.LAST, 3).near(10, 20, ("t", 3), notes.append) == 17


def test_topics_of_a_seek_may_name_partitions() -> None:
    assert _parse_topic("t") == ("t", [])
    assert _parse_topic("t:0,12") == ("t", [0, 12])
    for text in (":1", "t:", "t:x", "t:1,"):
        with pytest.raises(click.BadParameter, match="must be TOPIC or TOPIC:0,1"):
            _parse_topic(text)
    assert _is_chosen(("t", 1), "t", [])
    assert _is_chosen(("t", 1), "t", [0, 1])
    assert not _is_chosen(("t", 1), "t", [0])
    assert not _is_chosen(("u", 1), "t", [])


def test_progress_says_how_much_how_fast_and_how_long() -> None:
    shown = progress_line("records", 500, 2_000, 5.0)
    assert shown == " 25% [######..................] 500 records  100/s  15 s left"
    assert progress_line("records", 2_000, 2_000, 5.0).endswith("2,000 records  400/s")
    assert progress_line("bytes", 2_500_000, None, 2.0) == "2.5 MB  1.2 MB/s"
    assert progress_line("records", 0, None, 0.0) == "0 records  0/s"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_is_drawn_on_a_terminal_now_and_then_and_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Terminal())
    with ProgressBar("s", 10) as bar:
        for done in range(5):
            bar.show(done)
        assert sys.stderr.getvalue() == "", "too early to say anything"
        bar._drawn = 0.0
        bar.show(5)
        drawn = sys.stderr.getvalue()
        assert drawn == "\r\x1b[K 50% [############............] 5 of 10 s"
    assert sys.stderr.getvalue() == drawn + "\r\x1b[K"


def test_work_that_cannot_be_measured_says_what_it_is_and_takes_that_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Terminal())
    threads = threading.active_count()
    with underway("joining small files"):
        deadline = time.monotonic() + 60.0
        while not sys.stderr.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert sys.stderr.getvalue().startswith("\r\x1b[Kjoining small files  0 s")
    assert sys.stderr.getvalue().endswith(" s\r\x1b[K")
    assert threading.active_count() == threads


def test_nothing_is_drawn_where_stderr_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with underway("joining small files"):
        assert capsys.readouterr().err == ""
    with ProgressBar("records", 10) as bar:
        bar.show(5)
    assert not bar.is_shown
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_a_script_that_asks_us(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    shown = capsys.readouterr().out
    assert f"_RAFTKA_COMPLETE={shell}_complete" in shown


def test_a_shell_is_told_the_commands(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_RAFTKA_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "raftka group se")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert run([]) == 0
    assert capsys.readouterr().out.split() == ["plain,seek"]


def test_only_names_that_need_no_quotes_are_completed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["plain-1.a", "pl\u00e4in", "p two words", "p$(x)", "p\x1b[2J", "p'", "other"]
    listed = [GroupListing(name, "Empty", is_simple=False) for name in names]
    monkeypatch.setattr(kafka_groups, "list_groups", lambda _: listed)
    monkeypatch.setenv("_RAFTKA_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "raftka group describe p")
    monkeypatch.setenv("COMP_CWORD", "3")
    assert run([]) == 0
    assert capsys.readouterr().out.splitlines() == ["plain,plain-1.a", "plain,pl\u00e4in"]


def test_what_a_terminal_would_obey_is_escaped_in_tables(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["GROUP"], [["a\x1b[2J\n\u00e4 \u202eb"]])
    assert capsys.readouterr().out == "GROUP\na\\x1b[2J\\n\u00e4 \\u202eb\n"


def test_where_no_cluster_answers_nothing_is_completed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_RAFTKA_COMPLETE", "bash_complete")
    monkeypatch.setenv("RAFTKA_BROKERS", "127.0.0.1:1")
    monkeypatch.setenv("COMP_CWORD", "3")
    for words in ("raftka group describe x", "raftka topic describe x"):
        monkeypatch.setenv("COMP_WORDS", words)
        assert run([]) == 0
        assert capsys.readouterr().out.split() == []
