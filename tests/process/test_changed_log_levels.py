"""Levels of loggers change while a broker runs, by any client that knows KIP-412 and by the command line."""

import json
import re

import pytest
from confluent_kafka import Producer

from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import BrokerCluster, ClusterMaker, eventually
from tests.process.command_line import raftka
from tests.process.kafka_python import ConfigResource, KafkaAdminClient, with_kafka_python
from tests.process.kafka_topics import create_topic

pytestmark = pytest.mark.process


def _log_level(cluster: BrokerCluster, *arguments: str, code: int = 0) -> str:
    done = raftka("cluster", "log-level", *arguments, code=code, RAFTKA_BROKERS=cluster.bootstrap)
    return done.stdout if code == 0 else done.stderr


def _row(shown: str, logger: str) -> list[str]:
    [line] = [line for line in shown.splitlines() if line.startswith(f"{logger} ")]
    return line.split()


def _debug_lines(log: str) -> list[str]:
    return re.findall(r" DEBUG   raft \[.*", log)


def test_a_level_is_set_shown_and_gone_with_the_process(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(3)
    cluster.start()
    create_topic(cluster, "orders")
    assert _row(_log_level(cluster), "raft") == ["raft", "INFO", "root", "1,2,3"]
    assert _log_level(cluster, "raft", "debug") == "raft: DEBUG, on 1, 2, 3, until a broker ends\n"
    assert _row(_log_level(cluster, "raft"), "raft") == ["raft", "DEBUG", "raft", "1,2,3"]
    # A follower that was away is recovered, which is told at DEBUG alone.
    cluster[2].kill()
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "logger": quiet_logger()})
    producer.produce("orders", b"value")
    assert producer.flush(60) == 0
    cluster.restart([2])
    others = [cluster[node] for node in (1, 3)]
    eventually(
        lambda: f"no line at DEBUG{cluster.log_tails()}",
        lambda: any(_debug_lines(each.log_text()) for each in others),
        60.0,
    )
    assert _row(_log_level(cluster, "raft", "-n", "2"), "raft") == ["raft", "INFO", "root", "2"]
    assert _log_level(cluster, "raft", "inherit", "-n", "1").startswith("raft: the level of the logger above it, on 1")
    rows = json.loads(_log_level(cluster, "raft", "-f", "json"))
    assert rows == [
        {"logger": "raft", "level": "INFO", "from": "root", "nodes": [1, 2]},
        {"logger": "raft", "level": "DEBUG", "from": "raft", "nodes": [3]},
    ]
    changed = json.loads(_log_level(cluster, "raft", "inherit", "-f", "json"))
    assert changed == [{"logger": "raft", "level": "INFO", "from": "root", "nodes": [1, 2, 3]}]
    changed = json.loads(_log_level(cluster, "kafka.groups", "warn", "-n", "2", "-f", "json"))
    assert changed == [{"logger": "kafka.groups", "level": "WARNING", "from": "kafka.groups", "nodes": [2]}]
    assert "WARNING broker log level of raft: DEBUG, until this broker ends" in " ".join(cluster[3].log_text().split())


def test_an_unknown_logger_or_level_is_refused_with_the_names(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(1)
    cluster.start()
    for arguments in (["raft.x"], ["raft.x", "DEBUG"]):
        said = _log_level(cluster, *arguments, code=1)
        assert "unknown logger 'raft.x': the loggers are root, " in said
        assert ", raft, rpc, storage" in said
    said = _log_level(cluster, "raft", "TRACE", code=1)
    assert (
        "broker 1: unknown log level 'TRACE': the levels are DEBUG, INFO, WARNING (WARN), ERROR, CRITICAL (FATAL)"
        in said
    )
    assert "broker 9 is not in the cluster; brokers: 1" in _log_level(cluster, "-n", "9", code=1)


@with_kafka_python
def test_a_client_that_knows_loggers_describes_and_sets_them(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(1)
    cluster.start()
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:

        def change(logger: str, level: str) -> str:
            resource = ConfigResource("BROKER_LOGGER", "1", {logger: level})
            return str(admin.alter_configs([resource], raise_on_unknown=False)["broker_logger"]["1"])

        assert change("raft", "DEBUG") == "OK"
        described = admin.describe_configs([ConfigResource("BROKER_LOGGER", "1")], config_filter="all")
        levels = {name: entry["value"] for name, entry in described["broker_logger"]["1"].items()}
        assert (levels["raft"], levels["root"]) == ("DEBUG", "INFO")
        for logger, level, named in (
            ("nix", "DEBUG", "the loggers are root"),
            ("raft", "LOUD", "the levels are DEBUG"),
        ):
            refused = change(logger, level)
            assert "InvalidConfigurationError" in refused
            assert named in refused
    finally:
        admin.close()
