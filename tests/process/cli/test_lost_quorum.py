"""Two of three brokers are dead: every command says the same sentence and ends, or needs no cluster.

A new command fails the first test until it stands in one of the two tables.
"""

import json
import os
import signal
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import pytest

from tests.command_tree import every_command
from tests.process.broker_processes import eventually
from tests.process.command_line import RAFTKA, DevFolder, environment, start_detached, started

pytestmark = pytest.mark.process

# So long a command may take on a busy machine; unit tests hold the deadlines of the commands themselves.
ENDED_SECONDS = 20.0
UNAVAILABLE = 69
SENTENCE = "raftka: no quorum: brokers {} of 3 do not answer; start them"

# Arguments of each command that needs the cluster.
TYPED = {
    "topic create": "more",
    "topic list": "",
    "topic describe": "orders",
    "topic delete": "orders",
    "topic alter-config": "orders --set retention.ms=1000",
    "topic alter-replication": "orders -r 3",
    "topic add-partitions": "orders -n 1",
    "topic trim-prefix": "orders -o end",
    "produce": "orders",
    "consume": "orders -e",
    "group list": "",
    "group describe": "readers",
    "group seek": "readers --to start",
    "group delete": "readers",
    "cluster info": "",
    "cluster health": "",
    "cluster config list": "",
    "cluster config get": "log.retention.ms",
    "cluster config set": "log.retention.ms=1",
    "cluster config unset": "log.retention.ms",
    "cluster features list": "",
    "cluster features upgrade": "",
    "cluster features downgrade": "transaction.version=1",
    "cluster log-level": "raft DEBUG",
    "broker list": "",
    "broker drain": "1",
    "broker undrain": "1",
    "broker decommission": "1",
    "broker recommission": "1",
    "broker remove": "1",
    "broker replace": "1",
    "partition list": "",
    "partition elect-preferred": "--all",
    "partition transfer-leadership": "orders 0",
    "partition move": "orders/0 --to 1",
    "partition moves": "",
    "partition cancel": "--all",
    "txn list": "",
    "txn describe": "billing-1",
    "txn find-hanging": "",
    "txn abort": "orders/0 --producer-id 1",
    "bench": "-s 1",
    "pipeline run": "archive --set topics=orders --set to=TMP/archive --dir TMP/run --brokers BROKERS",
    "archive verify": "TMP",
    "archive restore": "TMP --topic orders --to again",
    "audit": "--topic history",
    "chaos": "--out TMP/chaos --bootstrap BROKERS --minutes 0.2",
    # It goes on without an answer: see the test of its own.
    "doctor": "cluster",
}
NEEDS_NO_CLUSTER = {
    *("version", "completion", "config example", "start", "check"),
    *("debug log", "debug bundle", "generate systemd", "generate containerfile", "generate kubernetes"),
    *("generate grafana", "generate alerts"),
    *("dev status", "dev stop", "dev logs", "dev kill", "dev restart"),
    # They wait, and the broker that is asked says for whom: tests/process/cli/test_living_dev.py.
    *("dev add", "dev remove"),
    *("pipeline list", "pipeline status", "pipeline stop", "archive show", "archive compact", "telemetry plot"),
}
# More ways of the same commands to the cluster.
MORE = [
    "topic create more -p 3 -r 3 --brokers FIRST_DEAD",
    "topic list --brokers ALIVE",
    "consume orders",
    "consume orders -g readers",
    "consume orders -g readers -e",
    "consume orders -n 5 -o -1",
    "produce orders --acks 1",
    "produce orders -p 0 --acks 0",
    "produce orders --transactional",
    "bench -t orders -s 1",
    "group seek readers --to-group others",
    "cluster log-level",
    "partition elect-preferred orders",
]


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevFolder]:
    """Three brokers with a topic and a group, of which two are killed then; the survivor knows no controller."""
    folder = start_detached(tmp_path_factory.mktemp("lost") / "dev", 3)
    try:
        folder.client("topic", "create", "orders", "-p", "2")
        folder.client("produce", "orders", stdin="one\ntwo\n")
        folder.client("consume", "orders", "-g", "readers", "-e")
        for node in ("2", "3"):
            folder.dev("kill", node)
        # Until then it answers from what it knows.
        eventually("the survivor has lost its controller", lambda: _code_of(folder, "cluster info") == UNAVAILABLE)
        yield folder
    finally:
        folder.dev("stop")


def _code_of(folder: DevFolder, line: str) -> int:
    return _typed(folder, line, folder.path).returncode


def _typed(folder: DevFolder, line: str, tmp_path: Path) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end; one that does not end fails the test."""
    alive, *dead = (each["kafka"] for each in folder.status())
    places = {"FIRST_DEAD": ",".join([*dead, alive]), "BROKERS": folder.bootstrap, "ALIVE": alive, "TMP": str(tmp_path)}
    for name, place in places.items():
        line = line.replace(name, place)
    done = subprocess.run(
        [*RAFTKA, *line.split()],
        input="three\n",
        capture_output=True,
        text=True,
        timeout=ENDED_SECONDS,
        env=environment() | {"RAFTKA_BROKERS": folder.bootstrap},
        cwd=tmp_path,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_every_command_is_in_one_of_the_tables() -> None:
    commands = {path for path, found in every_command().items() if not isinstance(found, click.Group)}
    assert commands - set(TYPED) == NEEDS_NO_CLUSTER
    assert set(TYPED) <= commands


@pytest.mark.parametrize("line", [*(f"{each} {words}" for each, words in TYPED.items() if each != "doctor"), *MORE])
def test_a_command_names_the_brokers_that_are_to_be_started(lost: DevFolder, tmp_path: Path, line: str) -> None:
    done = _typed(lost, line, tmp_path)
    assert done.stderr.splitlines()[-1:] == [SENTENCE.format("2, 3")]
    assert done.returncode == UNAVAILABLE
    assert done.stdout == ""


def test_the_doctor_reports_it_as_a_finding(lost: DevFolder, tmp_path: Path) -> None:
    done = _typed(lost, "doctor cluster", tmp_path)
    assert done.returncode == 1
    assert "no quorum: brokers 2, 3 of 3 do not answer" in done.stdout
    assert "raftka dev restart N" in done.stdout


def test_a_bundle_has_what_the_survivor_says_of_itself(lost: DevFolder, tmp_path: Path) -> None:
    # The folder of the cluster is not named: the survivor tells where its admin port is.
    done = _typed(lost, "debug bundle --out nq.zip", tmp_path)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / "nq.zip") as archive:
        ready = json.loads(archive.read("brokers/1/ready.json"))
        assert not ready["ready"]
        assert b"raftka_" in archive.read("brokers/1/metrics.txt")


def test_a_cluster_of_which_no_broker_answers_is_told_in_one_sentence_as_well(lost: DevFolder, tmp_path: Path) -> None:
    _, second, third = (each["kafka"] for each in lost.status())
    for line in ("topic list", "topic create x", "group list", "produce orders", "consume orders", "bench"):
        done = _typed(lost, f"{line} --brokers {second},{third}", tmp_path)
        words = f"no Kafka broker answers at {second},{third}: Connection refused"
        assert done.stderr == f"raftka: {words} (--brokers or RAFTKA_BROKERS names others)\n"
        assert done.returncode == 1


def test_paused_brokers_do_not_answer_either(tmp_path: Path) -> None:
    folder = start_detached(tmp_path / "dev", 3)
    first, second, _ = folder.status()
    paused = [first["pid"], second["pid"]]
    folder.client("topic", "create", "orders", "-p", "3")
    hangs = "takes connections and answers nothing: the broker hangs or is stopped (--brokers names others)"
    asked = ("topic list", "topic create x", "group list", "consume orders", "produce orders", "partition list")
    try:
        os.kill(first["pid"], signal.SIGSTOP)
        # The others are a quorum, of which nobody tells who is asked here.
        for line in asked:
            done = _typed(folder, f"{line} --brokers {first['kafka']}", tmp_path)
            assert done.stderr.startswith(f"raftka: {first['kafka']} {hangs}"), line
            assert done.returncode == 1, line
        os.kill(second["pid"], signal.SIGSTOP)
        # The survivor answers Metadata for a moment; then nothing is acknowledged.
        done = _typed(folder, "produce orders", tmp_path)
        assert done.stderr.splitlines()[-1:] == [SENTENCE.format("1, 2")]
        assert done.returncode == UNAVAILABLE
        eventually("the survivor has lost its controller", lambda: _code_of(folder, "cluster info") == UNAVAILABLE)
        for line in ("topic list", "topic create x", "group list", "consume x -e", "produce x"):
            done = _typed(folder, line, tmp_path)
            assert done.stderr == f"{SENTENCE.format('1, 2')}\n", line
            assert done.returncode == UNAVAILABLE
        done = _typed(folder, f"topic list --brokers {second['kafka']}", tmp_path)
        assert done.stderr == f"raftka: {second['kafka']} {hangs}\n"
    finally:
        for pid in paused:
            os.kill(pid, signal.SIGCONT)
        folder.dev("stop")


def test_what_runs_when_the_quorum_is_lost_ends_in_the_same_words(tmp_path: Path) -> None:
    folder = start_detached(tmp_path / "dev", 3)
    try:
        folder.client("topic", "create", "calm")
        folder.client("topic", "create", "busy")
        lines = ("consume calm -n 9", "consume calm -n 9 -g readers", "bench -t busy -s 600 --warmup 0 -f json")
        with ExitStack() as stack:
            running = [
                stack.enter_context(started([*RAFTKA, *line.split()], RAFTKA_BROKERS=folder.bootstrap))
                for line in (*lines, "consume calm")
            ]
            *ending, follower = running
            eventually("the group has a member and the bench writes", lambda: _is_under_way(folder))
            for node in ("1", "2"):
                folder.dev("kill", node)
            said = [each.communicate(timeout=3 * ENDED_SECONDS) for each in ending]
            # Nobody asked it to end: it warns, and goes on when the brokers are back.
            assert follower.stderr is not None
            assert follower.stderr.readline() == f"{SENTENCE.format('1, 2')}; still trying\n"
            follower.send_signal(signal.SIGINT)
            assert follower.wait(ENDED_SECONDS) == 0
    finally:
        folder.dev("stop")
    for line, process, (_, complaints) in zip(lines, ending, said, strict=True):
        assert complaints.splitlines()[-1:] == [SENTENCE.format("1, 2")], line
        assert process.returncode == UNAVAILABLE, line
    # What the bench has measured until then is not lost.
    report = json.loads(said[-1][0])
    assert not report["complete"]
    assert report["produced"]["records"] > 0


def _is_under_way(folder: DevFolder) -> bool:
    def found(*arguments: str) -> Any:
        done = folder.run(*arguments, "-f", "json")
        return json.loads(done.stdout) if done.returncode == 0 else None

    group = found("group", "describe", "readers")
    return bool(group and group["members"]) and any(row["hw"] for row in found("partition", "list", "busy"))
