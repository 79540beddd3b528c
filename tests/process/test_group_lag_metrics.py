"""A group's lag on /metrics: over partitions that all brokers lead, from the next coordinator, and never 0 for unknown."""

import re
import urllib.request
from contextlib import closing

import pytest
from confluent_kafka import TopicPartition

from tests.process.broker_processes import BrokerCluster, ClusterMaker, eventually
from tests.process.group_members import GROUP_OPTIONS, Member, coordinator_of, fill
from tests.process.kafka_topics import create_topic

pytestmark = pytest.mark.process

TOPIC, GROUP, PARTITIONS = "orders", "readers", 3
_SAMPLE = re.compile(r'^raftka_group_lag_(\w+)\{group="readers"\} (\S+)$', re.MULTILINE)


def _lag(cluster: BrokerCluster, node: int) -> tuple[int, int, int] | None:
    """Return records, records of the worst partition and unknown partitions, as one broker tells them; None: nothing."""
    with urllib.request.urlopen(f"http://{cluster[node].admin}/metrics", timeout=10) as answer:
        told = {name: int(float(value)) for name, value in _SAMPLE.findall(answer.read().decode())}
    return (told["records"], told["max_records"], told["unknown_partitions"]) if told else None


def _commit(cluster: BrokerCluster, offset: int) -> None:
    with closing(Member(cluster, GROUP, TOPIC)) as member:
        offsets = [TopicPartition(TOPIC, number, offset) for number in range(PARTITIONS)]
        member.consumer.commit(offsets=offsets, asynchronous=False)


def test_lag_is_told_by_the_coordinator_and_after_its_death_by_the_next_one(make_cluster: ClusterMaker):
    cluster = make_cluster(3, **GROUP_OPTIONS)
    cluster.start()
    create_topic(cluster, TOPIC, partitions=PARTITIONS)
    # As a rule each partition is led by another broker, but a replica that is late lets the next one lead. Whoever keeps
    # the group then asks others, too.
    leaders = {cluster.leader_of(TOPIC, number) for number in range(PARTITIONS)}
    assert len(leaders) > 1
    fill(cluster, TOPIC, [str(number) for number in range(300)], PARTITIONS)
    _commit(cluster, 90)
    first = coordinator_of(cluster, GROUP)
    assert eventually("a lag", lambda: _lag(cluster, first)) == (30, 10, 0)
    assert [_lag(cluster, node) for node in cluster.brokers if node != first] == [None, None]

    cluster[first].kill()
    second = coordinator_of(cluster, GROUP, other_than=first)
    fill(cluster, TOPIC, [str(number) for number in range(30)], PARTITIONS)
    eventually("the lag at the next coordinator", lambda: _lag(cluster, second) == (60, 20, 0) or None)

    # Two of three are dead: nobody is in office, and nobody tells a lag.
    other = next(node for node in cluster.brokers if node not in (first, second))
    cluster[other].kill()
    eventually("silence", lambda: _lag(cluster, second) is None or None)


# Four waits for the next measurement, one each 10 s.
@pytest.mark.slow
def test_a_partition_without_a_leader_is_unknown_and_the_rest_is_told(make_cluster: ClusterMaker):
    cluster = make_cluster(3, **GROUP_OPTIONS)
    cluster.start()
    create_topic(cluster, TOPIC, partitions=PARTITIONS, replicas=1)
    fill(cluster, TOPIC, [str(number) for number in range(300)], PARTITIONS)
    _commit(cluster, 90)
    keeper = coordinator_of(cluster, GROUP)
    eventually("a lag", lambda: _lag(cluster, keeper) == (30, 10, 0) or None)
    victim = next(leader for number in range(PARTITIONS) if (leader := cluster.leader_of(TOPIC, number)) != keeper)
    cluster[victim].kill()
    eventually("an unknown end", lambda: _lag(cluster, keeper) == (20, 10, 1) or None)
    cluster.restart([victim])
    eventually("all ends again", lambda: _lag(cluster, keeper) == (30, 10, 0) or None)
