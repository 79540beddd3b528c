"""Topics are created, described and deleted through any broker of clusters of one, three and five."""

import re

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from raftka.admin_client import get_json
from tests.process.acked_log import LoadProducer, check_nothing_acked_is_lost, new_consumer, quiet_logger, read_all
from tests.process.broker_processes import BrokerCluster, ClusterMaker, eventually
from tests.process.kafka_topics import (
    admin_client,
    create_topic,
    delete_topic,
    request_topic,
    topics_at,
    wait_topic_everywhere,
    wait_topic_nowhere,
)

pytestmark = pytest.mark.process


def _produce(cluster: BrokerCluster, topic: str, values: list[bytes]) -> None:
    errors: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "logger": quiet_logger()})
    for value in values:
        producer.produce(
            topic, value, partition=0, on_delivery=lambda error, _: error is not None and errors.append(error)
        )
    assert producer.flush(60) == 0
    assert errors == []


def _refusal(cluster: BrokerCluster, topic: NewTopic) -> KafkaError:
    with pytest.raises(KafkaException) as raised:
        request_topic(cluster.bootstrap, topic)
    return raised.value.args[0]


def test_a_topic_is_made_deleted_and_made_again_through_any_broker(shared_cluster: BrokerCluster):
    for node, broker in shared_cluster.brokers.items():
        topic = f"through-{node}"
        for life in range(2):
            request_topic(broker.kafka, NewTopic(topic, 2, 3))
            wait_topic_everywhere(shared_cluster, topic)
            assert read_all(shared_cluster.bootstrap, topic) == []
            values = [f"life {life} record {number}".encode() for number in range(10)]
            _produce(shared_cluster, topic, values)
            assert [record.value for record in read_all(shared_cluster.bootstrap, topic)] == values
            delete_topic(broker.kafka, topic)
            wait_topic_nowhere(shared_cluster, topic)


def test_a_topic_can_be_used_as_soon_as_its_creation_is_answered(shared_cluster: BrokerCluster):
    for number in range(10):
        topic, address = f"used-at-once-{number}", shared_cluster[1 + number % 3].kafka
        request_topic(address, NewTopic(topic, 3, 3))
        consumer = new_consumer(address)
        try:
            for partition in range(3):
                assert consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=60) == (0, 0)
        finally:
            consumer.close()


def test_a_deleted_topic_leaves_no_files(shared_cluster: BrokerCluster):
    create_topic(shared_cluster, "leaves-no-files")
    _produce(shared_cluster, "leaves-no-files", [b"value"])
    logs = [broker.log_text() for broker in shared_cluster.brokers.values()]
    [group] = {re.search(r"partition leaves-no-files-0 is group (\S+)/0", log)[1] for log in logs}
    folders = [broker.data_dir / "groups" / f"{group}-0" for broker in shared_cluster.brokers.values()]
    assert all(folder.is_dir() for folder in folders)
    delete_topic(shared_cluster.bootstrap, "leaves-no-files")
    for folder in folders:
        eventually(f"{folder} gone", lambda folder=folder: not folder.exists())


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"no.such.key": "1"}, "no.such.key"),
        ({"segment.bytes": "lots"}, "segment.bytes"),
        ({"segment.bytes": "1"}, "segment.bytes"),
        ({"max.message.bytes": "-1"}, "max.message.bytes"),
        ({"cleanup.policy": "compacted"}, "cleanup.policy"),
        ({"retention.ms": "-2"}, "retention.ms"),
        ({"min.insync.replicas": "4"}, "min.insync.replicas"),
    ],
)
def test_a_config_that_cannot_be_honoured_is_refused(shared_cluster: BrokerCluster, config: dict[str, str], said: str):
    error = _refusal(shared_cluster, NewTopic("refused-config", 1, 3, config=config))
    assert error.code() == KafkaError.INVALID_CONFIG
    assert said in error.str()
    assert "refused-config" not in topics_at(shared_cluster.bootstrap)


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (NewTopic("too-many-replicas", 1, 4), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("no-replicas", 1, 0), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("too-many-partitions", 100_000, 3), KafkaError.INVALID_PARTITIONS),
        (NewTopic("bad name", 1, 3), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("..", 1, 3), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("", 1, 3), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("x" * 250, 1, 3), KafkaError.TOPIC_EXCEPTION),
    ],
    ids=lambda value: value.topic[:20] if isinstance(value, NewTopic) else str(value),
)
def test_a_topic_that_cannot_be_is_refused(shared_cluster: BrokerCluster, topic: NewTopic, code: int):
    before = topics_at(shared_cluster.bootstrap)
    assert _refusal(shared_cluster, topic).code() == code
    assert topics_at(shared_cluster.bootstrap) == before


def test_what_exists_is_not_made_and_what_does_not_is_not_deleted(shared_cluster: BrokerCluster):
    create_topic(shared_cluster, "exists")
    assert _refusal(shared_cluster, NewTopic("exists", 1, 3)).code() == KafkaError.TOPIC_ALREADY_EXISTS
    with pytest.raises(KafkaException) as raised:
        delete_topic(shared_cluster.bootstrap, "never-existed")
    assert raised.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_validated_topic_is_not_made(shared_cluster: BrokerCluster):
    admin = admin_client(shared_cluster.bootstrap)
    admin.create_topics([NewTopic("only-validated", 1, 3)], validate_only=True)["only-validated"].result(60)
    assert "only-validated" not in topics_at(shared_cluster.bootstrap)


def test_every_broker_describes_the_same_cluster(shared_cluster: BrokerCluster):
    clients = [admin_client(broker.kafka) for broker in shared_cluster.brokers.values()]
    results = [client.describe_cluster(request_timeout=60).result(60) for client in clients]
    assert len({result.cluster_id for result in results}) == 1
    for result in results:
        nodes = {(node.id, f"{node.host}:{node.port}") for node in result.nodes}
        assert nodes == {(node, broker.kafka) for node, broker in shared_cluster.brokers.items()}
        assert result.controller.id in shared_cluster.brokers


def test_a_topic_is_deleted_under_a_producer_that_is_told(make_cluster: ClusterMaker):
    cluster = make_cluster(3)
    cluster.start()
    create_topic(cluster, "doomed")
    create_topic(cluster, "stays")
    with (
        LoadProducer(cluster.bootstrap, "stays", "stays", acks="all", retries=0) as bystander,
        LoadProducer(cluster.bootstrap, "doomed", "doomed", acks="all", **{"message.timeout.ms": 5_000}) as victim,
    ):
        victim.wait_acked(200)
        bystander.wait_acked(200)
        delete_topic(cluster.bootstrap, "doomed")
        wait_topic_nowhere(cluster, "doomed")
        eventually("an error for the producer", lambda: len(victim.log.failed) > 0)
        bystander.wait_acked(200)
        victim.finish()
        bystander.finish()
    assert bystander.log.failed == {}
    check_nothing_acked_is_lost(read_all(cluster.bootstrap, "stays"), bystander.log)
    assert [broker.is_running for broker in cluster.brokers.values()] == [True] * 3


def test_a_cluster_of_one_serves_without_seeds_and_remembers(make_cluster: ClusterMaker):
    cluster = make_cluster(1, seeds=[])
    cluster.start()
    create_topic(cluster, "alone", partitions=4)
    _produce(cluster, "alone", [b"a", b"b"])
    assert _refusal(cluster, NewTopic("two-replicas", 1, 2)).code() == KafkaError.INVALID_REPLICATION_FACTOR
    assert cluster[1].terminate() == 0
    cluster.restart([1])
    assert topics_at(cluster.bootstrap) == {"alone": 4}
    assert [record.value for record in read_all(cluster.bootstrap, "alone")] == [b"a", b"b"]


def test_five_brokers_lose_two_and_serve_on(make_cluster: ClusterMaker):
    cluster = make_cluster(5)
    cluster.start()
    create_topic(cluster, "five", partitions=3, replicas=5)
    create_topic(cluster, "three", partitions=10, replicas=3)
    create_topic(cluster, "one", partitions=5, replicas=1)
    placed = [cluster.partition("three", partition)["replicas"] for partition in range(10)]
    counts = [sum(node in replicas for replicas in placed) for node in cluster.brokers]
    assert sum(counts) == 30
    assert max(counts) - min(counts) <= 1, f"replicas per broker: {counts}"

    _produce(cluster, "five", [b"before"])
    for node in (1, 2):
        cluster[node].kill()
    survivors = ",".join(broker.kafka for broker in cluster.running)
    eventually("dead brokers noticed", lambda: _alive(cluster) == [3, 4, 5])
    # Two of five partitions with a single replica have nobody who could lead them.
    eventually("nobody named as leader of what is away", lambda: _leaders(cluster, "one") == [-1, -1, 3, 4, 5])
    _produce(cluster, "five", [b"after"])
    assert [record.value for record in read_all(survivors, "five")] == [b"before", b"after"]
    request_topic(survivors, NewTopic("made-by-three", 1, 3))
    cluster.restart([1, 2])
    for node in (1, 2):
        eventually(f"made-by-three at node {node}", lambda node=node: "made-by-three" in topics_at(cluster[node].kafka))
    cluster.wait_in_sync("five", 0)
    eventually("the leaders are back", lambda: _leaders(cluster, "one") == [1, 2, 3, 4, 5])


def _leaders(cluster: BrokerCluster, topic: str) -> list[int]:
    partitions = admin_client(cluster[3].kafka).list_topics(timeout=30).topics[topic].partitions.values()
    return sorted(partition.leader for partition in partitions)


def _alive(cluster: BrokerCluster) -> list[int]:
    _, brokers = get_json(cluster[3].admin, "/v1/brokers")
    return [broker["node_id"] for broker in brokers if broker["alive"]]
