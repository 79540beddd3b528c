"""What is written down of the clients' requests."""

import json
from pathlib import Path

import pytest

from tests.clients.client import Abilities
from tests.clients.line_client import LineClient, ProgramError
from tests.clients.sent import RECORDS, Recorder


def test_a_client_that_was_not_asked_keeps_what_is_written_of_it(tmp_path: Path):
    path = tmp_path / "sent.json"
    first = Recorder()
    first.note("one", "1.0", {("Produce", 9), ("Fetch", 12), ("Produce", 7)})
    first.note("two", "2.0", {("Fetch", 4)})
    first.write(path)
    second = Recorder()
    second.note("two", "2.1", {("Fetch", 11)})
    second.note("two", "2.1", {("Fetch", 11), ("Metadata", 5)})
    second.write(path)
    assert json.loads(path.read_text()) == {
        "one": {"version": "1.0", "requests": {"Fetch": [12], "Produce": [7, 9]}},
        "two": {"version": "2.1", "requests": {"Fetch": [11], "Metadata": [5]}},
    }


def test_the_file_is_as_it_would_be_written(tmp_path: Path):
    path = tmp_path / "sent.json"
    path.write_text(RECORDS.read_text())
    Recorder().write(path)
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
