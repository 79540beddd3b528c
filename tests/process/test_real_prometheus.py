"""A real Prometheus, with the rules of `raftka generate alerts`, sees alerts fire and end: a kill, a cut, a full disk.

The rules are as they are printed, but for times: a condition must hold for five seconds, and an expression looks back
one minute. What no kill, cut or full disk does is left to promtool (tests/unit/monitoring/test_promtool.py).
"""

import json
import os
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from raftka.chaos.network_namespace import NetworkNamespaceError, own_network
from tests.needed_tools import needs_tools
from tests.process.acked_log import LoadProducer
from tests.process.broker_processes import BrokerCluster, ClusterMaker, eventually
from tests.process.command_line import raftka
from tests.process.group_members import GROUP_OPTIONS, Member, fill
from tests.process.kafka_topics import create_topic
from tests.small_disks import small_disk

pytestmark = [pytest.mark.process, pytest.mark.long, needs_tools("prometheus")]

_PORT = 19_090
_GIB = 1 << 30
_WAITS = re.compile(r"^(\s+for:) \S+$", re.MULTILINE)
_RANGES = re.compile(r"\[\d+m\]")
_CONFIG = """\
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [alerts.yml]
scrape_configs:
  - job_name: raftka
    static_configs: [{targets: TARGETS}]
"""


class Prometheus:
    """One process that scrapes a cluster."""

    def __init__(self, folder: Path, cluster: BrokerCluster) -> None:
        folder.mkdir()
        shortened, count = _WAITS.subn(r"\1 5s", raftka("generate", "alerts").stdout)
        assert count, "no rule waits any more"
        shortened, count = _RANGES.subn("[1m]", shortened)
        assert count, "no rule looks back any more"
        (folder / "alerts.yml").write_text(shortened)
        targets = [broker.admin for broker in cluster.brokers.values()]
        (folder / "prometheus.yml").write_text(_CONFIG.replace("TARGETS", json.dumps(targets)))
        self._address = f"{cluster.network}.250:{_PORT}"
        program = shutil.which("prometheus")
        assert program is not None
        command = [
            program,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={self._address}",
        ]
        with (folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def ask(self, path: str, **query: str) -> dict[str, object] | None:
        """Return the data of an answer; None while there is none."""
        url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return dict(json.load(answer)["data"])
        except OSError:
            return None

    def firing(self) -> set[str] | None:
        """Return the names of the alerts that fire."""
        found = self.ask("alerts")
        if found is None:
            return None
        alerts: list[dict[str, object]] = found["alerts"]  # type: ignore[assignment]
        return {str(each["labels"]["alertname"]) for each in alerts if each["state"] == "firing"}  # type: ignore[index]

    def wait_firing(self, names: set[str]) -> None:
        """Wait until at least these alerts fire."""
        eventually(lambda: f"{sorted(names)} fire: {self.firing()}", lambda: names <= (self.firing() or set()))

    def wait_ended(self, names: set[str]) -> None:
        """Wait until none of these alerts fires."""

        def have_ended() -> bool:
            firing = self.firing()
            return firing is not None and not names & firing

        eventually(lambda: f"{sorted(names)} end: {self.firing()}", have_ended)

    def value(self, query: str) -> float | None:
        """Return the value of an expression that has one series at most; None: it has none."""
        found = self.ask("query", query=query)
        results: list[dict[str, list[str]]] = [] if found is None else found["result"]  # type: ignore[assignment]
        return float(results[0]["value"][1]) if results else None

    def wait_scraping(self, brokers: int) -> None:
        """Wait until it has scraped every broker."""
        eventually("all brokers are scraped", lambda: self.value("sum(up)") == brokers)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def watched(stack: ExitStack, cluster: BrokerCluster, tmp_path: Path) -> Prometheus:
    """Start the cluster and a Prometheus that watches it, and wait until no alert on partitions or brokers fires."""
    cluster.start()
    prometheus = Prometheus(tmp_path / "prometheus", cluster)
    stack.callback(prometheus.stop)
    prometheus.wait_scraping(len(cluster.brokers))
    return prometheus


_OF_BROKERS = {"RaftkaBrokerLost", "RaftkaPeerDown", "RaftkaUnderReplicatedPartitions", "RaftkaUnderMinIsrPartitions"}


def commit(cluster: BrokerCluster, group: str, topic: str) -> None:
    """Let a group have read one record of each of three partitions."""
    fill(cluster, topic, ["one", "two", "three"], 3)
    with closing(Member(cluster, group, topic)) as member:
        member.consumer.commit(offsets=[TopicPartition(topic, number, 1) for number in range(3)], asynchronous=False)


def test_alerts_fire_after_kills_and_end_after_restarts(stack: ExitStack, make_cluster: ClusterMaker, tmp_path: Path):
    cluster = make_cluster(3, **GROUP_OPTIONS, **{"telemetry.enable": True})
    prometheus = watched(stack, cluster, tmp_path)
    create_topic(cluster, "strict", 3, **{"min.insync.replicas": 3})
    create_topic(cluster, "single", 3, replicas=1)
    commit(cluster, "readers", "single")
    of_partitions = {"RaftkaOfflinePartitions", "RaftkaGroupLagUnknown"}
    of_majorities = {"RaftkaNoController", "RaftkaPeerDown", "RaftkaTelemetryFails"}
    prometheus.wait_ended(_OF_BROKERS | of_partitions | of_majorities)

    cluster[2].kill()
    prometheus.wait_firing(_OF_BROKERS | of_partitions)
    cluster.restart([2])
    prometheus.wait_ended(_OF_BROKERS | of_partitions)

    cluster[2].kill()
    cluster[3].kill()
    prometheus.wait_firing(of_majorities)
    cluster.restart([2, 3])
    prometheus.wait_ended(_OF_BROKERS | of_partitions | of_majorities)


def test_the_alert_on_restarts_fires_after_three_of_them_and_ends_when_they_are_long_ago(
    stack: ExitStack, make_cluster: ClusterMaker, tmp_path: Path
):
    cluster = make_cluster(1)
    prometheus = watched(stack, cluster, tmp_path)
    prometheus.wait_ended({"RaftkaRestarts"})
    changes = "changes(process_start_time_seconds[1m])"
    for number in (1, 2, 3):
        cluster[1].kill()
        cluster.restart([1])
        eventually("the new process is scraped", lambda least=number: (prometheus.value(changes) or 0) >= least)
    prometheus.wait_firing({"RaftkaRestarts"})
    prometheus.wait_ended({"RaftkaRestarts"})


def test_alerts_fire_when_a_broker_is_cut_off_and_end_when_the_links_are_healed(
    stack: ExitStack, make_cluster: ClusterMaker, tmp_path: Path
):
    try:
        network = stack.enter_context(own_network())
    except NetworkNamespaceError as error:
        pytest.fail(str(error))
    cluster = make_cluster(3)
    prometheus = watched(stack, cluster, tmp_path)
    stack.callback(cluster.stop)
    create_topic(cluster, "orders", 3, **{"min.insync.replicas": 3})
    names = _OF_BROKERS | {"RaftkaStalledPartitions"}
    prometheus.wait_ended(names)

    # What the leader takes in the moment before it knows that it is alone is not committed.
    away = cluster.leader_of("orders", 0)
    with LoadProducer(cluster.bootstrap, "orders", "load") as load:
        load.wait_acked(100)
        for other in set(cluster.brokers) - {away}:
            network.cut(cluster[away].host, cluster[other].host)
            network.cut(cluster[other].host, cluster[away].host)
        prometheus.wait_firing(names)
        network.heal()
        prometheus.wait_ended(names)


def test_alerts_on_disks_fire_when_a_disk_is_full_and_end_when_there_is_room(
    stack: ExitStack, make_cluster: ClusterMaker, tmp_path: Path
):
    cluster = make_cluster(3, **{"disk.reserve.bytes": _GIB // 4})
    cluster[1].data_dir.mkdir()
    stack.enter_context(small_disk(cluster[1].data_dir, 4 * _GIB))
    stack.callback(cluster.stop)
    prometheus = watched(stack, cluster, tmp_path)
    names = {"RaftkaDiskSpaceLow", "RaftkaDiskFull"}
    prometheus.wait_ended(names)

    ballast = cluster[1].data_dir / "ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 4 * _GIB - _GIB // 8)
    prometheus.wait_firing(names)
    ballast.unlink()
    prometheus.wait_ended(names)
