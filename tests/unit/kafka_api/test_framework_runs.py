"""The table of frameworks on docs/compatibility.md has each test of a framework, and the versions that are pinned."""

import json
import re
from pathlib import Path

import pytest

from kafka_api.compatibility import framework_runs
from tests.ecosystem.brokers import KINDS
from tests.ecosystem.framework_runs import PARTS, RECORDS, SYSTEMS, note, ran

FOLDER = RECORDS.parent
RUN = {"date": "2026-11-28", "commit": "0a1b2c3"}
QUIX = "test_quix_streams_sums_each_number_once_though_it_and_brokers_are_killed"
EOS = "test_streams_does_each_input_once_with_changelogs_of_its_own_though_processes_are_killed"


def test_every_test_of_a_framework_has_its_words_on_the_page():
    found = {
        name
        for path in FOLDER.glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert {name for name, _ in PARTS} == found


def test_every_kind_of_brokers_has_its_name_on_the_page():
    assert SYSTEMS.keys() == KINDS.keys()


def test_every_line_is_of_a_test_and_of_the_version_that_is_pinned():
    wanted = {
        (*(part.framework, part.version(), part.what), ran(f"{name}[{'-'.join(filter(None, (kind, variant)))}]").system)
        for (name, variant), part in PARTS.items()
        for kind in part.systems
    }
    recorded = {(each["framework"], each["version"], each["what"], each["system"]) for each in framework_runs()}
    assert recorded == wanted, "run: make test-ecosystem"


def test_every_run_of_a_framework_has_its_date_and_the_commit_it_was_of():
    for each in framework_runs():
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", each["date"]), each
        assert re.fullmatch(r"[0-9a-f]{7,40}(-dirty)?", each["commit"]), each
        assert each["seconds"] > 0, each


def test_a_run_takes_the_place_of_the_one_before_and_leaves_those_of_others(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    for seconds, commit in ((70.4, "0000000"), (80.4, "1111111")):
        for nodeid in (f"x.py::{QUIX}[raftka]", f"x.py::{QUIX}[apache-kafka]", f"x.py::{EOS}[raftka-simple]"):
            if commit == "0000000" or QUIX in nodeid:
                note(path, nodeid, seconds, RUN | {"commit": commit})
    found = [(each["framework"], each["system"].split()[0], each["seconds"], each["commit"]) for each in _read(path)]
    assert found == [
        ("Kafka Streams", "Raftka", 70, "0000000"),
        ("Quix Streams", "Apache", 80, "1111111"),
        ("Quix Streams", "Raftka", 80, "1111111"),
    ]


def test_a_test_that_has_no_words_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        note(tmp_path / "runs.json", "x.py::test_something_new[raftka]", 1.0, RUN)


def _read(path: Path) -> list[dict[str, str]]:
    runs: list[dict[str, str]] = json.loads(path.read_text())
    return runs
