"""`list.offsets.linearizable` as a real client sees it: a broker's default, and a topic that overrides it.

That a leader whom nobody confirms tells the latest offset only where the topic lets it is shown by
tests/simulation/scenarios/test_shared_reads.py and tests/unit/kafka_api/test_shared_confirmations.py. With real
brokers such a leader lasts for seconds only: its links to brokers that are frozen are lost (RFC 0016 section 5).
"""

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import ConfigResource, ResourceType

from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import DEADLINE_SECONDS, ClusterMaker, eventually
from tests.process.kafka_topics import admin_client, alter, create_topic

pytestmark = pytest.mark.process

KEY = "list.offsets.linearizable"


def test_a_brokers_default_is_shown_and_overridden_by_a_topic(make_cluster: ClusterMaker):
    cluster = make_cluster(1, seeds=[], **{KEY: False})
    cluster.start()
    create_topic(cluster, "t")

    def shown() -> tuple[str, int]:
        resource = ConfigResource(ResourceType.TOPIC, "t")
        admin = admin_client(cluster.bootstrap)  # Its futures die with it.
        entry = admin.describe_configs([resource])[resource].result(DEADLINE_SECONDS)[KEY]
        return entry.value, entry.source

    assert shown() == ("false", 4)
    alter(cluster, "t", list_offsets_linearizable="true")
    eventually("the topic's own value", lambda: shown() == ("true", 1))
    alter(cluster, "t", list_offsets_linearizable=None)
    eventually("the broker's value again", lambda: shown() == ("false", 4))
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "logger": quiet_logger()})
    try:
        assert consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=DEADLINE_SECONDS) == (0, 0)
    finally:
        consumer.close()
