"""How a pipeline's process ends: signals to it, to its group and to its JVM, and values that Spark refuses."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from raftka.dev.process_identity import ProcessIdentity
from raftka.pipeline.run_folder import RunFolder
from raftka.pipeline.status import State, Status
from tests.pipeline.pipelines import Record, new_topic, write
from tests.pipeline.test_killed import JVM_SECONDS
from tests.process.broker_processes import BrokerCluster, eventually
from tests.process.command_line import RAFTKA, environment, started

pytestmark = pytest.mark.long

HEADER = "starting Spark, which writes to "


def command(cluster: BrokerCluster, folder: Path, topic: str, **values: str) -> list[str]:
    """Return the command that runs a copy of a topic."""
    given = {"topics": topic, "to": new_topic(cluster, "copy")} | {
        key.replace("_", "."): each for key, each in values.items()
    }
    pairs = [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
    return [*RAFTKA, "pipeline", "run", "copy", "--brokers", cluster.bootstrap, "--dir", str(folder), *pairs]


def running(folder: RunFolder) -> Status:
    def status() -> Status | None:
        found = folder.load()
        assert found is None or found.error is None, found
        return found if found is not None and found.batches and found.jvm_pid is not None else None

    return eventually("a batch", status, JVM_SECONDS)


@pytest.mark.parametrize(
    ("what", "code", "state", "words"),
    [
        ("the group is told to end", 0, State.STOPPED, ""),
        ("the JVM is killed", 1, State.FAILED, "raftka: Spark's JVM (pid "),
        ("it is told twice", 130, State.FAILED, ""),
    ],
)
def test_an_end_is_a_line_at_most_and_takes_the_jvm_with_it(
    cluster: BrokerCluster, tmp_path: Path, what: str, code: int, state: State, words: str
) -> None:
    topic = new_topic(cluster, "ending")
    write(cluster.bootstrap, topic, [Record(b"k", b"v")])
    folder = RunFolder(tmp_path, "copy")
    # Not in the group of the tests: the group is signalled.
    with started(["setsid", *command(cluster, tmp_path, topic, trigger="200ms")]) as process:
        status = running(folder)
        assert status.jvm_pid is not None
        jvm = ProcessIdentity(status.jvm_pid, status.jvm_started or "")
        if what == "the JVM is killed":
            os.kill(status.jvm_pid, signal.SIGKILL)
        elif what == "the group is told to end":
            os.killpg(os.getpgid(status.pid), signal.SIGTERM)
        else:
            os.kill(status.pid, signal.SIGTERM)
            eventually("it is stopping", lambda: (found := folder.load()) and found.state is not State.RUNNING)
            os.kill(status.pid, signal.SIGTERM)
        _, errors = process.communicate(timeout=JVM_SECONDS)
    ended = folder.load()
    assert ended is not None
    if what != "it is told twice" or ended.state is not State.STOPPED:
        # A batch may have ended before the second signal came.
        assert (process.returncode, ended.state) == (code, state), errors
    assert len(errors.splitlines()) == (1 if words else 0), errors
    assert errors.startswith(words)
    assert jvm.wait_gone(60.0)


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("keyy IS NOT NULL", "with name `keyy` cannot be resolved"),
        ("key IS NOT", "Syntax error at or near end of input"),
    ],
)
def test_a_condition_that_is_none_is_refused_in_a_line(
    cluster: BrokerCluster, tmp_path: Path, where: str, words: str
) -> None:
    topic = new_topic(cluster, "refused")
    done = subprocess.run(
        command(cluster, tmp_path, topic, where=where),
        capture_output=True,
        text=True,
        timeout=JVM_SECONDS,
        env=environment(),
    )
    assert done.returncode == 1
    assert done.stdout.startswith(HEADER)
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert words in done.stderr
