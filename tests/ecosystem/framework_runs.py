"""What came of each framework's tests: `make test-ecosystem` writes it down, and docs/compatibility.md shows it.

Only what passes is written. A test that fails, or is not run, keeps what is written of it, with the date and the commit
of that run.
"""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

from benchmarks.kafka.jars import kafka_version
from benchmarks.report import ROOT, source_version

RECORDS = Path(__file__).with_name("framework_runs.json")
PAGE = ROOT / "docs" / "compatibility.md"
# Whether to write. Somebody who only repairs a test wants no changed file.
VARIABLE = "RAFTKA_RECORD_RUNS"
_FOLDER = Path(__file__).parent
_STREAMS_POM = ROOT / "tests" / "clients" / "java" / "streams" / "pom.xml"


# The systems are in the ids of pytest, and so is what else a test is run with.
SYSTEMS = {"apache-kafka": "Apache Kafka", "raftka": "Raftka"}


class Part(NamedTuple):
    """What a test runs.

    Attributes:
        framework: Its name.
        version: Returns the pinned version.
        what: What of it, in words of the page.
        systems: On which systems, as `SYSTEMS` has them.
    """

    framework: str
    version: Callable[[], str]
    what: str
    systems: Sequence[str] = tuple(SYSTEMS)


def _pom_version(pom: Path, name: str) -> str:
    found = re.search(rf"<{name}\.version>(.*?)<", pom.read_text(encoding="utf-8"))
    assert found is not None, f"{pom} has no {name}.version"
    return found[1]


def _pinned_version(requirements: str, package: str) -> str:
    text = (_FOLDER / "python" / f"{requirements}.txt").read_text(encoding="utf-8")
    found = re.search(rf"^{re.escape(package)}(?:\[.*\])?==(.*)$", text, re.MULTILINE)
    assert found is not None, f"{requirements}.txt has no {package}"
    return found[1]


def _streams() -> str:
    return _pom_version(_STREAMS_POM, "streams")


def _connect() -> str:
    return _pom_version(_FOLDER / "java" / "connect" / "pom.xml", "kafka")


def _debezium() -> str:
    return _pom_version(_FOLDER / "java" / "debezium" / "pom.xml", "debezium")


_EOS, _SMOKE, _FILES = "StreamsEosTest", "StreamsSmokeTest", "files into a topic and out of it, two workers"
PARTS: Mapping[tuple[str, str], Part] = {
    ("test_streams_does_each_input_once_with_changelogs_of_its_own_though_processes_are_killed", "simple"): Part(
        "Kafka Streams", _streams, f"{_EOS}, half of its topology, exactly once"
    ),
    ("test_streams_does_each_input_once_with_changelogs_of_its_own_though_processes_are_killed", "complex"): Part(
        "Kafka Streams", _streams, f"{_EOS}, all of its topology, exactly once"
    ),
    ("test_the_smoke_test_of_streams_succeeds_though_processes_are_killed", "at_least_once"): Part(
        "Kafka Streams", _streams, f"{_SMOKE}, at least once"
    ),
    ("test_the_smoke_test_of_streams_succeeds_though_processes_are_killed", "exactly_once_v2"): Part(
        "Kafka Streams", _streams, f"{_SMOKE}, exactly once"
    ),
    ("test_connect_loses_no_line_though_workers_leaders_and_coordinators_are_killed", "at-least-once"): Part(
        "Kafka Connect", _connect, f"{_FILES}, at least once"
    ),
    ("test_connect_loses_no_line_though_workers_leaders_and_coordinators_are_killed", "exactly-once"): Part(
        "Kafka Connect", _connect, f"{_FILES}, exactly-once source"
    ),
    ("test_mirror_maker_copies_both_ways_and_translates_offsets_though_it_and_brokers_are_killed", ""): Part(
        "MirrorMaker 2", _connect, "a topic both ways between two clusters, translated offsets"
    ),
    (
        "test_mirror_maker_copies_both_ways_and_translates_offsets_though_it_and_brokers_are_killed",
        "beside-apache-kafka",
    ): Part(
        "MirrorMaker 2",
        _connect,
        "a topic both ways between Apache Kafka and Raftka, translated offsets",
        ("raftka",),
    ),
    ("test_quix_streams_sums_each_number_once_though_it_and_brokers_are_killed", ""): Part(
        "Quix Streams", lambda: _pinned_version("quix", "quixstreams"), "running sums, exactly once"
    ),
    ("test_faust_keeps_its_sums_though_it_is_killed_at_rest_and_brokers_at_work", ""): Part(
        "Faust", lambda: _pinned_version("faust", "faust-streaming"), "running sums, at least once"
    ),
    ("test_a_schema_registry_keeps_all_ids_and_schemas_though_it_and_brokers_are_killed", ""): Part(
        "Confluent's Avro serializer",
        lambda: _pinned_version("avro", "confluent-kafka"),
        "a double of the schema registry with a compacted `_schemas`",
    ),
    ("test_debezium_keeps_the_newest_state_of_each_row_though_workers_and_brokers_are_killed", ""): Part(
        "Debezium", _debezium, "a table of PostgreSQL into a compacted topic, two workers of Kafka Connect"
    ),
}


class Ran(NamedTuple):
    """A part on a system, as the page names them."""

    part: Part
    system: str


def ran(nodeid: str) -> Ran:
    """Return what a test runs.

    Raises:
        KeyError: `PARTS` does not have the test.
    """
    name, _, run_id = nodeid.rpartition("::")[2].removesuffix("]").partition("[")
    for prefix, system in SYSTEMS.items():
        if run_id == prefix or run_id.startswith(f"{prefix}-"):
            variant = run_id.removeprefix(prefix).removeprefix("-")
            version = f" {kafka_version()}" if prefix == "apache-kafka" else ""
            return Ran(PARTS[name, variant], f"{system}{version}")
    raise KeyError(f"{nodeid} names none of the systems")


@cache
def this_run() -> dict[str, str]:
    """Return the date and the commit of this run, as they were when it was first called."""
    changing = (path.relative_to(ROOT).as_posix() for path in (RECORDS, PAGE))
    return {"date": datetime.now(UTC).date().isoformat(), "commit": source_version(*changing)}


def is_wanted() -> bool:
    return bool(os.environ.get(VARIABLE))


def note(path: Path, nodeid: str, seconds: float, run: Mapping[str, str]) -> None:
    """Write that a test has passed; what the file says of others stays."""
    part, system = ran(nodeid)
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    entry = {"framework": part.framework, "version": part.version(), "what": part.what, "system": system}
    entry |= {"seconds": round(seconds), **run}
    # Another version of the system takes the place of the one before.
    kept = [each for each in known if _place(each) != _place(entry)]
    lines = [json.dumps(each) for each in sorted([*kept, entry], key=_place)]
    path.write_text("[\n" + ",\n".join(f"  {line}" for line in lines) + "\n]\n", encoding="utf-8")


def _place(entry: Mapping[str, str]) -> tuple[str, str, bool]:
    return entry["framework"], entry["what"], entry["system"] == SYSTEMS["raftka"]
