"""Processes die: the driver of a pipeline in the middle of batches, and leaders under a query."""

import itertools
import re
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from raftka.dev.process_identity import ProcessIdentity
from raftka.pipeline.archive.findings import render
from raftka.pipeline.archive.folder import ArchiveFolder
from raftka.pipeline.archive.manifest import load_manifest
from raftka.pipeline.archive.verification import Wanted, verify
from raftka.pipeline.run_folder import RunFolder
from raftka.pipeline.runner import StopRequest
from raftka.pipeline.status import Status
from tests.pipeline.open_batches import Moment, OpenBatches, kill_at
from tests.pipeline.pipelines import new_topic, read, run
from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import DEADLINE_SECONDS, BrokerCluster, ClusterMaker, eventually
from tests.process.command_line import RAFTKA, environment, raftka, started

LEADER_KILLS = 20
PARTITIONS = 2
TO_THE_END = ("--set", "trigger=available-now", "--set", "max.offsets.per.trigger=100000")
# A JVM starts slowly where others run.
JVM_SECONDS = 600.0


class Load:
    """Writes records until it is told to end, a few hundred a second.

    Attributes:
        acked: Records acknowledged so far.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._is_ending = threading.Event()
        self._failures: Counter[tuple[int, str]] = Counter()
        self.acked = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "message.timeout.ms": 120_000,
                "linger.ms": 5,
                "logger": quiet_logger(),
            }
        )
        self._thread = threading.Thread(target=self._write, name="load")

    def _note(self, error: Any, message: Any) -> None:
        if error is None:
            self.acked += 1
        else:
            self._failures[message.partition(), error.name()] += 1

    def _write(self) -> None:
        for number in itertools.count():
            if self._is_ending.is_set():
                return
            try:
                self._producer.produce(
                    self._topic, b"value %d" % number, partition=number % PARTITIONS, on_delivery=self._note
                )
            except BufferError:
                self._producer.poll(0.1)
            if number % 20 == 0:
                self._is_ending.wait(0.05)
                self._producer.poll(0)

    @contextmanager
    def running(self) -> "Iterator[Load]":
        """Write inside; afterwards everything was acknowledged."""
        self._thread.start()
        try:
            yield self
        finally:
            self._is_ending.set()
            self._thread.join(DEADLINE_SECONDS)
            left = self._producer.flush(150)
        assert (left, dict(self._failures)) == (0, {}), f"{self.acked} were acknowledged"


def assert_whole(spark: Any, path: Path, bootstrap: str, records: int) -> None:
    """The archive has every record of the log once, and there are as many as were acknowledged."""
    found = verify(spark, ArchiveFolder.open(path), Wanted(bootstrap))
    assert found.is_whole, "\n".join(render(found))
    assert sum(each.proven for each in found.partitions) == records


def pipelines_file(folder: Path, cluster: BrokerCluster, topic: str) -> Path:
    path = folder / "pipelines.toml"
    path.write_text(
        f"""
brokers = "{cluster.bootstrap}"
dir = "state"

[pipelines.cold]
kind = "archive"
topics = ["{topic}"]
to = "{folder / "cold"}"
trigger = "200ms"
max.offsets.per.trigger = 500
compact.batches = 3
spark.log.level = "ERROR"
"""
    )
    return path


def finished(*arguments: str) -> str:
    """Run a command that starts a JVM to its end, and return what it printed."""
    done = subprocess.run(
        [*RAFTKA, *arguments],
        capture_output=True,
        text=True,
        timeout=JVM_SECONDS,
        env=environment(),
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stderr) == (0, ""), f"{arguments}: {done.stdout}\n{done.stderr}"
    return done.stdout


def progressed(folder: RunFolder, pid: int) -> Status:
    """Wait until a process has completed batches with records, and return its status."""

    def status() -> Status | None:
        found = folder.load()
        return found if found is not None and found.pid == pid and found.batches >= 2 and found.rows else None

    return eventually(f"batches of process {pid}", status, JVM_SECONDS)


def assert_proven_joined_and_restored_by_commands(cluster: BrokerCluster, path: Path, topic: str, records: int) -> None:
    brokers = ["--brokers", cluster.bootstrap]
    whole = f"the archive is whole: {records:,} offsets proven"
    assert whole in finished("archive", "verify", str(path), *brokers)
    before = len(load_manifest(ArchiveFolder.open(path)).files)
    told = finished("archive", "compact", str(path))
    # As all records are of one day, or of two.
    after = len(load_manifest(ArchiveFolder.open(path)).files)
    assert told == f"{before:,} files before, {after:,} now\n"
    assert 1 <= after <= 2 < before
    assert whole in finished("archive", "verify", str(path), *brokers)
    back = f"{topic}-back"
    told = finished("archive", "restore", str(path), "--topic", topic, "--to", back, *brokers)
    assert told.splitlines()[-1] == f"topic {back} is new, and keeps its records forever (retention.ms = -1)"
    assert all(f"{back}-{partition}: " in told for partition in range(PARTITIONS))
    restored = read(cluster.bootstrap, back, PARTITIONS)
    assert restored == read(cluster.bootstrap, topic, PARTITIONS)
    assert len(restored) == records


@pytest.mark.long
def test_a_pipeline_is_run_looked_at_and_stopped_by_its_name(
    spark: Any, cluster: BrokerCluster, tmp_path: Path
) -> None:
    topic = new_topic(cluster, "orders", PARTITIONS)
    file = ["--file", str(pipelines_file(tmp_path, cluster, topic))]
    load = Load(cluster.bootstrap, topic)
    with load.running(), started([*RAFTKA, "pipeline", "run", "cold", *file]) as process:
        progressed(RunFolder(tmp_path / "state", "cold"), process.pid)
        assert "running" in raftka("pipeline", "status", *file).stdout
        assert "is already running (pid" in raftka("pipeline", "run", "cold", *file, code=1).stderr
        assert "archive" in raftka("pipeline", "list", *file).stdout
        assert "cold: stopped after" in finished("pipeline", "stop", "cold", "--timeout", "500", *file)
        out, errors = process.communicate(timeout=JVM_SECONDS)
    assert (process.returncode, errors) == (0, "")
    assert out.splitlines()[0].startswith("starting Spark")
    assert out.splitlines()[1].startswith("batch 0: ")
    assert "does not run" in raftka("pipeline", "stop", "cold", *file, code=1).stderr
    finished("pipeline", "run", "cold", *file, *TO_THE_END)
    assert_whole(spark, tmp_path / "cold", cluster.bootstrap, load.acked)
    assert_proven_joined_and_restored_by_commands(cluster, tmp_path / "cold", topic, load.acked)


@pytest.mark.long
def test_ctrl_c_ends_a_pipeline_between_two_batches(spark: Any, cluster: BrokerCluster, tmp_path: Path) -> None:
    topic = new_topic(cluster, "orders", PARTITIONS)
    file = ["--file", str(pipelines_file(tmp_path, cluster, topic))]
    load = Load(cluster.bootstrap, topic)
    with load.running(), started([*RAFTKA, "pipeline", "run", "cold", *file]) as process:
        progressed(RunFolder(tmp_path / "state", "cold"), process.pid)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=JVM_SECONDS)
    assert (process.returncode, errors) == (0, "")
    assert "stopped" in raftka("pipeline", "status", *file).stdout


@pytest.mark.long
def test_a_driver_that_is_killed_in_the_middle_of_batches_loses_and_repeats_nothing(
    spark: Any, cluster: BrokerCluster, tmp_path: Path
) -> None:
    topic = new_topic(cluster, "orders", PARTITIONS)
    file = ["--file", str(pipelines_file(tmp_path, cluster, topic))]
    folder = RunFolder(tmp_path / "state", "cold")
    load = Load(cluster.bootstrap, topic)
    killed: dict[Moment, int] = {}
    with load.running():
        for moment in Moment:
            with started([*RAFTKA, "pipeline", "run", "cold", *file]) as process:
                status = progressed(folder, process.pid)
                assert status.jvm_pid is not None
                jvm = ProcessIdentity(status.jvm_pid, status.jvm_started or "")
                batches = OpenBatches(folder.checkpoint(1), tmp_path / "cold")
                killed[moment] = kill_at(moment, batches, status.runner, jvm, JVM_SECONDS)
                process.communicate(timeout=DEADLINE_SECONDS)
            assert process.returncode == -signal.SIGKILL
            assert jvm.wait_gone(DEADLINE_SECONDS)
            # Nobody who outlived the driver has ended the batch, or taken anything back.
            assert batches.at(moment) == killed[moment]
            assert "died" in raftka("pipeline", "status", *file, code=1).stdout
    assert len(set(killed.values())) == len(Moment)
    finished("pipeline", "run", "cold", *file, *TO_THE_END)
    assert all(batches.is_archived(number) for number in killed.values())
    assert_whole(spark, tmp_path / "cold", cluster.bootstrap, load.acked)


class Batches:
    """Counts the batches that had records, by the lines that a pipeline prints of them."""

    def __init__(self) -> None:
        self.count = 0

    def take(self, line: str) -> None:
        self.count += re.match(r"batch \d+: [1-9]", line) is not None

    def wait_more(self, count: int, is_over: threading.Event) -> None:
        """Wait for so many more."""
        wanted = self.count + count

        def has_come() -> bool:
            assert not is_over.is_set(), f"the query ended after {self.count} batches"
            return self.count >= wanted

        eventually(lambda: f"{wanted} batches: {self.count}", has_come)


@pytest.mark.long
def test_leaders_are_killed_under_a_query_and_it_neither_fails_nor_misses_a_record(
    spark: Any, make_cluster: ClusterMaker, tmp_path: Path
) -> None:
    cluster = make_cluster(3)
    cluster.start()
    topic = new_topic(cluster, "orders", PARTITIONS)
    wanted = {"topics": topic, "to": str(tmp_path / "cold"), "brokers": cluster.bootstrap}
    load, stop, batches = Load(cluster.bootstrap, topic), StopRequest(), Batches()
    failures: list[Exception] = []
    kills: list[int] = []
    is_over = threading.Event()

    def kill_leaders() -> None:
        try:
            batches.wait_more(1, is_over)
            for partition in itertools.islice(itertools.cycle(range(PARTITIONS)), LEADER_KILLS):
                leader = cluster.leader_of(topic, partition)
                cluster[leader].kill()
                kills.append(leader)
                cluster.leader_of(topic, partition, other_than=leader)
                # The batch that ran then may have read everything before the kill. The next one had to do without.
                batches.wait_more(2, is_over)
                cluster.restart([leader])
                for each in range(PARTITIONS):
                    cluster.leader_of(topic, each)
        except (AssertionError, OSError) as error:
            failures.append(error)
        finally:
            stop.set()
            # A broker dies with the thread that started it.
            is_over.wait(JVM_SECONDS)

    killer = threading.Thread(target=kill_leaders, name="killer")
    killer.start()
    try:
        with load.running():
            status, _ = run(
                spark,
                tmp_path,
                "archive",
                stop=stop,
                out=batches.take,
                trigger="200ms",
                fail_on_data_loss="true",
                **wanted,
            )
        assert failures == []
        assert len(kills) == LEADER_KILLS
        assert batches.count > 2 * LEADER_KILLS
        assert status.error is None
        run(spark, tmp_path, "archive", **wanted)
        assert_whole(spark, tmp_path / "cold", cluster.bootstrap, load.acked)
    finally:
        is_over.set()
        killer.join(DEADLINE_SECONDS)
