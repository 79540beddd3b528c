"""Options of running brokers, by the command line: for all and for one, at once, and after all brokers have restarted."""

import json
from typing import Any

import pytest

from tests.process.broker_processes import BrokerCluster, ClusterMaker, eventually
from tests.process.command_line import raftka
from tests.process.kafka_topics import create_topic

pytestmark = pytest.mark.process

LAG = "replica.lag.time.max.ms"


def config(cluster: BrokerCluster, *arguments: str, code: int = 0) -> str:
    done = raftka("cluster", "config", *arguments, code=code, RAFTKA_BROKERS=cluster.bootstrap)
    return done.stdout if code == 0 else done.stderr


def rows(cluster: BrokerCluster, key: str) -> list[tuple[str, str, list[int]]]:
    """Return (value, where it comes from, brokers) of an option."""
    found: list[dict[str, Any]] = json.loads(config(cluster, "get", key, "-f", "json"))
    return [(row["value"], row["source"], row["nodes"]) for row in found]


def in_sync(cluster: BrokerCluster) -> list[int]:
    status = cluster.partition("orders", 0)
    return [] if status is None else sorted(status["in_sync"])


def test_row_r48_options_of_all_brokers_and_of_one_are_set_and_outlive_their_restart(
    make_cluster: ClusterMaker,
) -> None:
    cluster = make_cluster(3, **{LAG: 600_000})
    cluster.start()
    create_topic(cluster, "orders")
    cluster.wait_in_sync("orders", 0)
    leader = cluster.leader_of("orders", 0)
    killed, other = (node for node in (1, 2, 3) if node != leader)
    cluster[killed].kill()
    # For ten minutes its replica would count as in sync.
    assert in_sync(cluster) == [1, 2, 3]
    assert config(cluster, "set", "replication.max.time.lag.millis=300", "-n", str(leader)) == (
        f"changed on broker {leader}\n"
    )
    eventually("the killed replica is out of sync", lambda: in_sync(cluster) == sorted({leader, other}))
    assert config(cluster, "set", f"{LAG}=60000", "log.roll.ms=7000") == "changed on all brokers\n"
    cluster.restart([killed])
    followers = sorted({killed, other})
    expected = {
        ("300", "broker, at run time", (leader,)),
        ("60000", "all brokers, at run time", tuple(followers)),
    }

    def told() -> set[tuple[str, str, tuple[int, ...]]]:
        return {(value, source, tuple(nodes)) for value, source, nodes in rows(cluster, LAG)}

    assert told() == expected
    assert rows(cluster, "log.roll.ms") == [("7000", "all brokers, at run time", [1, 2, 3])]
    for broker in cluster.running:
        broker.terminate()
    cluster.start()
    assert told() == expected
    assert config(cluster, "unset", LAG, "-n", str(leader)) == f"changed on broker {leader}\n"
    assert config(cluster, "unset", LAG) == "changed on all brokers\n"
    eventually("all know it", lambda: rows(cluster, LAG) == [("600000", "broker", [1, 2, 3])])
    refusal = config(cluster, "set", "raft.election.timeout.ms=5000", code=1)
    assert "raft.election.timeout.ms is read when a broker starts" in refusal
    assert "did you mean log.retention.ms?" in config(cluster, "set", "log.retention.msec=5000", code=1)
