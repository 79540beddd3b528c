"""All brokers are killed at once under load at acks=all: every acknowledged record is there at its offset."""

from contextlib import ExitStack

import pytest

from tests.process.acked_log import LoadProducer, check_no_phantom, check_nothing_acked_is_lost, read_all
from tests.process.broker_processes import ClusterMaker
from tests.process.kafka_topics import create_topic

pytestmark = pytest.mark.process

TOPICS = ("orders", "payments")


def test_every_acked_record_survives_the_death_of_all_brokers(make_cluster: ClusterMaker):
    cluster = make_cluster(3)
    cluster.start()
    for topic in TOPICS:
        create_topic(cluster, topic)
    with ExitStack() as stack:
        producers = {
            topic: stack.enter_context(LoadProducer(cluster.bootstrap, topic, topic, acks="all")) for topic in TOPICS
        }
        for _ in range(2):
            for producer in producers.values():
                producer.wait_acked(400)
            for broker in cluster.brokers.values():
                broker.kill()
            cluster.restart(cluster.brokers)
            for producer in producers.values():
                producer.wait_acked(400)
        for producer in producers.values():
            producer.finish()

    for topic, producer in producers.items():
        cluster.wait_in_sync(topic, 0)
        records = read_all(cluster.bootstrap, topic)
        check_nothing_acked_is_lost(records, producer.log)
        check_no_phantom(records, [producer.log])
