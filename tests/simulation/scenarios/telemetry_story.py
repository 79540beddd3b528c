"""A scenario whose brokers publish telemetry, and what the topic tells of it."""

import json
from typing import Any

from cluster.partition import Partition
from cluster.telemetry.publisher import TelemetryPublisher
from cluster.telemetry.telemetry_topic import TELEMETRY_TOPIC, telemetry_partition
from cluster.topic_table import Topic
from model.ids import Offset
from model.key_value_batch import read_key_values
from tests.simulation.scenarios.scenario import LEADER, QUORUM, Scenario
from tests.simulation.world.cluster import TOPIC

Record = dict[str, Any]


def telemetry_story(seed: int, **options: Any) -> Scenario:
    return Scenario(seed, telemetry=True, **options)


def topic_of(story: Scenario) -> Topic | None:
    node = next(iter(story.cluster.nodes.values()))
    return node.controller.topics.get(TELEMETRY_TOPIC)


def wait_for_topic(story: Scenario) -> Topic:
    story.wait(lambda: topic_of(story) is not None)
    topic = topic_of(story)
    assert topic is not None
    story.wait(lambda: all(leader_of_part(story, number) for number in range(len(topic.replicas))))
    return topic


def leader_of_part(story: Scenario, number: int) -> int | None:
    topic = topic_of(story)
    return None if topic is None else story.cluster.leader_of(topic.group(number))


def part_of_story(story: Scenario) -> int:
    """Return the partition of the topic that tells of the story's own."""
    topic = topic_of(story)
    assert topic is not None
    return telemetry_partition(f"{TOPIC}-0".encode(), len(topic.replicas))


def publisher_of(story: Scenario, node_id: int) -> TelemetryPublisher:
    publisher = story.cluster.nodes[node_id].telemetry
    assert publisher is not None
    return publisher


def told_in(story: Scenario, number: int) -> list[Record]:
    """Return every record of a partition of the topic that its leader shows."""
    topic, leader = topic_of(story), leader_of_part(story, number)
    assert topic is not None
    assert leader is not None
    partition = story.cluster.partition(leader, topic.group(number))
    assert partition is not None
    batches = story.world.run(story.machine(leader), _all_batches(partition))
    return [json.loads(each.value) for batch in batches for each in read_key_values(batch) if each.value is not None]


async def _all_batches(partition: Partition) -> list[Any]:
    return await partition.fetch(Offset(partition.start_offset), 1 << 26)


def records_of(records: list[Record], broker: int) -> list[Record]:
    return [each for each in records if (each["topic"], each["broker"]) == (TOPIC, broker)]


def write_for(story: Scenario, seconds: float, node_id: int) -> int:
    """Write ten times a second at each level; return how many of each."""
    rounds = round(seconds * 10)
    for _ in range(rounds):
        story.write(node_id, QUORUM)
        story.write(node_id, LEADER)
        story.run_for(0.1)
    return rounds
