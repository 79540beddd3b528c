"""Brokers under a double of systemd: the process that `raftka start` became is the service, and says how it is."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftka.admin_client import get_json
from tests.notify_double import NotifyDouble
from tests.process.broker_processes import BrokerCluster, BrokerProcess, ClusterMaker, eventually
from tests.process.command_line import RAFTKA

pytestmark = pytest.mark.process

WATCHDOG_USEC = 1_000_000


@pytest.fixture
def double(tmp_path: Path) -> Iterator[NotifyDouble]:
    found = NotifyDouble(tmp_path)
    yield found
    found.close()


class Service:
    """`raftka start` as a service manager starts it: with a configuration file and the manager's variables."""

    def __init__(self, broker: BrokerProcess, double: NotifyDouble) -> None:
        lines = [f"{key} = {json.dumps(value)}" for key, value in broker.config.items()]
        file = broker.log_path.with_suffix(".toml")
        file.write_text("\n".join(lines) + "\n")
        self.log_path = broker.log_path
        with broker.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [*RAFTKA, "start", "--config", str(file)],
                env=double.environment(WATCHDOG_USEC),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(90)

    def log_text(self) -> str:
        return self.log_path.read_text(errors="replace")


@pytest.fixture
def services() -> Iterator[list[Service]]:
    found: list[Service] = []
    yield found
    for each in found:
        if each.process.poll() is None:
            each.process.kill()
        each.process.wait()


def test_a_broker_is_ready_when_it_serves_and_says_that_it_lives_and_stops(
    make_cluster: ClusterMaker, double: NotifyDouble, services: list[Service]
) -> None:
    cluster = make_cluster(1)
    service = Service(cluster[1], double)
    services.append(service)
    ready = double.wait_for("READY=1")
    # NotifyAccess=main: nobody else's messages count.
    assert {message.pid for message in double.messages} == {service.process.pid} == {ready.pid}
    assert double.messages[0].status is not None
    # It has registered; its replicas may still be opened.
    answer = (200, {"ready": True, "node_id": 1})
    eventually("the broker is ready", lambda: get_json(cluster[1].admin, "/v1/status/ready") == answer)
    for _ in range(3):
        double.wait_for("WATCHDOG=1")
    assert service.stop() == 0
    assert double.wait_for("STOPPING=1").status == "stopping"
    assert b"NOTIFY_SOCKET" not in service.log_path.read_bytes()


def test_a_broker_that_waits_for_others_is_not_ready_and_says_so(
    make_cluster: ClusterMaker, double: NotifyDouble, services: list[Service], tmp_path: Path
) -> None:
    cluster: BrokerCluster = make_cluster(3)
    service = Service(cluster[1], double)
    services.append(service)
    eventually("it waits for the others", lambda: "no seed answers" in service.log_text())
    double.wait_for("STATUS=not ready: ")
    assert not any("READY=1" in message.lines for message in double.messages)
    for node in (2, 3):
        cluster[node].start()
    ready = double.wait_for("READY=1")
    if ready.status != "ready":
        double.wait_for("STATUS=ready")
    assert service.stop() == 0


def test_a_broker_that_refuses_to_start_leaves_the_reason_as_its_status(
    make_cluster: ClusterMaker, double: NotifyDouble, services: list[Service]
) -> None:
    cluster = make_cluster(1)
    cluster[1].start()
    cluster[1].wait_ready()
    # Its ports and its directory are taken.
    service = Service(cluster[1], double)
    services.append(service)
    assert service.process.wait(90) != 0
    last = double.wait_for("STOPPING=1")
    assert last.status is not None
    assert last.status in service.log_text()
    assert not any("READY=1" in message.lines for message in double.messages)


def test_a_broker_that_the_watchdog_ends_leaves_its_stacks(
    make_cluster: ClusterMaker, double: NotifyDouble, services: list[Service]
) -> None:
    cluster = make_cluster(1)
    service = Service(cluster[1], double)
    services.append(service)
    double.wait_for("READY=1")
    os.kill(service.process.pid, signal.SIGSTOP)
    # The kernel has stopped it when its state says so; what it sent before is taken here.
    eventually("it is stopped", lambda: _state(service.process.pid) == "T")
    double.take_all()
    # Longer than systemd would wait.
    assert double.take(2 * WATCHDOG_USEC / 1_000_000) is None
    # What systemd sends then; a process that is stopped gets it when it goes on.
    os.kill(service.process.pid, signal.SIGABRT)
    code = service.stop(signal.SIGCONT)
    _, said, stacks = service.log_text().partition("Fatal Python error: Aborted")
    assert said
    if code == -signal.SIGSEGV:
        # CPython 3.11 walks over the frames of threads that run on meanwhile, and may fall over one: seen once in some
        # hundred runs. The broker has ended all the same, with the stacks up to there.
        return
    assert code == -signal.SIGABRT
    # Those of all threads. Of the main thread there may be the innermost frame alone: CPython 3.11 tells no others
    # where the signal comes in the middle of a call.
    assert "raftka/broker/loop_watchdog.py" in stacks
    assert stacks.count("(most recent call first)") >= 2


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
