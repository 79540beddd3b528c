"""Members of consumer groups for the tests: librdkafka's, polled side by side in one thread."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from cluster.groups.offsets_topic import OFFSETS_TOPIC, offsets_partition
from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import DEADLINE_SECONDS, BrokerCluster

# Quick groups; the shortest session that clients are happy with.
GROUP_OPTIONS = {
    "group.initial.rebalance.delay.ms": 200,
    "group.min.session.timeout.ms": 1000,
    "offsets.topic.num.partitions": 4,
}


def fill(cluster: BrokerCluster, topic: str, values: Iterable[str], partitions: int) -> None:
    """Write values to the partitions of a topic in turn."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "logger": quiet_logger()})
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=number % partitions)
    assert producer.flush(DEADLINE_SECONDS) == 0


def coordinator_of(cluster: BrokerCluster, group: str, other_than: int = -1) -> int:
    """Wait until a running broker keeps the group and return its number."""
    partition = offsets_partition(group, GROUP_OPTIONS["offsets.topic.num.partitions"])
    return cluster.leader_of(OFFSETS_TOPIC, partition, other_than=other_than)


class Member:
    """One consumer in a group.

    Attributes:
        owned: The partitions that it has now.
        values: What it has read.
        rebalances: How often something was given to it or taken from it.
    """

    def __init__(self, cluster: BrokerCluster, group: str, topic: str, **options: Any) -> None:
        config = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 300,
            "logger": quiet_logger(),
        }
        config |= {name.replace("_", "."): value for name, value in options.items()}
        self.consumer = Consumer(config)
        self.owned: set[int] = set()
        self.values: list[str] = []
        self.rebalances = 0
        self._committed_values = 0
        self._is_closed = False
        self._is_static = "group.instance.id" in config
        self._is_cooperative = config.get("partition.assignment.strategy") == "cooperative-sticky"
        self.consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.rebalances += 1
        given = {each.partition for each in partitions}
        self.owned = self.owned | given if self._is_cooperative else given

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.rebalances += 1
        self.owned -= {each.partition for each in partitions}

    def poll(self) -> None:
        """Read at most one record."""
        message = self.consumer.poll(0.02)
        if message is not None and message.error() is None:
            self.values.append(message.value().decode())

    def commit(self) -> dict[int, int]:
        """Commit what was read since the last time and return it, by partition."""
        if len(self.values) == self._committed_values:
            return {}  # librdkafka would call it an error.
        done = self.consumer.commit(asynchronous=False)
        self._committed_values = len(self.values)
        return {each.partition: each.offset for each in done if each.error is None and each.offset >= 0}

    def close(self) -> None:
        """Give the partitions back, then close.

        librdkafka hangs for ever, with the GIL, if an assignment arrives while a consumer closes: its issue 4884, which
        the death of all brokers just before a close showed here once. A static member keeps its partitions: it closes
        without that.
        """
        if self._is_closed:
            return
        self._is_closed = True
        if not self._is_static:
            self._give_back()
        self.consumer.close()

    def _give_back(self) -> None:
        self.consumer.unsubscribe()
        deadline = time.monotonic() + DEADLINE_SECONDS
        while self.consumer.assignment():
            assert time.monotonic() < deadline, "the partitions are not given back"
            self.consumer.poll(0.02)


def poll_until(members: Iterable[Member], goal: Callable[[], bool], what: str) -> None:
    """Let all members poll until the goal is reached."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not goal():
        assert time.monotonic() < deadline, f"not within {DEADLINE_SECONDS:g} s: {what}"
        for member in members:
            member.poll()
