"""A cluster of the former version is upgraded under load, rolled back, upgraded again and raised, and then stays.

The former version is the last one before features (`former_version`): it cannot read what the features
`raftka.compaction`, `raftka.membership` and `transaction.version` allow, and its data directories hold nothing else
until a level is raised.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from raftka.admin_client import not_ready_reason
from tests.process.acked_log import (
    AckedLog,
    LoadProducer,
    check_no_phantom,
    check_nothing_acked_is_lost,
    check_nothing_twice,
    new_consumer,
    quiet_logger,
    read_all,
)
from tests.process.broker_processes import DEADLINE_SECONDS, BrokerCluster, BrokerProcess, ClusterMaker, eventually
from tests.process.command_line import RAFTKA, environment
from tests.process.former_version import former_python
from tests.process.kafka_topics import admin_client, create_topic

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

TOPICS = ("orders", "audit")
IDEMPOTENT = {"enable.idempotence": True, "acks": "all", "max.in.flight.requests.per.connection": 5}
NEW = sys.executable
BETWEEN = 200
"""Records that each producer gets acknowledged between two restarts."""
TRIMMED = "trimmed"
MADE_BEFORE = "made-by-the-former-version"
COMMANDS = 1010
"""More entries of raft0 than a stop leaves without a snapshot of the tables."""


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the Python of an environment that has the former version."""
    return former_python(tmp_path_factory.mktemp("former-version"))


class Story:
    """A cluster under load, broker by broker in one version or the other."""

    def __init__(self, cluster: BrokerCluster, former: str) -> None:
        self.cluster = cluster
        self.former = former
        self.producers: list[LoadProducer] = []

    def use(self, broker: BrokerProcess, python: str) -> None:
        """Choose the version of a broker's next life."""
        broker.python = python

    def roll(self, python: str, *nodes: int) -> None:
        """Restart brokers in a version, one after the other, as docs/operations/upgrade.md says."""
        for node in nodes or (1, 2, 3):
            broker = self.cluster[node]
            assert broker.terminate() == 0, broker.log_tail()
            assert set(snapshot_formats(broker).values()) <= {1}
            self.use(broker, python)
            broker.start()
            broker.wait_ready()
            self.go_on()

    def controller(self) -> int:
        """Return the broker that leads raft0, as brokers 1 and 2 know."""
        admin = admin_client(f"{self.cluster[1].kafka},{self.cluster[2].kafka}")
        return eventually("raft0 has a leader", lambda: max(0, int(admin.list_topics(timeout=10).controller_id)))

    def go_on(self) -> None:
        """Wait until every replica has caught up and writes go on."""
        for topic in TOPICS:
            self.cluster.wait_caught_up(topic, 0)
        for producer in self.producers:
            producer.wait_acked(BETWEEN)
            assert not producer.log.failed

    def features(self, *arguments: str) -> str:
        """Return what `raftka cluster features` says, of refusals, too."""
        return self.cli("cluster", "features", *arguments)

    def cli(self, *arguments: str) -> str:
        """Return what `raftka` says, of refusals, too."""
        done = subprocess.run(
            [*RAFTKA, *arguments],
            env=environment() | {"RAFTKA_BROKERS": self.cluster.bootstrap},
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def story(make_cluster: ClusterMaker, former: str) -> Iterator[Story]:
    """Yield a cluster that the former version has founded, with a producer on each topic."""
    cluster = make_cluster(3)
    story = Story(cluster, former)
    for broker in cluster.brokers.values():
        story.use(broker, former)
    cluster.start()
    for topic in TOPICS:
        create_topic(cluster, topic)
    with ExitStack() as stack:
        for topic in TOPICS:
            producer = LoadProducer(cluster.bootstrap, topic, f"record-of-{topic}", **IDEMPOTENT)
            story.producers.append(stack.enter_context(producer))
        story.go_on()
        yield story


def formats(cluster: BrokerCluster) -> list[int]:
    """Return the format of each data directory, as its identity file says it."""
    lines = [(broker.data_dir / "directory.id").read_text() for broker in cluster.brokers.values()]
    return [json.loads(line.split(" ", 1)[1])["format_version"] for line in lines]


def snapshot_formats(broker: BrokerProcess) -> dict[str, int]:
    """Return the format of each snapshot on a broker's disk, by the directory of its group."""
    return {path.parent.name: path.read_bytes()[4] for path in broker.data_dir.glob("groups/*/snapshot")}


def trim(cluster: BrokerCluster, topic: str) -> None:
    """Write records with a producer's numbers and delete the first five: each replica takes a snapshot of its state."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "logger": quiet_logger(), **IDEMPOTENT})
    for number in range(10):
        producer.produce(topic, str(number).encode())
    assert producer.flush(DEADLINE_SECONDS) == 0
    admin = admin_client(cluster.bootstrap)
    [deleted] = admin.delete_records([TopicPartition(topic, 0, 5)]).values()
    assert deleted.result(DEADLINE_SECONDS).low_watermark == 5
    for broker in cluster.brokers.values():
        eventually("a snapshot of a partition", lambda broker=broker: snapshot_formats(broker).keys() - {"raft0"})


def offsets(cluster: BrokerCluster, topic: str) -> tuple[int, int]:
    """Return the first offset of a partition and the one behind its last."""
    consumer = new_consumer(cluster.bootstrap)
    try:
        first, behind = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30.0)
        return int(first), int(behind)
    finally:
        consumer.close()


def change_often(cluster: BrokerCluster, topic: str) -> None:
    """Let raft0's log grow by COMMANDS entries: a broker takes a snapshot of the tables when it stops."""
    admin = admin_client(cluster.bootstrap)
    asked = []
    for number in range(COMMANDS):
        entry = ConfigEntry("retention.ms", str(10**9 + number), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        asked += admin.incremental_alter_configs([resource]).values()
    for answer in asked:
        answer.result(DEADLINE_SECONDS)


@contextmanager
def paused(broker: BrokerProcess) -> Iterator[None]:
    """Freeze a broker: it goes on as it was, and does not register again."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def commit(cluster: BrokerCluster, offset: int) -> None:
    consumer = new_consumer(cluster.bootstrap, **{"group.id": "readers"})
    try:
        consumer.commit(offsets=[TopicPartition(TOPICS[0], 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def committed(cluster: BrokerCluster) -> int:
    consumer = new_consumer(cluster.bootstrap, **{"group.id": "readers"})
    try:
        return int(consumer.committed([TopicPartition(TOPICS[0], 0)], timeout=30.0)[0].offset)
    finally:
        consumer.close()


def check(cluster: BrokerCluster, topic: str, log: AckedLog) -> None:
    """No write has failed for good; what was acknowledged is there, once, in order, and nothing else is."""
    cluster.wait_in_sync(topic, 0)
    assert log.failed == {}
    records = read_all(cluster.bootstrap, topic)
    check_nothing_acked_is_lost(records, log)
    check_no_phantom(records, [log])
    check_nothing_twice(records, log)
    assert [record.value for record in records] == sorted(log.sent)


def check_one_former_broker_holds_the_level_back(story: Story) -> None:
    """Broker 3 is of the former version: whoever leads raft0, no level is raised, and the answer names the broker."""
    cluster = story.cluster
    while story.controller() == 3:
        with paused(cluster[3]):
            eventually("another controller", lambda: story.controller() != 3)
    words, refusal = ("upgrade", "raftka.membership=1"), "raftka.membership cannot be at level 1: broker 3 has 0"
    # Who was paused may be known again a moment later only.
    eventually("a refused dry run", lambda: refusal in story.features(*words, "--dry-run"))
    refused = story.features(*words)
    assert refusal in refused, refused
    assert formats(cluster) == [1, 1, 1], "a refused level marks nothing"


def check_links_refuse_the_former_version(story: Story) -> None:
    """Raise the level while broker 3 is stopped, and start it in the former version: nobody takes it in."""
    cluster, broker = story.cluster, story.cluster[3]
    assert broker.terminate() == 0, broker.log_tail()
    raised = story.features("upgrade", "raftka.membership=1")
    assert raised.startswith("raftka.membership at level 1\n"), raised
    eventually("marked directories", lambda: formats(cluster) == [2, 2, 1])
    story.use(broker, story.former)
    broker.start()
    refusal = "the cluster uses raftka.membership at level 1; start a version that has it"
    for node in (1, 2):
        eventually(f"broker {node} refuses it", lambda node=node: refusal in cluster[node].log_text())
    assert not_ready_reason(broker.admin) is not None
    for producer in story.producers:
        producer.wait_acked(BETWEEN)
    assert broker.terminate() == 0, broker.log_tail()
    assert formats(cluster) == [2, 2, 1]
    story.use(broker, NEW)
    broker.start()
    broker.wait_ready()
    eventually("a marked directory", lambda: formats(cluster) == [2, 2, 2])
    story.go_on()


def check_its_own_directory_refuses_the_former_version(story: Story, node: int, format_version: int) -> None:
    broker = story.cluster[node]
    assert broker.terminate() == 0, broker.log_tail()
    before = (broker.data_dir / "directory.id").read_bytes()
    story.use(broker, story.former)
    broker.start()
    assert broker.wait_exit() != 0
    assert f"{broker.data_dir} has format {format_version}, this version reads 1" in broker.log_text()
    assert (broker.data_dir / "directory.id").read_bytes() == before
    story.use(broker, NEW)
    broker.start()
    broker.wait_ready()
    story.go_on()


def check_what_it_wrote_is_moved(story: Story) -> None:
    """Replicas of a topic that the former version has created, and written to, leave and come back under load."""
    for count in (2, 3):
        said = story.cli("topic", "alter-replication", TOPICS[0], "-r", str(count), "--wait")
        assert len(story.cluster.partition(TOPICS[0], 0)["replicas"]) == count, said
        story.go_on()


def transactional_producer(cluster: BrokerCluster) -> Producer:
    return Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "sink", "logger": quiet_logger()})


def write_together(producer: Producer, value: bytes, *, commits: bool = True) -> None:
    """Write a value to two topics that were there before the raise, in one transaction."""
    producer.begin_transaction()
    for topic in (TRIMMED, MADE_BEFORE):
        producer.produce(topic, value, partition=0)
    assert producer.flush(DEADLINE_SECONDS) == 0
    end = producer.commit_transaction if commits else producer.abort_transaction
    end(DEADLINE_SECONDS)


def stable_values(cluster: BrokerCluster, topic: str) -> list[bytes]:
    """Return what a reader at read_committed gets, up to where it has to wait."""
    consumer = new_consumer(cluster.bootstrap, **{"isolation.level": "read_committed", "enable.partition.eof": True})
    values: list[bytes] = []

    def has_ended() -> bool:
        message = consumer.poll(0.2)
        error = None if message is None else message.error()
        if message is not None and error is None:
            values.append(message.value() or b"")
        return error is not None and error.code() == KafkaError._PARTITION_EOF

    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        eventually(f"the end of {topic}", has_ended)
    finally:
        consumer.close()
    return values


def check_transactions_are_raised(story: Story) -> None:
    """Raise `transaction.version` on a cluster with data: from then on clients have transactions there."""
    cluster = story.cluster
    refused = (KafkaError._UNSUPPORTED_FEATURE, KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaException) as told:
        transactional_producer(cluster).init_transactions(DEADLINE_SECONDS)
    assert told.value.args[0].code() in refused, told.value
    assert formats(cluster) == [2, 2, 2]
    raised = story.features("upgrade")
    assert raised.startswith("raftka.compaction at level 1, transaction.version at level 2\n"), raised
    eventually("marked directories", lambda: formats(cluster) == [3, 3, 3])

    before = {topic: stable_values(cluster, topic) for topic in (TRIMMED, MADE_BEFORE)}
    assert before == {TRIMMED: [b"5", b"6", b"7", b"8", b"9"], MADE_BEFORE: []}
    producer = transactional_producer(cluster)
    producer.init_transactions(DEADLINE_SECONDS)
    write_together(producer, b"committed")
    write_together(producer, b"aborted", commits=False)
    story.go_on()
    check_its_own_directory_refuses_the_former_version(story, 1, 3)
    write_together(producer, b"and on")
    for topic, values in before.items():
        wanted = [*values, b"committed", b"and on"]
        eventually("the markers", lambda topic=topic, wanted=wanted: stable_values(cluster, topic) == wanted)


def test_the_former_version_is_upgraded_rolled_back_and_raised_without_a_failed_write(story: Story) -> None:
    cluster = story.cluster
    commit(cluster, 7)

    story.roll(NEW)
    assert committed(cluster) == 7
    assert "raftka.membership" in story.features("list")
    create_topic(cluster, TRIMMED)
    commit(cluster, 8)
    trim(cluster, TRIMMED)
    change_often(cluster, TRIMMED)
    assert formats(cluster) == [1, 1, 1], "nothing is written that the former version cannot read"

    story.roll(story.former)
    for broker in cluster.brokers.values():
        assert "raft0" in snapshot_formats(broker), "the new version has taken it when it stopped"
    assert committed(cluster) == 8
    assert offsets(cluster, TRIMMED) == (5, 10)
    create_topic(cluster, MADE_BEFORE)

    story.roll(NEW, 1, 2)
    check_one_former_broker_holds_the_level_back(story)
    story.roll(NEW, 3)
    accepted = story.features("upgrade", "--dry-run")
    levels = "raftka.compaction at level 1, raftka.membership at level 1, transaction.version at level 2"
    assert f"{levels}: accepted; nothing is changed" in accepted, accepted

    check_links_refuse_the_former_version(story)
    check_its_own_directory_refuses_the_former_version(story, 2, 2)
    check_what_it_wrote_is_moved(story)
    check_transactions_are_raised(story)

    logs = [producer.finish() for producer in story.producers]
    for topic, log in zip(TOPICS, logs, strict=True):
        check(cluster, topic, log)
    assert committed(cluster) == 8
    for topic in (TRIMMED, MADE_BEFORE):
        assert sorted(cluster.partition(topic, 0)["replicas"]) == [1, 2, 3]
