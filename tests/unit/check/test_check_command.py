"""`raftka check`: exit codes 0, 1 and 2, and what it prints."""

import json
import os

import pytest

from raftka.cli.root import run

SEND = {"f": "send", "type": "ok", "proc": 1, "inv": 1, "ret": 2, "tp": "t-0", "acks": "all", "val": "a", "off": 0}
FINAL = {"f": "poll", "type": "ok", "proc": 2, "inv": 3, "ret": 4, "tp": "t-0", "recs": [[0, "a"]], "final": True}
WRITE = {"f": "write", "type": "ok", "proc": 1, "inv": 1, "ret": 2, "key": "x", "in": 1}
READ = {"f": "read", "type": "ok", "proc": 1, "inv": 3, "ret": 4, "key": "x", "out": 1}
CAS = {"f": "cas", "type": "ok", "proc": 1, "inv": 5, "ret": 6, "key": "x", "in": [1, 2], "out": True}


@pytest.fixture
def checked(tmp_path, capsys):
    def check(lines, *options):
        path = tmp_path / "history"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        code = run(["check", str(path), *options])
        told = capsys.readouterr()
        return code, told.out, told.err

    return check


def test_a_valid_history_is_0(checked):
    code, out, _ = checked([SEND, FINAL])
    assert code == 0
    assert out.startswith("valid\n2 operations judged (log)\n")


def test_anomalies_are_1_with_the_operations_that_prove_them(checked):
    code, out, _ = checked([SEND, FINAL | {"recs": []}])
    assert code == 1
    assert out.startswith("NOT VALID: 1 unseen\n1 operations judged (log)\n")
    assert "unseen: 1 case\n  t-0: 'a' was acknowledged at offset 0 (quorum_ack) and is never read\n" in out
    assert '/history:1: {"f": "send", "type": "ok", "proc": 1' in out
    assert "the end of the log was cut off" not in out
    explained = " ".join(checked([SEND, FINAL | {"recs": []}], "--explain")[1].split())
    assert "the end of the log was cut off" in explained
    assert "acked 1 of these, acknowledged" in explained


def test_what_cannot_be_judged_is_2(checked, tmp_path):
    code, out, error = checked([SEND])
    assert (code, out) == (2, "")
    assert error.startswith("raftka: cannot be judged: no final read of t-0")
    assert run(["check", str(tmp_path / "none")]) == 2


def test_a_file_that_is_not_there_is_named(checked, tmp_path, capsys):
    assert run(["check", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err == f"raftka: cannot be judged: {tmp_path}/none: No such file or directory\n"


def test_a_pipe_is_said_to_be_one(capsys):
    reader, writer = os.pipe()
    os.close(writer)
    with os.fdopen(reader):
        assert run(["check", f"/dev/fd/{reader}"]) == 2
    assert "a history must be a seekable file, and this is a pipe" in capsys.readouterr().err


def test_json_is_for_programs(checked):
    code, out, _ = checked([SEND, FINAL | {"recs": []}], "--format", "json")
    document = json.loads(out)
    assert code == 1
    assert not document["valid"]
    assert document["findings"][0]["name"] == "unseen"
    assert document["findings"][0]["examples"][0]["operations"][0]["line"] == 1


def test_json_also_says_why_nothing_can_be_judged(checked):
    code, out, error = checked([SEND], "--format", "json")
    document = json.loads(out)
    assert code == 2
    assert document["valid"] is None
    assert document["unjudged"][0].startswith("no final read of t-0")
    assert error.startswith("raftka: cannot be judged: no final read of t-0")


CLEAR_SCREEN = "\x1b[2J\x9b31m\x7f\u202e"


def test_what_a_history_says_does_not_reach_the_terminal_as_it_stands(checked, tmp_path, capsys):
    path = tmp_path / "nonsense"
    path.write_text(f"{CLEAR_SCREEN}\n", encoding="utf-8")
    assert run(["check", str(path)]) == 2
    told = capsys.readouterr().err
    assert told.endswith("\\x1b[2J\\x9b31m\\x7f\\u202e\n")
    assert told.removesuffix("\n").isprintable()
    code, out, _ = checked([each | {"tp": CLEAR_SCREEN} for each in (SEND, FINAL | {"recs": []})])
    assert code == 1
    assert all(line.isprintable() for line in out.splitlines())
    assert checked([SEND | {"tp": CLEAR_SCREEN}])[2].removesuffix("\n").isprintable()


def test_the_level_of_acks_all_can_be_told(checked):
    lines = [SEND, {"f": "fault", "name": "power-loss", "inv": 3}, FINAL | {"recs": []}]
    assert checked(lines)[0] == 1
    code, out, _ = checked(lines, "--level", "write_caching")
    assert code == 0
    assert "unseen: 1, which the level allows" in out


def test_registers_are_judged_too(checked):
    assert checked([WRITE, READ], "--model", "register")[0] == 0
    code, out, _ = checked([WRITE, READ | {"out": None}], "--model", "register")
    assert code == 1
    assert "not-linearizable: 1 case" in out
    assert checked([WRITE, READ, CAS], "--model", "cas")[0] == 0
    assert checked([WRITE, READ, CAS], "--model", "register")[0] == 2


def test_usage_is_not_mistaken_for_a_verdict(checked):
    assert run(["check"]) == 64
    assert checked([SEND, FINAL], "--model", "nonsense")[0] == 64
