"""A topic of the same name in two clusters, which MirrorMaker 2 copies from each to the other."""

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition

from raftka.kafka import client as kafka_client
from tests.clients.streams_application import PARTITIONS, request_topics
from tests.ecosystem.brokers import REPLICAS, Brokers
from tests.ecosystem.java_process import JavaProcess
from tests.process.acked_log import high_watermark, quiet_logger
from tests.process.broker_processes import DEADLINE_SECONDS, eventually
from tests.process.committed_records import CommittedReader
from tests.process.kafka_topics import admin_client

TOPIC = "orders"
NAMES = ("north", "south")
_CLASS = "org.apache.kafka.connect.mirror.MirrorMaker"
# It starts six connectors one after the other.
_START_SECONDS = 240.0
_STEP_SECONDS = 150.0
_STEP_VALUES = 200


def mirror_maker(clusters: dict[str, Brokers], folder: Path) -> JavaProcess:
    """Return a MirrorMaker that copies `TOPIC` both ways and translates offsets; it is not started."""
    first, second = clusters
    flows = [f"{first}->{second}", f"{second}->{first}"]
    topics = ("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic")
    storages = ("offset.storage", "status.storage", "config.storage")
    properties: dict[str, object] = {
        "clusters": ",".join(clusters),
        **{f"{name}.bootstrap.servers": brokers.bootstrap for name, brokers in clusters.items()},
        **{f"{flow}.enabled": "true" for flow in flows},
        **{f"{flow}.topics": TOPIC for flow in flows},
        "replication.factor": REPLICAS,
        **{f"{each}.replication.factor": REPLICAS for each in (*topics, *storages)},
        "sync.group.offsets.enabled": "true",
        "emit.checkpoints.interval.seconds": 1,
        "sync.group.offsets.interval.seconds": 1,
        "refresh.groups.interval.seconds": 2,
        "refresh.topics.interval.seconds": 5,
        # Where each record is noted, offsets are translated exactly.
        "offset.lag.max": 0,
        "scheduled.rebalance.max.delay.ms": 1_000,
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 2_000,
        "offset.storage.partitions": 3,
        "offset.flush.interval.ms": 1_000,
    }
    return JavaProcess(_CLASS, properties, folder, "mirror-maker")


def copy_of(name: str) -> str:
    """Return the name of the copy of a cluster's topic."""
    return f"{name}.{TOPIC}"


def other(name: str) -> str:
    return NAMES[1 - NAMES.index(name)]


class Mirrors:
    """What is written to both topics, and what of it is in the copies; whoever makes it calls `close`.

    Args:
        clusters: The brokers by name.
        maker: The MirrorMaker.
    """

    def __init__(self, clusters: dict[str, Brokers], maker: JavaProcess) -> None:
        self._clusters = clusters
        self._maker = maker
        self._written: dict[str, list[str]] = {name: [] for name in clusters}
        self._readers: dict[str, CommittedReader] = {}
        self._stack = ExitStack()
        for brokers in clusters.values():
            request_topics(brokers.bootstrap, [TOPIC], REPLICAS)

    def write_in_transactions(self) -> None:
        """Write a little: the ends of transactions take offsets which the copy does not have."""
        for name, brokers in self._clusters.items():
            options = {"bootstrap.servers": brokers.bootstrap, "transactional.id": "writer", "logger": quiet_logger()}
            producer = Producer(options)
            producer.init_transactions(DEADLINE_SECONDS)
            for _ in range(10):
                producer.begin_transaction()
                self._produce(producer, name, 2 * PARTITIONS)
                producer.commit_transaction(DEADLINE_SECONDS)

    def write(self) -> None:
        """Write more to both topics."""
        for name, brokers in self._clusters.items():
            options = {"acks": "all", "enable.idempotence": True, "logger": quiet_logger()}
            producer = Producer({"bootstrap.servers": brokers.bootstrap, **options})
            self._produce(producer, name, _STEP_VALUES)
            assert producer.flush(DEADLINE_SECONDS) == 0

    def _produce(self, producer: Producer, name: str, count: int) -> None:
        written = self._written[name]
        for _ in range(count):
            value = f"{name}-{len(written)}"
            producer.produce(TOPIC, value.encode(), partition=len(written) % PARTITIONS)
            written.append(value)

    def wait_topics(self) -> None:
        """Wait until both copies are there, and read them from now on."""

        def are_there() -> bool:
            self._maker.check_runs()
            return all(
                len(kafka_client.read_cluster(self._clusters[other(name)].bootstrap).topics.get(copy_of(name), []))
                == PARTITIONS
                for name in self._clusters
            )

        eventually(lambda: f"there are copies{self._maker.log_end()}", are_there, _START_SECONDS)
        for name in self._clusters:
            reader = CommittedReader(self._clusters[other(name)].bootstrap, copy_of(name), range(PARTITIONS))
            self._readers[name] = self._stack.enter_context(closing(reader))

    def wait(self) -> None:
        """Wait until the copies have all that was written."""

        def missing() -> dict[str, int]:
            return {name: len(set(each) - set(self._readers[name].counts)) for name, each in self._written.items()}

        def have_all() -> bool:
            self._maker.check_runs()
            return not any(missing().values())

        eventually(lambda: f"copies lack {missing()}{self._maker.log_end()}", have_all, _STEP_SECONDS)

    def write_and_wait(self) -> None:
        self.write()
        self.wait()

    def check(self) -> None:
        """Fail if a copy has what was not written. It may have a record twice: the maker was killed."""
        for name, written in self._written.items():
            assert set(self._readers[name].counts) == set(written)
            # A copy of a copy would never end.
            topics = kafka_client.read_cluster(self._clusters[name].bootstrap).topics
            assert not [topic for topic in topics if topic.startswith(f"{name}.{other(name)}")]

    def close(self) -> None:
        self._stack.close()


def commit(brokers: Brokers, group: str, topic: str, offsets: Sequence[int]) -> None:
    """Let a group without members commit an offset of each partition."""
    consumer = Consumer({"bootstrap.servers": brokers.bootstrap, "group.id": group, "logger": quiet_logger()})
    positions = [TopicPartition(topic, number, offset) for number, offset in enumerate(offsets)]

    def is_committed() -> bool:
        try:
            consumer.commit(offsets=positions, asynchronous=False)
        except KafkaException:
            # Its coordinator may be new.
            return False
        return True

    try:
        eventually(f"{group} commits {offsets}", is_committed)
    finally:
        consumer.close()


def committed(brokers: Brokers, group: str, topic: str) -> list[int]:
    """Return a group's offset of each partition; -1 where there is none, or where nobody answers."""
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    admin = admin_client(brokers.bootstrap)
    try:
        asked = [ConsumerGroupTopicPartitions(group, partitions)]
        answer = admin.list_consumer_group_offsets(asked)[group].result(DEADLINE_SECONDS)
    except KafkaException:
        return [-1] * PARTITIONS
    return [each.offset for each in sorted(answer.topic_partitions, key=lambda each: each.partition)]


def values_from(brokers: Brokers, topic: str, offsets: Sequence[int]) -> Counter[str]:
    """Return what is in a topic behind an offset of each partition."""
    options = {"group.id": "by-hand", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": brokers.bootstrap, "logger": quiet_logger(), **options})
    values: Counter[str] = Counter()
    ended: set[int] = set()
    starts = [TopicPartition(topic, number, offset) for number, offset in enumerate(offsets)]

    def is_read() -> bool:
        for message in consumer.consume(500, 0.5):
            if message.error() is None:
                values[_text(message.value())] += 1
            else:
                ended.add(message.partition())
        return len(ended) == PARTITIONS

    try:
        consumer.assign(starts)
        eventually(f"the end of {topic}", is_read)
    finally:
        consumer.close()
    return values


def ends(brokers: Brokers, topic: str) -> list[int]:
    """Return the end of each partition."""
    return [high_watermark(brokers.bootstrap, topic, number) for number in range(PARTITIONS)]


def _text(value: bytes | None) -> str:
    return (value or b"").decode()
