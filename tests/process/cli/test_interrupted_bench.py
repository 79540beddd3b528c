"""Ctrl-C while `raftka bench` measures: what it has measured is printed."""

import json
import signal
import subprocess

import pytest

from tests.process.broker_processes import BrokerCluster, eventually
from tests.process.command_line import RAFTKA, SECONDS, Run, environment
from tests.process.kafka_topics import create_topic

pytestmark = pytest.mark.process


def interrupted(cluster: BrokerCluster, run: Run, topic: str, *arguments: str) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr of a bench that gets Ctrl-C once it writes."""
    create_topic(cluster, topic)
    process = subprocess.Popen(
        [*RAFTKA, "bench", "-t", topic, "-s", "600", "--rate", "500", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment() | {"RAFTKA_BROKERS": cluster.bootstrap},
    )
    try:

        def writes() -> bool:
            rows = json.loads(run("partition", "list", topic, "-f", "json").stdout)
            return any(row["hw"] for row in rows)

        eventually("the bench writes", writes)
        process.send_signal(signal.SIGINT)
        out, complaints = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
        process.wait()
    return process.returncode, out, complaints


def test_the_results_so_far_are_printed(shared_cluster: BrokerCluster, run: Run) -> None:
    code, out, complaints = interrupted(shared_cluster, run, "cut-bench", "--warmup", "0", "-f", "json")
    assert code == 130
    assert complaints.startswith("raftka: interrupted: ")
    assert complaints.endswith(" of 600 s were measured\n")
    report = json.loads(out)
    assert not report["complete"]
    assert 0 < report["seconds"] < 600
    produced = report["produced"]
    assert produced["records"] > 0
    assert produced["records_per_second"] == pytest.approx(produced["records"] / report["seconds"], rel=0.01)
    assert produced["failures"] == {}


def test_without_results_nothing_is_printed(shared_cluster: BrokerCluster, run: Run) -> None:
    code, out, complaints = interrupted(shared_cluster, run, "cold-bench", "--warmup", "3000")
    assert (code, out) == (130, "")
    assert complaints == "raftka: interrupted: 0.0 of 600 s were measured\n"
