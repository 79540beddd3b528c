"""Processes die: the driver of a pipeline in the middle of batches, and leaders under a query."""

import itertools
import os
import signal
import subprocess
import threading
import time
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
from raftka.pipeline.archive.verification import Wanted, verify
from raftka.pipeline.run_folder import RunFolder
from raftka.pipeline.runner import StopRequest
from raftka.pipeline.status import Status
from tests.pipeline.pipelines import new_topic, run
from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import DEADLINE_SECONDS, BrokerCluster, ClusterMaker, eventually
from tests.process.command_line import RAFTKA, environment, raftka, started

DRIVER_KILLS = 3
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
        assert "runs already (pid" in raftka("pipeline", "run", "cold", *file, code=1).stderr
        assert "archive" in raftka("pipeline", "list", *file).stdout
        assert "cold: stopped after" in finished("pipeline", "stop", "cold", "--timeout", "500", *file)
        out, errors = process.communicate(timeout=JVM_SECONDS)
    assert (process.returncode, errors) == (0, "")
    assert out.splitlines()[0].startswith("starting Spark")
    assert out.splitlines()[1].startswith("batch 0: ")
    assert "does not run" in raftka("pipeline", "stop", "cold", *file, code=1).stderr
    finished("pipeline", "run", "cold", *file, *TO_THE_END)
    assert_whole(spark, tmp_path / "cold", cluster.bootstrap, load.acked)
    told = finished("archive", "verify", str(tmp_path / "cold"), "--brokers", cluster.bootstrap)
    assert "the archive is whole" in told


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
    with load.running():
        for kill in range(DRIVER_KILLS):
            with started([*RAFTKA, "pipeline", "run", "cold", *file]) as process:
                status = progressed(folder, process.pid)
                # Not at the end of a batch, but somewhere in one.
                time.sleep(0.3 * kill)
                os.kill(process.pid, signal.SIGKILL)
                process.communicate(timeout=DEADLINE_SECONDS)
            assert status.jvm_pid is not None
            assert "died" in raftka("pipeline", "status", *file, code=1).stdout
    finished("pipeline", "run", "cold", *file, *TO_THE_END)
    jvm = ProcessIdentity(status.jvm_pid, status.jvm_started or "")
    assert not jvm.is_alive
    assert_whole(spark, tmp_path / "cold", cluster.bootstrap, load.acked)


@pytest.mark.long
def test_leaders_are_killed_under_a_query_and_it_neither_fails_nor_misses_a_record(
    spark: Any, make_cluster: ClusterMaker, tmp_path: Path
) -> None:
    cluster = make_cluster(3)
    cluster.start()
    topic = new_topic(cluster, "orders", PARTITIONS)
    wanted = {"topics": topic, "to": str(tmp_path / "cold"), "brokers": cluster.bootstrap}
    load, stop = Load(cluster.bootstrap, topic), StopRequest()
    failures: list[Exception] = []
    is_over = threading.Event()

    def kill_leaders() -> None:
        try:
            for kill in range(LEADER_KILLS):
                leader = cluster.leader_of(topic, kill % PARTITIONS)
                cluster[leader].kill()
                cluster.leader_of(topic, kill % PARTITIONS, other_than=leader)
                cluster.restart([leader])
                for partition in range(PARTITIONS):
                    cluster.leader_of(topic, partition)
        except (AssertionError, OSError) as error:
            failures.append(error)
        finally:
            stop.set()
            # A broker dies with the thread that started it.
            is_over.wait()

    killer = threading.Thread(target=kill_leaders, name="killer")
    killer.start()
    try:
        with load.running():
            status, _ = run(spark, tmp_path, "archive", stop=stop, trigger="200ms", fail_on_data_loss="true", **wanted)
        assert failures == []
        assert status.error is None
        run(spark, tmp_path, "archive", **wanted)
        assert_whole(spark, tmp_path / "cold", cluster.bootstrap, load.acked)
    finally:
        is_over.set()
        killer.join(DEADLINE_SECONDS)
