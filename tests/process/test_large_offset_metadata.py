"""Long offset metadata beyond what a snapshot may hold: the commit is refused, every broker goes on, also later.

Counted in characters, as brokers once did, these offsets are a quarter of what a snapshot of them holds.
"""

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from raftka.admin_client import get_json
from tests.process.broker_processes import DEADLINE_SECONDS, BrokerCluster, ClusterMaker
from tests.process.kafka_topics import admin_client, create_topic

pytestmark = pytest.mark.process

_PARTITIONS = 500
_GROUPS = 48
# Encoded it has the 4,080 bytes of at most 4,096 that a commit may carry.
_METADATA = "\N{GRINNING FACE}" * 1020
_MIB = 1024 * 1024


def _commit(admin: AdminClient, group: str, metadata: str) -> list[KafkaError | None]:
    """Commit offset 1 of every partition and return the error of each."""
    offsets = [TopicPartition("t", number, 1, metadata) for number in range(_PARTITIONS)]
    request = ConsumerGroupTopicPartitions(group, offsets)
    try:
        answer = admin.alter_consumer_group_offsets([request])[group].result(DEADLINE_SECONDS)
    except KafkaException as error:
        return [error.args[0]]
    assert answer.topic_partitions is not None
    return [each.error for each in answer.topic_partitions]


def _bytes_of_groups(cluster: BrokerCluster, node: int) -> int:
    _, fills = get_json(cluster[node].admin, "/v1/bounds")
    return max(each["used"] for each in fills if "group table" in each["name"] and each["unit"] == "bytes")


def test_offset_metadata_beyond_the_bound_is_refused_and_ends_no_broker(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(3, **{"offsets.topic.num.partitions": 1})
    cluster.start()
    create_topic(cluster, "t", _PARTITIONS, 1)
    admin = admin_client(cluster.bootstrap)
    errors = [error for number in range(_GROUPS) for error in _commit(admin, f"g{number}", _METADATA)]
    refused = {error.code() for error in errors if error is not None}
    assert refused == {KafkaError.INVALID_COMMIT_OFFSET_SIZE}
    # What was taken fills the bound, and what was offered is more than a snapshot may have.
    assert 39 * _MIB < max(_bytes_of_groups(cluster, node) for node in (1, 2, 3)) <= 40 * _MIB
    assert _GROUPS * _PARTITIONS * len(_METADATA.encode()) > 64 * _MIB
    for broker in cluster.running:
        assert broker.terminate() == 0
    cluster.start()
    # A smaller text in place of a longer one is taken whatever the table has.
    assert _commit(admin_client(cluster.bootstrap), "g0", "") == [None] * _PARTITIONS
    assert len(cluster.running) == 3
    for broker in cluster.running:
        assert "Traceback" not in broker.log_text()
