"""SIGKILL of the process of a pass in a running broker: the broker says so, goes on, and passes again after a pause."""

import os
import signal
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import DEADLINE_SECONDS, BrokerCluster, BrokerProcess, ClusterMaker, eventually
from tests.process.command_line import raftka
from tests.process.kafka_topics import create_topic
from tests.process.test_compacted_logs import overwrite, read, removed

pytestmark = pytest.mark.process

_TOPIC = "overwritten"
_MIB = 1024 * 1024
_MODULE = b"storage.cleaning_process"
_KILLED = "storage.cleaning_process ended with exit code -9"
# The broker's program with a pause of a second after a pass that fails, instead of a minute.
_IMPATIENT = """#!{python}
import runpy, sys
import cluster.compaction
cluster.compaction._PAUSE_SECONDS = 1.0
assert sys.argv[1:5] == ["-I", "-u", "-m", "raftka.broker"], sys.argv
del sys.argv[1:5]
runpy.run_module("raftka.broker", run_name="__main__", alter_sys=True)
"""


def passes_of(broker: BrokerProcess) -> list[int]:
    """Return the processes of passes that a broker has started."""
    found: set[int] = set()
    for thread in Path(f"/proc/{broker.pid}/task").iterdir():
        # A thread may end in between; its children are another thread's then.
        with suppress(OSError):
            found |= set(map(int, (thread / "children").read_text().split()))
    return [child for child in found if _MODULE in command_line_of(child)]


def command_line_of(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def kill_pass(broker: BrokerProcess) -> None:
    """Wait until there is the process of a pass, and kill it."""
    (process,) = eventually("the process of a pass", lambda: passes_of(broker) or None)
    os.kill(process, signal.SIGKILL)
    eventually("the end of the process", lambda: process not in passes_of(broker))


def produce(cluster: BrokerCluster) -> None:
    options = {"bootstrap.servers": cluster.bootstrap, "acks": "all", "logger": quiet_logger()}
    errors: list[object] = []
    producer = Producer(options)
    producer.produce(_TOPIC, b"goes on", b"another", 0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(DEADLINE_SECONDS) == 0
    assert errors == [None]


def metric(broker: BrokerProcess, name: str) -> float:
    """Return the value of a metric without labels."""
    with urllib.request.urlopen(f"http://{broker.admin}/metrics", timeout=5.0) as answer:
        lines = answer.read().decode().splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).split()[1])


def outputs(broker: BrokerProcess) -> list[Path]:
    return list((broker.data_dir / "groups").glob("*/*.cleaned"))


def test_a_killed_pass_comes_again_and_is_suspended_after_three_times(
    make_cluster: ClusterMaker, tmp_path: Path
) -> None:
    # A byte per second: a pass takes for ever.
    cluster = make_cluster(1, **{"log.cleaner.backoff.ms": 100, "log.cleaner.io.max.bytes.per.second": 1})
    broker = cluster[1]
    impatient = tmp_path / "impatient"
    impatient.write_text(_IMPATIENT.format(python=sys.executable))
    impatient.chmod(0o700)
    broker.python = str(impatient)
    cluster.start()
    create_topic(cluster, _TOPIC, **{"cleanup.policy": "compact", "segment.bytes": _MIB})
    newest = overwrite(cluster, _TOPIC, 0, 60_000)
    for number in (1, 2, 3):
        kill_pass(broker)
        # The line comes when the process has ended, and a scrape is shared for a second.
        eventually(f"failure {number} in the log", lambda number=number: broker.log_text().count(_KILLED) == number)
        produce(cluster)
        eventually("no outputs", lambda: not outputs(broker))
        eventually(
            f"{number} failures",
            lambda number=number: metric(broker, "raftka_compaction_failures_total") == number,
        )
    assert broker.log_text().count("tries again in 1 s") == 2
    assert broker.log_text().count("rests until the broker starts again") == 1
    told = raftka("doctor", "--brokers", cluster.bootstrap, "--admin", broker.admin).stdout
    assert f"{_TOPIC}-0 are not compacted any more" in told, told
    assert metric(broker, "raftka_compaction_suspended_partitions") == 1
    assert metric(broker, "raftka_compaction_passes_total") == 0
    assert passes_of(broker) == []

    # A restart begins anew; nobody kills its passes.
    broker.terminate()
    broker.config |= {"log.cleaner.io.max.bytes.per.second": 0}
    broker.python = sys.executable
    cluster.restart([1])
    # At nice 19 it may wait for the processor.
    eventually("records that a pass has removed", lambda: removed(broker) or None, 120.0)
    assert {key: value for _, key, value in read(cluster, _TOPIC)} == newest | {b"another": b"goes on"}
