"""One kcat that writes all the time: an idempotent producer in one process, while the leader is killed under it."""

import subprocess
import time
from pathlib import Path

import pytest

from tests.clients.client import DEADLINE_SECONDS
from tests.clients.referee import Referee
from tests.needed_tools import needs_tools
from tests.process.broker_processes import BrokerCluster

pytestmark = [pytest.mark.process, needs_tools("kcat")]

_BEFORE = _AFTER = 300


def test_a_long_stream_is_there_once_and_in_order_when_its_leader_is_killed(cluster: BrokerCluster, tmp_path: Path):
    referee, topic = Referee(cluster), "kcat.stream"
    referee.create_topic(topic)
    options = ["enable.idempotence=true", "linger.ms=5", "batch.num.messages=25", "message.timeout.ms=300000"]
    options += ["reconnect.backoff.max.ms=500"]
    command = ["kcat", "-b", cluster.bootstrap, "-P", "-t", topic, "-p", "0"]
    command += [part for option in options for part in ("-X", option)]
    log = tmp_path / "kcat.log"
    sent: list[str] = []
    with log.open("wb") as complaints, subprocess.Popen(command, stdin=subprocess.PIPE, stderr=complaints) as process:
        try:
            assert process.stdin is not None

            def write() -> None:
                sent.append(f"record-{len(sent):06}")
                process.stdin.write(f"{sent[-1]}\n".encode())
                process.stdin.flush()
                time.sleep(0.002)  # Many batches, before, during and after the change.

            for _ in range(_BEFORE):
                write()
            victim = referee.leader_of(topic)
            killing = referee.killing(victim, lambda: cluster.leader_of(topic, 0, other_than=victim))
            try:
                while not killing.is_replaced():
                    write()
                for _ in range(_AFTER):
                    write()
            finally:
                killing.finish()
            process.stdin.close()
            assert process.wait(DEADLINE_SECONDS) == 0, log.read_text()
        finally:
            process.kill()
    assert [record.value for record in referee.read(topic, len(sent))] == sent
