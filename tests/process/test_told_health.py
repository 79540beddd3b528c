"""What a broker and the doctor find of real clusters: one lost broker, a lost quorum, a broker that waits for others."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from raftka.admin_client import AdminError, get_json
from raftka.dev.cluster_file import BrokerEntry, ClusterFolder, ClusterState
from raftka.dev.ports import BrokerAddresses
from tests.process.broker_processes import BrokerCluster, ClusterMaker, eventually
from tests.process.command_line import raftka

pytestmark = pytest.mark.process

# What does not depend on who looks: the doctor compares clocks and configurations, too.
SHARED = ("brokers", "controller", "leaders", "replicas", "writes", "stalled", "copies", "settings", "balance")
Row = dict[str, Any]


def health(cluster: BrokerCluster, node: int) -> Row:
    status, body = get_json(cluster[node].admin, "/v1/health", timeout=10)
    assert status == 200, body
    assert isinstance(body, dict)
    return body


def by_doctor(*arguments: str, code: int, **variables: str) -> list[Row]:
    done = raftka("doctor", "cluster", *arguments, "-f", "json", code=code, **variables)
    findings: list[Row] = json.loads(done.stdout)["findings"]
    return [{key: value for key, value in each.items() if key != "area"} for each in findings]


def shared(findings: list[Row]) -> list[Row]:
    return [each for each in findings if each["what"] in SHARED]


def by_what(findings: list[Row]) -> dict[str, Row]:
    return {each["what"]: each for each in findings}


def test_a_survivor_and_the_doctor_name_the_killed_broker_and_what_it_costs(make_cluster: ClusterMaker) -> None:
    # Its replicas are out of sync after so long.
    cluster = make_cluster(3, **{"replica.lag.time.max.ms": 3_000})
    cluster.start()
    for topic, least in (("orders", 2), ("strict", 3)):
        arguments = ("-p", "2", "-r", "3", "-c", f"min.insync.replicas={least}", "--brokers", cluster.bootstrap)
        raftka("topic", "create", topic, *arguments)
    eventually("a broker finds nothing wrong", lambda: health(cluster, 1)["worst"] in ("ok", "note"))
    assert shared(by_doctor("--brokers", cluster.bootstrap, code=0)) == shared(health(cluster, 1)["findings"])
    cluster[2].kill()
    names = [f"{topic}-{number}" for topic in ("orders", "strict") for number in (0, 1)]

    def both() -> tuple[list[Row], list[Row]] | None:
        seen = health(cluster, 1)
        rows = by_what(seen["findings"])
        if not {"brokers", "replicas", "writes"} <= rows.keys() or rows["leaders"]["level"] != "ok":
            return None
        if not all(name in rows["replicas"]["words"] for name in names) or seen["worst"] != "problem":
            return None
        mine, found = shared(seen["findings"]), shared(by_doctor("--brokers", cluster[1].kafka, code=1))
        return (mine, found) if mine == found else None

    mine, _ = eventually(lambda: f"both say the same: {health(cluster, 1)}", both)
    rows = by_what(mine)
    assert rows["brokers"]["words"] == f"broker 2 at {cluster[2].kafka} does not answer"
    assert rows["brokers"]["cure"].startswith("start the broker")
    assert rows["replicas"]["words"] == f"not in sync on broker 2: {', '.join(names)}"
    assert rows["replicas"]["cause"] == "broker 2 does not answer"
    assert rows["replicas"]["cure"].startswith("bring the missing brokers back; ")
    assert rows["writes"]["words"] == "acks=all is refused by strict-0, strict-1: min.insync.replicas is 3"
    cluster.restart([2])
    eventually("a broker finds nothing wrong again", lambda: health(cluster, 1)["worst"] in ("ok", "note"))


def test_a_frozen_broker_hangs_and_is_not_called_one_that_answers(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(3)
    cluster.start()
    raftka("topic", "create", "orders", "-p", "3", "-r", "3", "--brokers", cluster.bootstrap)
    os.kill(cluster[2].pid, signal.SIGSTOP)
    try:
        # At once its leader has not missed it; its own address comes first and last.
        for brokers in (cluster.bootstrap, f"{cluster[2].kafka},{cluster[1].kafka}"):
            rows = by_what(by_doctor("--brokers", brokers, code=1))
            told = rows["broker 2"]
            assert told["words"] == (
                f"its Kafka port {cluster[2].kafka} takes connections and answers nothing: it hangs or is stopped"
            )
            assert "raftka dev restart 2" in told["cure"]
            assert "brokers" not in rows
        said = raftka("cluster", "health", "--brokers", cluster.bootstrap, code=1).stdout.splitlines()
        assert "missing brokers: 2" in said
        # By its address alone once the others' Metadata does not name it any more.
        assert f"{cluster[2].kafka} takes connections and answers nothing: it hangs or is stopped" in said[-2]
        assert "  cure: " in said[-1]
        assert "`kill -CONT PID` wakes it" in said[-1]
        (alone,) = by_doctor("--brokers", cluster[2].kafka, code=1)
        assert alone["words"].startswith(f"{cluster[2].kafka} takes connections and answers nothing")
        eventually("a survivor misses it", lambda: "brokers" in by_what(by_doctor("--admin", cluster[1].admin, code=1)))
        lost = by_what(by_doctor("--admin", cluster[1].admin, code=1))["brokers"]
        assert "restart it if it hangs" in lost["cure"]
    finally:
        os.kill(cluster[2].pid, signal.SIGCONT)
    eventually("a broker finds nothing wrong again", lambda: health(cluster, 1)["worst"] in ("ok", "note"))


def test_a_broker_without_a_quorum_says_so_at_its_admin_port(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(3)
    cluster.start()
    for node in (2, 3):
        cluster[node].kill()

    def found() -> dict[str, Row] | None:
        rows = by_what(by_doctor("--admin", cluster[1].admin, code=1))
        return rows if {"brokers", "controller", "broker 1"} <= rows.keys() else None

    rows = eventually("the survivor misses both and the controller", found)
    lost = [f"broker {node} at {cluster[node].kafka} does not answer" for node in (2, 3)]
    assert rows["brokers"]["words"] == ", ".join(lost)
    assert rows["broker 1"]["words"] == "not ready: raft0 has no leader"
    assert rows["broker 1"]["cure"].startswith("start brokers 2, 3")


def test_the_doctor_does_not_want_a_broker_started_that_waits_for_the_others(
    make_cluster: ClusterMaker, tmp_path: Path
) -> None:
    cluster = make_cluster(3)
    cluster.start()
    for node in (1, 2, 3):
        cluster[node].kill()
    folder = ClusterFolder(tmp_path / "share" / "raftka" / "dev")
    folder.path.mkdir(parents=True)
    addresses = [BrokerAddresses(each.kafka, f"{each.host}:1", each.admin) for each in cluster.brokers.values()]
    entries = tuple(BrokerEntry(node, each) for node, each in enumerate(addresses, 1))
    folder.save(ClusterState(entries, ephemeral=False))
    cluster[2].start()

    def runs() -> bool:
        try:
            return get_json(cluster[2].admin, "/v1/status/ready")[0] == 503
        except AdminError:
            return False

    eventually("its admin port answers", runs)
    rows = by_what(by_doctor("--brokers", cluster[2].kafka, code=1, XDG_DATA_HOME=str(tmp_path / "share")))
    told = rows["broker 2"]
    assert told["words"].startswith(f"runs, but serves no clients at {cluster[2].kafka}: ")
    assert told["cure"].startswith("start brokers 1, 3")
    away = [f"broker {node} at {cluster[node].kafka} does not answer" for node in (1, 3)]
    assert rows["brokers"]["words"] == ", ".join(away)


@pytest.mark.parametrize("query", ["since=1", "view=health"])
def test_health_takes_no_parameter(shared_cluster: BrokerCluster, query: str) -> None:
    status, body = get_json(shared_cluster[1].admin, f"/v1/health?{query}", timeout=10)
    assert status == 400
    assert query.partition("=")[0] in body["error"]
