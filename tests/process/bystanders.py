"""A well-behaved group: members that read what a producer writes, and commit it, while others misbehave."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaException, Producer

from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import DEADLINE_SECONDS, BrokerCluster
from tests.process.group_members import Member, poll_until
from tests.process.kafka_topics import create_topic

_PARTITIONS = 4
_PAUSE_SECONDS = 0.02
_COMMIT_EVERY = 25


class Bystanders:
    """Two members and a producer in a thread of their own; topic and group have one name."""

    def __init__(self, cluster: BrokerCluster, name: str) -> None:
        self._topic = name
        create_topic(cluster, name, _PARTITIONS)
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "logger": quiet_logger()})
        self.members = [Member(cluster, name, name) for _ in range(2)]
        everything = set(range(_PARTITIONS))
        poll_until(
            self.members,
            lambda: set().union(*(each.owned for each in self.members)) == everything,
            "partitions for all",
        )
        self._rebalances = self._count_rebalances()
        self._written: list[str] = []
        self._is_over = threading.Event()
        self._error: KafkaException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _count_rebalances(self) -> int:
        return sum(each.rebalances for each in self.members)

    def _run(self) -> None:
        try:
            while not self._is_over.wait(_PAUSE_SECONDS):
                self._step()
        except KafkaException as error:
            self._error = error

    def _step(self) -> None:
        value = f"{len(self._written)}-{time.monotonic()}"
        self._producer.produce(self._topic, value.encode(), partition=len(self._written) % _PARTITIONS)
        self._producer.poll(0)
        self._written.append(value)
        for member in self.members:
            member.poll()
        if len(self._written) % _COMMIT_EVERY == 0:
            for member in self.members:
                member.commit()

    def read(self) -> int:
        """Return how many records they have read."""
        return sum(len(each.values) for each in self.members)

    def finish(self) -> None:
        """Fail unless all of it was written and read, and nobody had to join again."""
        self._is_over.set()
        self._thread.join(DEADLINE_SECONDS)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error
        assert self._producer.flush(DEADLINE_SECONDS) == 0
        poll_until(self.members, lambda: self.read() >= len(self._written), f"{len(self._written)} records are read")
        assert sorted(value for each in self.members for value in each.values) == sorted(self._written)
        assert self._count_rebalances() == self._rebalances, "somebody had to join again"

    def close(self) -> None:
        self._is_over.set()
        self._thread.join(DEADLINE_SECONDS)
        for each in self.members:
            each.close()


@contextmanager
def a_group_beside(cluster: BrokerCluster, name: str) -> Iterator[Bystanders]:
    """While the block runs a group reads what is written, and at its end has read all of it."""
    bystanders = Bystanders(cluster, name)
    try:
        yield bystanders
        bystanders.finish()
    finally:
        bystanders.close()
