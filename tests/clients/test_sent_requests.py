"""What is written down of the clients' requests."""

import json
from pathlib import Path

import pytest

from tests.clients.client import Abilities
from tests.clients.line_client import LineClient, ProgramError
from tests.clients.sent import OUTCOME, RECORDS, Recorder
from tests.clients.tasks import Task

_FIRST, _SECOND = {"date": "2001-02-03", "commit": "aaaa"}, {"date": "2001-02-04", "commit": "bbbb-dirty"}
_TASKS = {"one": ["reads", "writes"], "two": ["reads"]}


def test_a_client_that_was_not_asked_keeps_what_is_written_of_it(tmp_path: Path):
    path = tmp_path / "sent.json"
    first = Recorder()
    first.note_requests("one", "1.0", {("Produce", 9), ("Fetch", 12), ("Produce", 7)})
    first.note_outcome("one", "writes", "passed")
    first.note_outcome("one", "reads", "cannot: no eyes")
    first.note_requests("two", "2.0", {("Fetch", 4)})
    first.note_outcome("two", "reads", "passed")
    assert first.write(path, _FIRST, _TASKS) == []
    second = Recorder()
    second.note_requests("two", "2.1", {("Fetch", 11)})
    second.note_requests("two", "2.1", {("Fetch", 11), ("Metadata", 5)})
    second.note_outcome("two", "reads", "passed")
    assert second.write(path, _SECOND, _TASKS) == []
    one = {"version": "1.0", "run": _FIRST, "tasks": {"reads": "cannot: no eyes", "writes": "passed"}}
    two = {"version": "2.1", "run": _SECOND, "tasks": {"reads": "passed"}}
    assert json.loads(path.read_text()) == {
        "one": {**one, "requests": {"Fetch": [12], "Produce": [7, 9]}},
        "two": {**two, "requests": {"Fetch": [11], "Metadata": [5]}},
    }


def test_a_client_that_was_not_asked_for_everything_keeps_what_is_written_of_it(tmp_path: Path):
    path = tmp_path / "sent.json"
    recorder = Recorder()
    recorder.note_requests("one", "1.0", {("Fetch", 12)})
    recorder.note_outcome("one", "reads", "passed")
    assert recorder.write(path, _FIRST, _TASKS) == ["one"]
    assert json.loads(path.read_text()) == {}


@pytest.mark.parametrize(
    ("when", "outcome", "is_noted"),
    [
        ("setup", "passed", False),
        ("setup", "skipped", True),
        ("setup", "failed", False),
        ("call", "passed", True),
        ("call", "skipped", False),
        ("call", "failed", False),
        ("teardown", "passed", False),
    ],
)
def test_what_has_passed_or_cannot_be_asked_is_noted(when, outcome, is_noted):
    recorder = Recorder()
    place = ("tests/clients/test_x.py::test_reads[one]", ("x", 1, "y"), {})
    told = [(OUTCOME, ("one", "passed"))]
    recorder.pytest_runtest_logreport(pytest.TestReport(*place, outcome, None, when, user_properties=told))
    assert {name: entry["tasks"] for name, entry in recorder.clients.items()} == (
        {"one": {"reads": "passed"}} if is_noted else {}
    )
    # One that was skipped before any fixture has said nothing.
    recorder = Recorder()
    recorder.pytest_runtest_logreport(pytest.TestReport(*place, "skipped", None, "setup"))
    assert recorder.clients == {}


def test_what_a_client_lacks_is_named():
    kafkajs = Abilities(codecs=("none", "gzip", "snappy"), null_headers=False, administers=False)
    assert Task(needs=("administers",), uses=("codecs",)).outcome(kafkajs) == "cannot: no administration"
    assert Task(uses=("codecs", "null_headers")).outcome(kafkajs) == "passed without lz4, zstd, null headers"
    assert Task(needs=("idempotent",), uses=("headers_per_record",)).outcome(kafkajs) == "passed"


def test_the_file_is_as_it_would_be_written(tmp_path: Path):
    path = tmp_path / "sent.json"
    path.write_text(RECORDS.read_text())
    Recorder().write(path, _FIRST, _TASKS)
    assert path.read_text() == RECORDS.read_text()


def test_a_program_that_ends_or_objects_is_an_error_with_what_it_said(tmp_path: Path):
    program = """
        read first
        echo '{"error": "no such topic"}'
        echo gives up >&2
    """
    client = LineClient("a shell", Abilities(), ["sh", "-c", program], "nowhere:1", tmp_path / "log")
    try:
        with pytest.raises(ProgramError, match="a shell: version: no such topic"):
            client.version()
        with pytest.raises(ProgramError, match=r"(?s)a shell: topics: no answer.*gives up"):
            client.topics()
    finally:
        client.close()
