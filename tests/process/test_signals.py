"""Signals that end no broker: SIGHUP and SIGUSR1 are a line of its log, SIGUSR2 writes stacks."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from raftka.harmless_signals import HARMLESS_SIGNALS
from tests.process.broker_processes import ClusterMaker, eventually

pytestmark = pytest.mark.process


def test_a_signal_of_other_daemons_is_a_line_of_the_log_and_sigusr2_writes_the_stacks_of_all_threads(
    make_cluster: ClusterMaker,
) -> None:
    cluster = make_cluster(1)
    cluster.start()
    for number in (signal.SIGHUP, signal.SIGUSR1):
        os.kill(cluster[1].pid, number)
        said = f"{number.name} changes nothing"
        eventually("the log names the signal", lambda said=said: said in cluster[1].log_text(), 30.0)
        assert cluster[1].is_running
    os.kill(cluster[1].pid, signal.SIGUSR2)
    eventually("the log has the stacks", lambda: "Current thread" in cluster[1].log_text(), 30.0)
    assert "run_broker" in cluster[1].log_text() or "run_forever" in cluster[1].log_text()
    assert cluster[1].terminate() == 0


@pytest.mark.parametrize("number", HARMLESS_SIGNALS, ids=lambda number: number.name)
def test_a_broker_that_is_just_started_becomes_ready_whatever_comes(
    make_cluster: ClusterMaker, number: signal.Signals
) -> None:
    cluster = make_cluster(1)
    cluster[1].start()
    os.kill(cluster[1].pid, number)
    cluster.wait_ready()
    # Its own handlers are there by now, and no signal is blocked.
    os.kill(cluster[1].pid, signal.SIGUSR1)
    eventually("the log names the signal", lambda: "SIGUSR1 changes nothing" in cluster[1].log_text(), 30.0)
    assert cluster[1].terminate() == 0


def test_raftka_start_passes_a_process_on_that_no_such_signal_ends(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(1)
    broker = cluster[1]
    file = cluster.folder / "broker.toml"
    file.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in broker.config.items()))
    raftka = str(Path(sys.executable).with_name("raftka"))
    with broker.log_path.open("ab") as log:
        broker._process = subprocess.Popen([raftka, "start", "--config", str(file)], stdout=log, stderr=log)
    command_line = Path(f"/proc/{broker.pid}/cmdline")
    eventually("it is a broker process", lambda: b"raftka.broker" in command_line.read_bytes())
    for number in HARMLESS_SIGNALS:
        os.kill(broker.pid, number)
    cluster.wait_ready()
    assert broker.terminate() == 0
