"""Brokers of a dev cluster are killed until an alert's condition holds; then the alert's cure is typed, and it ends.

The condition is read from what the brokers expose, without Prometheus; tests/process/test_real_prometheus.py runs one.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from raftka.monitoring.alerts import ALERTS
from tests.process.broker_processes import eventually
from tests.process.command_line import DevFolder, raftka, start_detached

BY_NAME = {alert.name: alert for alert in ALERTS}
NODES = (1, 2, 3)
SECONDS = 60.0


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevFolder]:
    folder = start_detached(tmp_path_factory.mktemp("dev") / "three", 3)
    try:
        # One copy on each broker, three copies, and three copies of which three must be in sync.
        folder.client("topic", "create", "single", "-p", "3", "-r", "1")
        folder.client("topic", "create", "copied", "-p", "3", "-r", "3")
        folder.client("topic", "create", "strict", "-p", "3", "-r", "3", "--config", "min.insync.replicas=3")
        yield folder
    finally:
        folder.dev("stop")


def values(three: DevFolder, name: str) -> list[float]:
    """Return the values of a gauge at all brokers that run."""
    found = []
    for broker in three.status():
        if broker["alive"]:
            try:
                with urlopen(f"http://{broker['admin']}/metrics", timeout=10) as answer:
                    text = answer.read().decode()
            except OSError:
                continue
            found += [float(value) for value in re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", text, re.MULTILINE)]
    return found


def lost(three: DevFolder) -> float:
    pairs = zip(values(three, "raftka_cluster_brokers"), values(three, "raftka_cluster_brokers_alive"), strict=True)
    return max((brokers - alive for brokers, alive in pairs), default=0)


# What each expression says, of one moment.
CONDITIONS: dict[str, Callable[[DevFolder], bool]] = {
    "RaftkaBrokerLost": lambda three: lost(three) > 0,
    "RaftkaNoController": lambda three: not values(three, "raftka_cluster_brokers"),
    "RaftkaOfflinePartitions": lambda three: max(values(three, "raftka_cluster_offline_partitions"), default=0) > 0,
    "RaftkaUnderMinIsrPartitions": lambda three: sum(values(three, "raftka_under_min_isr_partitions")) > 0,
    "RaftkaUnderReplicatedPartitions": lambda three: sum(values(three, "raftka_under_replicated_partitions")) > 0,
    "RaftkaPeerDown": lambda three: 0 in values(three, "raftka_peer_up"),
}
KILLED = {name: [2] for name in CONDITIONS} | {"RaftkaNoController": [2, 3]}


def type_cure(three: DevFolder, name: str, node: int) -> None:
    """Type the commands of an alert for one broker."""
    for command in BY_NAME[name].commands:
        program, *words = command.replace(" N", f" {node}").replace(" TOPIC ", " strict ").split()
        assert program == "raftka"
        if words[0] == "dev":
            three.dev(*words[1:])
        elif words[0] == "doctor":
            # It names the problem as long as there is one: its exit code says so.
            found = raftka("doctor", "cluster", "-f", "json", "--brokers", three.bootstrap, code=1)
            assert not json.loads(found.stdout)["well"]
        else:
            three.client(*words)


@pytest.mark.parametrize("name", CONDITIONS)
def test_the_cure_of_an_alert_ends_it(three: DevFolder, name: str) -> None:
    holds = CONDITIONS[name]
    eventually(f"{name} does not hold before", lambda: not holds(three), SECONDS)
    for node in KILLED[name]:
        three.dev("kill", str(node))
    eventually(f"{name} holds", lambda: holds(three), SECONDS)
    for node in KILLED[name]:
        type_cure(three, name, node)
    eventually(f"{name} has ended", lambda: not holds(three), SECONDS)
    for other, condition in CONDITIONS.items():
        eventually(f"{other} has ended", lambda condition=condition: not condition(three), SECONDS)


def test_the_page_shows_the_commands_that_are_typed_here() -> None:
    page = (Path(__file__).parents[3] / "docs" / "operations" / "alerts.md").read_text()
    for name in CONDITIONS:
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert [line[2:] for line in section.splitlines() if line.startswith("$ ")] == list(BY_NAME[name].commands)
