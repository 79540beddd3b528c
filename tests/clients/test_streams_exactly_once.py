"""Kafka Streams' own program finds that Kafka Streams did each input exactly once, though processes were killed.

The topics exist beforehand with the policy delete. Apache Kafka is asked first: what fails there is no fault of Raftka.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.kafka.kafka_cluster import running_kafka
from tests.clients.streams_application import StreamsApplication, check_topics_are_as_created, create_topics
from tests.needed_tools import needs_tools
from tests.process.broker_processes import BrokerCluster

pytestmark = [
    pytest.mark.process,
    pytest.mark.long,
    # On two cores each kill takes half a minute: a session that ends, a group that forms, states that are read.
    pytest.mark.timeout(900),
    needs_tools("java", "javac", "mvn"),
]

_REPLICAS = 3
_INSTANCES = ("one", "two")


@dataclass(frozen=True, slots=True)
class Brokers:
    """Three brokers of one kind.

    Attributes:
        bootstrap: Their addresses.
        killable: The cluster whose brokers the test kills; None for Apache Kafka, of which only instances are killed.
    """

    bootstrap: str
    killable: BrokerCluster | None


@pytest.fixture(params=["apache-kafka", "raftka"])
def brokers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Brokers]:
    if request.param == "raftka":
        cluster: BrokerCluster = request.getfixturevalue("transactional")
        yield Brokers(cluster.bootstrap, cluster)
        return
    with running_kafka(tmp_path) as kafka:
        yield Brokers(kafka.bootstrap, None)


def test_kafka_streams_does_each_input_once_though_instances_and_brokers_are_killed(
    brokers: Brokers, tmp_path: Path
) -> None:
    create_topics(brokers.bootstrap, _REPLICAS)
    with closing(StreamsApplication(brokers.bootstrap, tmp_path)) as application:
        for instance in _INSTANCES:
            application.start(instance)
        application.wait_more()
        for victim in _INSTANCES:
            application.kill(victim)
            application.wait_more()
            application.start(victim)
            application.wait_more()
        if brokers.killable is not None:
            _kill_each_broker_once(brokers.killable, application)
        application.end_inputs()
        application.end()
        application.verify()
    check_topics_are_as_created(brokers.bootstrap)


def _kill_each_broker_once(cluster: BrokerCluster, application: StreamsApplication) -> None:
    # One of them is the group's coordinator, and others those of the instances' transactions.
    for victim in cluster.brokers:
        cluster[victim].kill()
        try:
            application.wait_more()
        finally:
            cluster.restart([victim])
