"""The end that ListOffsets tells of a partition, over elections: Spark's source ends its batches there."""

from contextlib import ExitStack

import pytest

from tests.process.acked_log import LoadProducer, WatermarkWatcher, high_watermark
from tests.process.broker_processes import ClusterMaker
from tests.process.kafka_topics import create_topic

pytestmark = pytest.mark.process

TOPIC = "orders"
KILLS = 2


def test_end_offsets_never_go_backwards_across_elections_under_process_kills(make_cluster: ClusterMaker):
    cluster = make_cluster(3)
    cluster.start()
    create_topic(cluster, TOPIC)
    with ExitStack() as stack:
        watcher = stack.enter_context(WatermarkWatcher(cluster.bootstrap, TOPIC))
        producer = stack.enter_context(LoadProducer(cluster.bootstrap, TOPIC, "load", acks="all"))
        for _ in range(KILLS):
            producer.wait_acked(200)
            watcher.wait_answer()
            leader = cluster.leader_of(TOPIC, 0)
            cluster[leader].kill()
            cluster.leader_of(TOPIC, 0, other_than=leader)
            producer.wait_acked(200)
            watcher.wait_answer()
            cluster.restart([leader])
        producer.finish()
        watcher.wait_answer()
    assert watcher.steps_back == []
    assert watcher.high == high_watermark(cluster.bootstrap, TOPIC)
