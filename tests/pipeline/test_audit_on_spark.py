"""`raftka audit` on real Spark: files and a topic, judged as `raftka check` judges them."""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from raftka.check.errors import HistoryError
from raftka.check.levels import Level
from raftka.check.log.builder import read_log_history
from raftka.check.log.model import check_log
from raftka.check.register_history import read_register_history
from raftka.check.register_model import check_register
from raftka.check.verdict import Verdict
from raftka.pipeline.audit.cluster import OnSpark
from raftka.pipeline.audit.logs import Sizes, audit_log
from raftka.pipeline.audit.parts import HistoryFile
from raftka.pipeline.audit.registers import audit_registers
from raftka.pipeline.audit.topic import read_topic
from tests.pipeline.pipelines import Record, new_topic, write
from tests.pipeline.test_killed import JVM_SECONDS
from tests.process.broker_processes import BrokerCluster
from tests.process.command_line import RAFTKA, environment

sys.path.append(str(Path(__file__).parents[1] / "unit" / "check"))
from generated import history, register_history


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def lines_of(name: str, text: list[dict[str, Any]], folder: Path) -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(line) + "\n" for line in text))
    return path


def as_json(verdict: Verdict) -> str:
    return msgspec.json.encode(verdict).decode()


@pytest.mark.long
@pytest.mark.parametrize("giant", [1, 10**9])
@pytest.mark.parametrize("spoilt", [0, 40])
def test_a_log_is_judged_on_spark_as_by_the_checker(
    spark: Any, tmp_path: Path, scratch: Path, giant: int, spoilt: int
) -> None:
    path = lines_of("history.jsonl", history(random.Random(spoilt), 500, spoilt), tmp_path)
    expected = check_log(read_log_history([path]), Level.QUORUM_ACK)
    sizes = Sizes(operations=300, giant=giant, per_send=0, offsets=60)
    found = audit_log([HistoryFile(path)], Level.QUORUM_ACK, OnSpark(spark), scratch, sizes)
    assert as_json(found) == as_json(expected)


@pytest.mark.long
def test_registers_are_judged_on_spark_as_by_the_checker(spark: Any, tmp_path: Path, scratch: Path) -> None:
    verdicts = set()
    for seed in range(6):
        path = lines_of(f"{seed}.jsonl", register_history(random.Random(seed)), tmp_path)
        try:
            expected = as_json(check_register(read_register_history([path], has_cas=True), "cas"))
        except HistoryError as error:
            expected = str(error)
        try:
            found = as_json(audit_registers([HistoryFile(path)], "cas", OnSpark(spark), scratch))
        except HistoryError as error:
            found = str(error)
        assert found == expected
        verdicts.add(found)
    assert len(verdicts) > 1


def test_a_history_in_a_topic_is_judged_and_its_lines_are_named_by_partition(
    spark: Any, cluster: BrokerCluster, scratch: Path
) -> None:
    topic = new_topic(cluster, "histories", partitions=3)
    send = {"f": "send", "type": "ok", "proc": 1, "inv": 1, "ret": 2, "tp": "t-0", "acks": "all", "val": "a", "off": 0}
    final = {"f": "poll", "type": "ok", "proc": 2, "inv": 3, "ret": 4, "tp": "t-0", "recs": [], "final": True}
    lines = [(0, {"f": "fault", "name": "kill", "inv": 0}), (0, send), (2, final)]
    records = [Record(b"k", json.dumps(line).encode(), partition=number) for number, line in lines]
    write(cluster.bootstrap, topic, records)
    folder = scratch / "topic"
    folder.mkdir()
    files = read_topic(spark, cluster.bootstrap, topic, folder)
    assert [each.name for each in files] == [f"{topic}-0", f"{topic}-2"]
    # One operation is too much for a task: the partition is judged in blocks.
    verdict = audit_log(files, Level.QUORUM_ACK, OnSpark(spark), scratch, Sizes(giant=0, per_send=0))
    [finding] = verdict.findings
    [shown] = finding.examples[0].operations
    assert (finding.name, shown["file"], shown["line"]) == ("unseen", f"{topic}-0", 2)


@pytest.mark.long
def test_a_topic_that_is_no_history_is_refused_with_its_place(
    spark: Any, cluster: BrokerCluster, scratch: Path
) -> None:
    empty = new_topic(cluster, "histories")
    with pytest.raises(HistoryError, match=f"{empty} is empty"):
        read_topic(spark, cluster.bootstrap, empty, scratch)
    topic = new_topic(cluster, "histories")
    write(cluster.bootstrap, topic, [Record(None, b"{}"), Record(None, b"{}\n{}")])
    with pytest.raises(HistoryError, match=f"{topic}-0: the value at offset 1 is no line"):
        read_topic(spark, cluster.bootstrap, topic, scratch)
    other = new_topic(cluster, "histories")
    write(cluster.bootstrap, other, [Record(None, b"{")])
    with pytest.raises(HistoryError, match=f"^{other}-0:1: "):
        audit_log(read_topic(spark, cluster.bootstrap, other, scratch), Level.QUORUM_ACK, OnSpark(spark), scratch)


def told(*arguments: str) -> tuple[int, str, str]:
    """Run a command that may start a JVM; return its exit code and what it printed."""
    done = subprocess.run(
        [*RAFTKA, *arguments],
        capture_output=True,
        text=True,
        timeout=JVM_SECONDS,
        env=environment(),
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout, done.stderr


def kept_promises(sends: int) -> list[dict[str, Any]]:
    """Return a history in which everything that was acknowledged is read, in order, as it is written."""
    lines: list[dict[str, Any]] = []
    for number in range(sends):
        at = {"inv": 10 * number, "ret": 10 * number + 5, "tp": "t-0", "type": "ok"}
        lines.append({"f": "send", "proc": 1, **at, "acks": "all", "val": f"v{number}", "off": number})
        lines.append({"f": "poll", "proc": 2, **at, "recs": [(number - 1, f"v{number - 1}")] if number else []})
    everything = [(number, f"v{number}") for number in range(sends)]
    now = {"inv": 10 * sends, "ret": 10 * sends + 5}
    lines.append({"f": "poll", "type": "ok", "proc": 3, **now, "tp": "t-0", "recs": everything, "final": True})
    return lines


@pytest.mark.long
@pytest.mark.parametrize("code", [0, 1])
def test_the_command_prints_of_files_and_of_a_topic_what_the_checker_prints(
    cluster: BrokerCluster, tmp_path: Path, scratch: Path, code: int
) -> None:
    lines = kept_promises(200)
    if code:
        # Acknowledged, seen once, and then gone.
        del lines[-1]["recs"][150]
    path = lines_of("history.jsonl", lines, tmp_path)
    topic = new_topic(cluster, "histories")
    write(cluster.bootstrap, topic, [Record(None, line) for line in path.read_bytes().splitlines()])
    expected = told("check", "--explain", str(path))
    assert (expected[0], expected[2]) == (code, "")
    assert expected[1].startswith("NOT VALID: " if code else "valid\n")
    room = ["--scratch", str(scratch)]
    assert told("audit", "--explain", *room, str(path)) == expected
    # Lines of a topic are named by their partition.
    named = expected[1].replace(str(path), f"{topic}-0")
    assert (named != expected[1]) == bool(code)
    of_topic = ["--topic", topic, "--brokers", cluster.bootstrap, *room]
    assert told("audit", "--explain", *of_topic) == (code, named, "")
    assert [each for each in scratch.iterdir() if each.is_dir()] == []


@pytest.mark.long
def test_the_command_judges_registers_and_writes_json_as_the_checker_does(tmp_path: Path) -> None:
    path = lines_of("registers.jsonl", register_history(random.Random(1)), tmp_path)
    wanted = ["--model", "cas", "--format", "json", str(path)]
    expected = told("check", *wanted)
    assert json.loads(expected[1])["model"] == "cas"
    assert told("audit", *wanted) == expected
