"""A broker whose kvstore takes nothing any more: it says so, ends, and comes back with all that it had acknowledged."""

import resource

import pytest
from confluent_kafka import Producer

from tests.process.acked_log import quiet_logger, read_all
from tests.process.broker_processes import BrokerCluster, ClusterMaker
from tests.process.kafka_topics import create_topic

pytestmark = pytest.mark.process

_FILE_BYTES_MAX = 4096
_VALUES = [b"%d" % number for number in range(50)]


def _produce(cluster: BrokerCluster, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "logger": quiet_logger()})
    for value in values:
        producer.produce("orders", value, partition=0)
    assert producer.flush(60) == 0


def test_a_broker_whose_kvstore_fails_ends_and_serves_after_its_next_start(make_cluster: ClusterMaker):
    # The log is a file of the process, too: it stays below what files may have, and the kvstore's WAL goes above it.
    cluster = make_cluster(3, **{"log.level": "ERROR"})
    cluster.start()
    create_topic(cluster, "orders", 24)
    _produce(cluster, _VALUES)
    leader = cluster.leader_of("orders", 0)
    victim = next(broker for broker in cluster.brokers.values() if broker.node_id != leader)
    # No write beyond this size is taken any more (EFBIG): that of the next term is the first.
    resource.prlimit(victim.pid, resource.RLIMIT_FSIZE, (_FILE_BYTES_MAX, resource.RLIM_INFINITY))
    cluster[leader].kill()
    assert victim.wait_exit() == 1, victim.log_tail()
    said = [line for line in victim.log_text().splitlines() if line.startswith("raftka: ")]
    assert len(said) == 1, victim.log_tail()
    assert "kvstore failed" in said[0]
    assert "look at its disk, then start it again" in said[0]
    cluster.restart([victim.node_id, leader])
    cluster.wait_in_sync("orders", 0)
    assert [record.value for record in read_all(cluster.bootstrap, "orders")] == _VALUES
