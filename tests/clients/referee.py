"""The other side of the tasks: makes topics, kills brokers, and reads what is really there, with librdkafka.

What it sends is not what the client under test sends: the referee tells `SentRequests` when it begins and ends.
"""

import functools
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar
from urllib.request import urlopen

from confluent_kafka import ConsumerGroupTopicPartitions

from cluster.groups.offsets_topic import OFFSETS_TOPIC, offsets_partition
from cluster.transactions.transactions_topic import TRANSACTIONS_TOPIC, transactions_partition
from tests.clients.client import Record
from tests.clients.librdkafka_client import LibrdkafkaClient
from tests.process.acked_log import ReadRecord, high_watermark, read_all
from tests.process.broker_processes import BrokerCluster, BrokerProcess, eventually
from tests.process.committed_records import END, read_committed
from tests.process.group_members import fill
from tests.process.kafka_topics import admin_client, create_topic, delete_topic

OFFSETS_PARTITIONS = 4
TRANSACTIONS_PARTITIONS = 4
# Options of brokers whose coordinators a referee finds.
TRANSACTIONAL = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": OFFSETS_PARTITIONS,
    "transaction.state.log.num.partitions": TRANSACTIONS_PARTITIONS,
}

_REQUESTS = re.compile(r'^raftka_kafka_requests_total\{api="(\w+)",version="(\d+)"\} (\S+)$', re.MULTILINE)

_ERRORS = re.compile(r'^raftka_kafka_errors_total\{api="(\w+)",code="(\w+)"\} (\S+)$', re.MULTILINE)

_RENDERED = re.compile(r"^raftka_wall_clock_seconds (\S+)$", re.MULTILINE)

P = ParamSpec("P")
R = TypeVar("R")


class SentRequests:
    """Which requests have reached the brokers while the referee sent none: the counters of their metrics."""

    def __init__(self, cluster: BrokerCluster) -> None:
        self._cluster = cluster
        self._before: dict[int, Counter[tuple[str, int]]] = {}
        self.seen: set[tuple[str, int]] = set()

    def resume(self) -> None:
        """Count from here."""
        self._before = {broker.node_id: self._counts(broker) for broker in self._cluster.running}

    def pause(self) -> None:
        """Take what has come since `resume`."""
        for broker in self._cluster.running:
            now, before = self._counts(broker), self._before.get(broker.node_id, Counter())
            # A broker that was started again counts from nothing.
            self.seen |= {each for each, count in now.items() if count > before[each] or now.total() < before.total()}

    def _counts(self, broker: BrokerProcess) -> Counter[tuple[str, int]]:
        found = _REQUESTS.findall(fresh_metrics(broker))
        return Counter({(api, int(version)): int(float(count)) for api, version, count in found})


def answered_errors(cluster: BrokerCluster) -> Counter[tuple[str, str]]:
    """Return how often the brokers that run have answered an error code, by API and code."""
    found: Counter[tuple[str, str]] = Counter()
    for broker in cluster.running:
        for api, code, count in _ERRORS.findall(fresh_metrics(broker)):
            found[api, code] += int(float(count))
    return found


def fresh_metrics(broker: BrokerProcess) -> str:
    """Return a broker's metrics, rendered after this moment; nothing if it does not answer."""
    # A broker keeps an answer for a second: what is asked here must be of after this moment.
    asked = time.time()

    def fresh() -> str | None:
        try:
            with urlopen(f"http://{broker.admin}/metrics", timeout=10) as answer:
                text = str(answer.read().decode())
        except OSError:
            return ""
        rendered = _RENDERED.search(text)
        return text if rendered is None or float(rendered[1]) >= asked else None

    return eventually("metrics are rendered anew", fresh)


def _apart(call: Callable[P, R]) -> Callable[P, R]:
    """Mark a method that sends requests of the referee's own."""

    @functools.wraps(call)
    def apart(*arguments: P.args, **named: P.kwargs) -> R:
        referee: Any = arguments[0]
        with referee.unseen():
            return call(*arguments, **named)

    return apart


class Referee:
    """Makes and reads topics of one cluster.

    Args:
        cluster: The cluster.
        sent: Who is told when the referee itself sends requests; None where nobody records.
    """

    def __init__(self, cluster: BrokerCluster, sent: SentRequests | None = None) -> None:
        self.cluster = cluster
        self._sent = sent
        self._depth = 0

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """Within it, requests are the referee's."""
        if self._sent is None or self._depth:
            yield
            return
        self._sent.pause()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            self._sent.resume()

    @_apart
    def create_topic(self, topic: str, partitions: int = 1, replicas: int | None = None, **config: Any) -> None:
        """Create a topic and wait until every broker knows its leaders; its records may be as old as they say."""
        create_topic(self.cluster, topic, partitions, replicas, **{"retention.ms": "-1", **config})

    @_apart
    def delete_topic(self, topic: str) -> None:
        delete_topic(self.cluster.bootstrap, topic)

    @_apart
    def partitions_of(self, topic: str) -> int | None:
        """Return the number of a topic's partitions; None if there is no such topic."""
        found = admin_client(self.cluster.bootstrap).list_topics(timeout=30).topics.get(topic)
        return None if found is None else len(found.partitions)

    @_apart
    def fill(self, topic: str, values: Iterable[str], partitions: int) -> None:
        """Write values to the partitions in turn."""
        fill(self.cluster, topic, values, partitions)

    @_apart
    def write(self, topic: str, records: Sequence[Record], codec: str) -> None:
        """Write records to partition 0 with a codec."""
        writer = LibrdkafkaClient(self.cluster.bootstrap)
        writer.produce(topic, records, codec=codec)
        writer.close()

    @_apart
    def wait_visible(self, topic: str, count: int) -> None:
        """Wait until there are so many records in partition 0."""
        eventually(f"{count} visible records", lambda: high_watermark(self.cluster.bootstrap, topic) >= count)

    @_apart
    def read(self, topic: str, count: int) -> list[Record]:
        """Return all records of partition 0, once there are so many."""
        self.wait_visible(topic, count)
        return [_as_record(record) for record in read_all(self.cluster.bootstrap, topic)]

    @_apart
    def read_committed(self, topic: str) -> list[str]:
        """Mark the end of partition 0, and return what is read of it at read_committed, but for the mark."""
        fill(self.cluster, topic, [END], 1)
        return read_committed(self.cluster.bootstrap, topic, 0)[:-1]

    @_apart
    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Return the offsets that a group has committed, by partition."""
        admin = admin_client(self.cluster.bootstrap)
        answer = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(60)
        return {each.partition: each.offset for each in answer.topic_partitions if each.topic == topic}

    def leader_of(self, topic: str) -> int:
        return self.cluster.leader_of(topic, 0)

    def coordinator_of(self, group: str, other_than: int = -1) -> int:
        """Return the broker that keeps a group."""
        partition = offsets_partition(group, OFFSETS_PARTITIONS)
        return self.cluster.leader_of(OFFSETS_TOPIC, partition, other_than=other_than)

    def transaction_coordinator_of(self, transactional_id: str) -> int:
        """Return the broker that keeps a transactional id."""
        partition = transactions_partition(transactional_id, TRANSACTIONS_PARTITIONS)
        return self.cluster.leader_of(TRANSACTIONS_TOPIC, partition)

    def killing(self, victim: int, wait: Callable[[], object]) -> "Killing":
        """Kill a broker in a thread, `wait` for another in its place."""
        return Killing(self.cluster, victim, wait)


class Killing(threading.Thread):
    """A broker's death, beside what the client does; whoever asked for it calls `finish`."""

    def __init__(self, cluster: BrokerCluster, victim: int, wait: Callable[[], object]) -> None:
        super().__init__(name=f"kill {victim}", daemon=True)
        self._cluster = cluster
        self._victim = victim
        self._wait = wait
        self._failure: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._cluster[self._victim].kill()
            self._wait()
        except BaseException as failure:  # noqa: BLE001 - raised again where somebody waits
            self._failure = failure

    def is_replaced(self) -> bool:
        """Whether there is another in its place; raises what went wrong."""
        if self._failure is not None:
            raise self._failure
        return not self.is_alive()

    def finish(self) -> None:
        """Start the broker again. Not in the thread: a broker dies with the thread that has started it."""
        self.join()  # Each of its steps has a deadline.
        self._cluster.restart([self._victim])
        if self._failure is not None:
            raise self._failure


def _as_record(record: ReadRecord) -> Record:
    headers = tuple((name, _text(value)) for name, value in record.headers)
    return Record(_text(record.key), _text(record.value), headers, record.timestamp[1], 0, record.offset)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()
