"""Signals that end no broker: SIGHUP and SIGUSR1 are a line of its log, SIGUSR2 writes stacks."""

import os
import signal

import pytest

from tests.process.broker_processes import ClusterMaker, eventually

pytestmark = pytest.mark.process


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1], ids=lambda number: number.name)
def test_a_signal_of_other_daemons_is_a_line_of_the_log(make_cluster: ClusterMaker, number: signal.Signals) -> None:
    cluster = make_cluster(1)
    cluster.start()
    os.kill(cluster[1].pid, number)
    eventually("the log names the signal", lambda: f"{number.name} changes nothing" in cluster[1].log_text(), 30.0)
    assert cluster[1].is_running
    assert cluster[1].terminate() == 0


def test_sigusr2_writes_the_stacks_of_all_threads(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(1)
    cluster.start()
    os.kill(cluster[1].pid, signal.SIGUSR2)
    eventually("the log has the stacks", lambda: "Current thread" in cluster[1].log_text(), 30.0)
    assert "run_broker" in cluster[1].log_text() or "run_forever" in cluster[1].log_text()
    assert cluster[1].terminate() == 0
