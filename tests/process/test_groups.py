"""Consumer groups with three clients: subscribe, rebalance, commit, resume."""

import threading
from contextlib import ExitStack, closing

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from tests.process.broker_processes import DEADLINE_SECONDS, BrokerCluster, ClusterMaker, eventually
from tests.process.group_members import GROUP_OPTIONS, Member, fill, poll_until
from tests.process.kafka_python import KafkaConsumer, with_kafka_python
from tests.process.kafka_topics import admin_client, create_topic
from tests.process.kcat import kcat, needs_kcat

pytestmark = pytest.mark.process

PARTITIONS = 4
VALUES = [f"value-{number}" for number in range(80)]


@pytest.fixture(scope="module")
def cluster(shared_clusters: ClusterMaker) -> BrokerCluster:
    cluster = shared_clusters(3, **GROUP_OPTIONS)
    cluster.start()
    return cluster


@pytest.fixture
def topic(cluster: BrokerCluster, request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("[", ".").replace("]", "")[:200]
    create_topic(cluster, name, partitions=PARTITIONS)
    fill(cluster, name, VALUES, PARTITIONS)
    return name


def test_a_group_goes_on_where_it_has_committed(cluster: BrokerCluster, topic: str):
    with closing(Member(cluster, topic, topic)) as first:
        poll_until([first], lambda: len(first.values) >= 40, "half of the records")
        committed = first.commit()
    assert sum(committed.values()) == len(first.values)
    with closing(Member(cluster, topic, topic)) as second:
        poll_until([second], lambda: len(first.values) + len(second.values) == len(VALUES), "the rest")
    assert sorted(first.values + second.values) == sorted(VALUES)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_members_share_the_partitions(cluster: BrokerCluster, topic: str, strategy: str):
    options = {"partition_assignment_strategy": strategy}
    everything = set(range(PARTITIONS))
    with ExitStack() as stack:
        members = [stack.enter_context(closing(Member(cluster, topic, topic, **options)))]
        poll_until(members, lambda: members[0].owned == everything, "all partitions at the only member")
        members.append(stack.enter_context(closing(Member(cluster, topic, topic, **options))))
        poll_until(
            members,
            lambda: (
                [len(each.owned) for each in members] == [2, 2] and members[0].owned | members[1].owned == everything
            ),
            "two partitions each",
        )
        members[0].close()
        poll_until(members[1:], lambda: members[1].owned == everything, "all partitions at the last member")


def test_a_static_member_comes_back_without_a_rebalance(cluster: BrokerCluster, topic: str):
    def member(name: str) -> Member:
        return Member(cluster, topic, topic, group_instance_id=name, session_timeout_ms=30_000)

    with ExitStack() as stack:
        stays = stack.enter_context(closing(member("stays")))
        leaves = member("leaves")
        poll_until([stays, leaves], lambda: len(stays.owned) == len(leaves.owned) == 2, "two partitions each")
        owned, rebalances = set(leaves.owned), stays.rebalances
        leaves.close()
        again = stack.enter_context(closing(member("leaves")))
        poll_until([stays, again], lambda: again.owned == owned, "the same partitions")
        assert stays.rebalances == rebalances


def test_groups_are_administered(cluster: BrokerCluster, topic: str):
    admin = admin_client(cluster.bootstrap)
    with closing(Member(cluster, topic, topic)) as member:
        poll_until([member], lambda: len(member.values) == len(VALUES), "all records")
        member.commit()
        described = admin.describe_consumer_groups([topic])[topic].result(30)
        assert described.state.name == "STABLE"
        (told,) = described.members
        assert {each.partition for each in told.assignment.topic_partitions} == member.owned
    assert topic in {each.group_id for each in admin.list_consumer_groups().result(30).valid}
    eventually(
        "an empty group", lambda: admin.describe_consumer_groups([topic])[topic].result(30).state.name == "EMPTY"
    )
    admin.delete_consumer_groups([topic])[topic].result(30)
    assert topic not in {each.group_id for each in admin.list_consumer_groups().result(30).valid}


class _KafkaPythonMember(threading.Thread):
    """kafka-python's consumer in a thread of its own: members that take turns in one keep each other waiting."""

    def __init__(self, cluster: BrokerCluster, topic: str) -> None:
        super().__init__(daemon=True)
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap.split(","),
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=500,
        )
        self.owned = 0
        self.values: list[str] = []
        self._is_over = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._is_over.is_set():
            for records in self._consumer.poll(timeout_ms=1000, max_records=20).values():
                self.values += [record.value.decode() for record in records]
            self.owned = len(self._consumer.assignment())
        self._consumer.commit()
        self._consumer.close()

    def close(self) -> None:
        """Commit what was read, and leave."""
        self._is_over.set()
        self.join(DEADLINE_SECONDS)
        assert not self.is_alive()


@with_kafka_python
def test_kafka_python_consumes_in_a_group(cluster: BrokerCluster, topic: str):
    with closing(_KafkaPythonMember(cluster, topic)) as first, closing(_KafkaPythonMember(cluster, topic)) as second:
        eventually("two partitions each", lambda: [first.owned, second.owned] == [2, 2])
        eventually("all records", lambda: set(first.values + second.values) == set(VALUES))
    fill(cluster, topic, ["new"], PARTITIONS)
    with closing(_KafkaPythonMember(cluster, topic)) as last:
        eventually("the rest", lambda: last.values == ["new"])


@needs_kcat
def test_kcat_consumes_in_a_group(cluster: BrokerCluster, topic: str):
    arguments = ("-G", topic, "-q", "-e", "-X", "auto.offset.reset=earliest", topic)
    assert sorted(kcat(cluster.bootstrap, *arguments).splitlines()) == sorted(VALUES)
    fill(cluster, topic, ["new"], PARTITIONS)
    assert kcat(cluster.bootstrap, *arguments).splitlines() == ["new"]


def test_an_administrator_sets_offsets_of_a_group_without_members(cluster: BrokerCluster, topic: str):
    with closing(Member(cluster, topic, topic)) as member:
        poll_until([member], lambda: len(member.values) == len(VALUES), "all records")
        member.commit()
    admin = admin_client(cluster.bootstrap)
    wanted = ConsumerGroupTopicPartitions(topic, [TopicPartition(topic, 0, 5)])
    admin.alter_consumer_group_offsets([wanted])[topic].result(30)
    with closing(Member(cluster, topic, topic)) as again:
        (committed,) = again.consumer.committed([TopicPartition(topic, 0)], timeout=30)
        assert committed.offset == 5
        poll_until([again], lambda: len(again.values) == len(VALUES) // PARTITIONS - 5, "what lies behind it")
