"""Topics for the tests: create, and look at, through confluent-kafka's AdminClient."""

from typing import Any

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import DEADLINE_SECONDS, BrokerCluster, eventually


def admin_client(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "logger": quiet_logger()})


def create_topic(
    cluster: BrokerCluster, topic: str, partitions: int = 1, replicas: int | None = None, **config: Any
) -> None:
    """Create a topic (as many replicas as there are brokers, unless told) and wait until all partitions are led."""
    replicas = len(cluster.brokers) if replicas is None else replicas
    request_topic(cluster.bootstrap, NewTopic(topic, partitions, replicas, config=config))
    wait_topic_everywhere(cluster, topic)


def request_topic(bootstrap: str, topic: NewTopic) -> None:
    """Create a topic.

    Raises:
        KafkaException: The broker refused.
    """
    admin = admin_client(bootstrap)  # Its futures die with it.
    admin.create_topics([topic], operation_timeout=30)[topic.topic].result(DEADLINE_SECONDS)


def alter(cluster: BrokerCluster, topic: str, **configs: str | None) -> None:
    """Set keys of a topic (None deletes one), with confluent-kafka."""
    entries = [
        ConfigEntry(
            key.replace("_", "."),
            value,
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for key, value in configs.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = admin_client(cluster.bootstrap)  # Its futures die with it.
    admin.incremental_alter_configs([resource])[resource].result(DEADLINE_SECONDS)


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete a topic.

    Raises:
        KafkaException: The broker refused.
    """
    admin = admin_client(bootstrap)
    admin.delete_topics([topic], operation_timeout=30)[topic].result(DEADLINE_SECONDS)


def topics_at(address: str) -> dict[str, int]:
    """Return the topics one broker knows, with the number of their partitions."""
    topics = admin_client(address).list_topics(timeout=30).topics
    return {name: len(topic.partitions) for name, topic in topics.items()}


def wait_topic_everywhere(cluster: BrokerCluster, topic: str) -> None:
    """Wait until every running broker knows the topic and a leader of each of its partitions."""

    def is_led(address: str) -> bool:
        found = admin_client(address).list_topics(timeout=30).topics.get(topic)
        return found is not None and all(partition.leader != -1 for partition in found.partitions.values())

    for broker in cluster.running:
        eventually(f"topic {topic} at node {broker.node_id}", lambda address=broker.kafka: is_led(address))


def wait_topic_nowhere(cluster: BrokerCluster, topic: str) -> None:
    """Wait until no running broker knows the topic."""
    for broker in cluster.running:
        eventually(f"no {topic} at node {broker.node_id}", lambda address=broker.kafka: topic not in topics_at(address))
