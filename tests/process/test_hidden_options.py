"""What `ps` shows of a broker: its node id, and neither options nor paths."""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.process.broker_processes import ClusterMaker
from tests.process.command_line import RAFTKA, started

pytestmark = pytest.mark.process

BEGINNING = [sys.executable, "-I", "-u", "-m", "raftka.broker", "--node-id"]


def _arguments(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().rstrip("\0").split("\0")


def _open_files(pid: int) -> list[str]:
    return [os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()]


def test_a_broker_shows_its_node_id_and_no_options(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(3)
    cluster.start()
    for node, broker in cluster.brokers.items():
        *command, descriptor = _arguments(broker.pid)
        assert command == [*BEGINNING, str(node), "--config-fd"]
        assert descriptor.isdigit()
        # Nor can the file be read any more: the broker has closed it.
        assert not any("raftka-config" in each for each in _open_files(broker.pid))
        assert broker.terminate() == 0


def test_raftka_start_becomes_a_broker_that_shows_no_options(tmp_path: Path) -> None:
    ports = [f"--{name}-port=0" for name in ("kafka", "rpc", "admin")]
    with started([*RAFTKA, "start", "--node-id", "7", "--data-dir", str(tmp_path / "hidden"), *ports]) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "listens for Kafka" in line)
        assert str(tmp_path / "hidden") in line
        assert _arguments(process.pid)[:-1] == [*BEGINNING, "7", "--config-fd"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
