"""Kafka's own tools, run as their start scripts would."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from benchmarks.kafka.jars import class_path
from tests.clients.client import DEADLINE_SECONDS
from tests.clients.programs import JAVA
from tests.clients.referee import Referee
from tests.needed_tools import needs_tools

# For every file of tests that runs them.
MARKS = [pytest.mark.process, pytest.mark.long, needs_tools("java", "mvn")]

_CLASSES = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}
# They want the brokers behind the word that says what to do.
_WORD_FIRST = frozenset({"cluster"})


def command(referee: Referee, tool: str, *arguments: str) -> list[str]:
    # What Kafka's start scripts would set up; here it has nothing to say.
    quiet = "-Dlog4j2.level=OFF"
    brokers = ["--bootstrap-server", referee.cluster.bootstrap]
    words = [*arguments[:1], *brokers, *arguments[1:]] if tool in _WORD_FIRST else [*brokers, *arguments]
    return [*JAVA, quiet, "-cp", class_path(), _CLASSES[tool], *words]


def run(referee: Referee, tool: str, *arguments: str, stdin: str = "") -> str:
    """Run a tool and return its stdout; fails with what it says if it does."""
    done = _done(referee, tool, *arguments, stdin=stdin)
    assert done.returncode == 0, f"kafka-{tool}: {done.stdout}{done.stderr}"
    return done.stdout


def refused(referee: Referee, tool: str, *arguments: str) -> str:
    """Run a tool that must fail, and return all that it says."""
    done = _done(referee, tool, *arguments)
    assert done.returncode != 0, f"kafka-{tool}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def tried(referee: Referee, tool: str, *arguments: str) -> str:
    """Run a tool that may fail, and return all that it says."""
    done = _done(referee, tool, *arguments)
    return done.stdout + done.stderr


def _done(referee: Referee, tool: str, *arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(referee, tool, *arguments),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


@contextmanager
def running(referee: Referee, tool: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Start a tool that is read while it runs; it is killed at the end."""
    process = subprocess.Popen(
        command(referee, tool, *arguments), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


class Watched:
    """A tool that runs beside the test, and what it has told so far, one JSON object per line."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._events: list[dict[str, Any]] = []
        self._process = process
        self._thread = threading.Thread(target=self._read, name="tool", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        for event in events(self._process):
            self._events.append(event)  # Atomic, and only ever longer.

    def told(self, name: str) -> list[dict[str, Any]]:
        """Return the events of one name; fails if the tool has ended."""
        assert self._process.poll() is None, "the tool has ended"
        return [event for event in list(self._events) if event["name"] == name]

    def leave(self) -> None:
        """Let it end as Ctrl-C would, and read the rest."""
        self._process.terminate()
        self._process.wait(DEADLINE_SECONDS)
        self._thread.join(DEADLINE_SECONDS)


@contextmanager
def watched(referee: Referee, tool: str, *arguments: str) -> Iterator[Watched]:
    """Start a tool that runs beside the test; it leaves at the end."""
    with running(referee, tool, *arguments) as process:
        tool_beside = Watched(process)
        yield tool_beside
        tool_beside.leave()


def events(process: "subprocess.Popen[str]") -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{"):
            yield json.loads(line)
