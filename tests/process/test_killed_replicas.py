"""A replica is killed under load and comes back: what was promised at acks=all stays, whoever it was."""

from contextlib import ExitStack

import pytest

from tests.process.acked_log import (
    LoadProducer,
    WatermarkWatcher,
    check_no_phantom,
    check_nothing_acked_is_lost,
    check_nothing_twice,
    read_all,
)
from tests.process.broker_processes import ClusterMaker
from tests.process.kafka_topics import create_topic

pytestmark = pytest.mark.process

TOPIC = "orders"


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_killed_replica_loses_nothing_acked_and_rejoins(make_cluster: ClusterMaker, role: str):
    cluster = make_cluster(3)
    cluster.start()
    create_topic(cluster, TOPIC)
    with ExitStack() as stack:
        watcher = stack.enter_context(WatermarkWatcher(cluster.bootstrap, TOPIC))
        retrying, once, relaxed = (
            stack.enter_context(LoadProducer(cluster.bootstrap, TOPIC, name, **options))
            for name, options in {
                "retrying": {"acks": "all"},
                "once": {"acks": "all", "retries": 0},
                "relaxed": {"acks": 1, "retries": 0},
            }.items()
        )
        producers = [retrying, once, relaxed]
        for _ in range(2):
            for producer in producers:
                producer.wait_acked(300)
            watcher.wait_answer()
            leader = cluster.leader_of(TOPIC, 0)
            victim = leader if role == "leader" else next(node for node in cluster.brokers if node != leader)
            cluster[victim].kill()
            cluster.leader_of(TOPIC, 0, other_than=victim)
            for producer in producers:
                producer.wait_acked(300)
            watcher.wait_answer()
            cluster.restart([victim])
        logs = [producer.finish() for producer in producers]
        cluster.wait_in_sync(TOPIC, 0)

    records = read_all(cluster.bootstrap, TOPIC)
    check_nothing_acked_is_lost(records, retrying.log)
    check_nothing_acked_is_lost(records, once.log)
    check_no_phantom(records, logs)
    check_nothing_twice(records, once.log)
    check_nothing_twice(records, relaxed.log)
    assert watcher.steps_back == []
    assert watcher.high <= len(records)
