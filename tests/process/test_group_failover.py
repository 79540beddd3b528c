"""The coordinator is killed under members that commit: no commit is lost, and no client has to be started again."""

from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial

import pytest
from confluent_kafka import KafkaException, TopicPartition

from tests.process.broker_processes import BrokerCluster, ClusterMaker
from tests.process.group_members import GROUP_OPTIONS, Member, coordinator_of, fill, poll_until
from tests.process.kafka_topics import create_topic

pytestmark = pytest.mark.process

TOPIC, GROUP, PARTITIONS = "orders", "readers", 4


@pytest.fixture
def cluster(make_cluster: ClusterMaker) -> BrokerCluster:
    cluster = make_cluster(3, **GROUP_OPTIONS)
    cluster.start()
    create_topic(cluster, TOPIC, partitions=PARTITIONS)
    return cluster


class _Commits:
    """What was committed and answered, and what is there."""

    def __init__(self) -> None:
        self.acked: dict[int, int] = {}

    def commit(self, members: list[Member]) -> None:
        for member in members:
            try:
                done = member.commit()
            except KafkaException:
                continue  # No answer, no promise; or nothing new.
            for partition, offset in done.items():
                self.acked[partition] = max(offset, self.acked.get(partition, 0))

    def has(self, wanted: dict[int, int]) -> bool:
        """Whether so much was answered, by partition."""
        return all(self.acked.get(partition, 0) >= offset for partition, offset in wanted.items())

    def check(self, member: Member) -> None:
        """Everything that was answered is there."""
        asked = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        committed = {each.partition: each.offset for each in member.consumer.committed(asked, timeout=60)}
        assert committed.keys() >= self.acked.keys()
        for partition, offset in self.acked.items():
            assert committed[partition] >= offset


def test_a_killed_coordinator_loses_no_commit_and_no_member(cluster: BrokerCluster):
    commits, read = _Commits(), 0
    with ExitStack() as stack:
        members = [stack.enter_context(closing(Member(cluster, GROUP, TOPIC))) for _ in range(2)]

        def poll_to(goal: Callable[[], bool], what: str) -> None:
            def is_reached() -> bool:
                commits.commit(members)
                return goal()

            poll_until(members, is_reached, what)

        def values() -> int:
            return len({value for each in members for value in each.values})

        poll_to(lambda: [len(each.owned) for each in members] == [2, 2], "two partitions each")
        for number in range(2):
            fill(cluster, TOPIC, [f"{number}.{each}" for each in range(200)], PARTITIONS)
            poll_to(partial(_is_at_least, values, read + 100), "half of the records")
            victim = coordinator_of(cluster, GROUP)
            cluster[victim].kill()
            read += 200
            poll_to(partial(_is_at_least, values, read), "the rest, with another coordinator")
            assert coordinator_of(cluster, GROUP) != victim
            wanted = dict.fromkeys(range(PARTITIONS), read // PARTITIONS)
            poll_to(partial(commits.has, wanted), "commits of all of it at the other coordinator")
            commits.check(members[0])
            cluster.restart([victim])
        assert values() == read


def _is_at_least(count: Callable[[], int], wanted: int) -> bool:
    return count() >= wanted


def test_commits_survive_the_death_of_all_brokers(cluster: BrokerCluster):
    commits = _Commits()
    fill(cluster, TOPIC, [str(number) for number in range(100)], PARTITIONS)
    with closing(Member(cluster, GROUP, TOPIC)) as member:
        poll_until([member], lambda: len(member.values) == 100, "all records")
        commits.commit([member])
        assert sum(commits.acked.values()) == 100
        for broker in cluster.brokers.values():
            broker.kill()
        cluster.restart(cluster.brokers)
        commits.check(member)
        fill(cluster, TOPIC, ["one more"], PARTITIONS)
        poll_until([member], lambda: member.values[-1] == "one more", "what came afterwards")
