"""Tasks: topics."""

import pytest

from tests.clients.client import Client
from tests.clients.referee import Referee
from tests.process.broker_processes import eventually

pytestmark = pytest.mark.process


def test_topics_are_listed(client: Client, referee: Referee, topic: str):
    referee.create_topic(topic, partitions=2)
    assert client.topics()[topic] == 2
    referee.delete_topic(topic)


@pytest.mark.asks(needs=("administers",))
def test_topics_are_created_changed_and_deleted(client: Client, referee: Referee, topic: str):
    client.create_topic(topic, 2, {"retention.ms": "86400000", "max.message.bytes": "100000"})
    eventually("the topic", lambda: referee.partitions_of(topic) == 2)
    eventually("the topic in the client's list", lambda: client.topics().get(topic) == 2)
    assert client.config(topic, "retention.ms") == "86400000"

    client.set_config(topic, "retention.ms", "3600000")
    eventually("the other retention", lambda: client.config(topic, "retention.ms") == "3600000")

    client.add_partitions(topic, 3)
    eventually("three partitions", lambda: referee.partitions_of(topic) == 3)

    client.delete_topic(topic)
    eventually("no such topic", lambda: referee.partitions_of(topic) is None)
    eventually("no such topic in the client's list", lambda: topic not in client.topics())
