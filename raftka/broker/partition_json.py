"""All partitions as JSON, encoded in short steps: the answer of `GET /v1/partitions` must not hold the loop."""

import asyncio
import json
from collections.abc import Sequence
from itertools import islice

from cluster.node import Node
from cluster.topic_table import Topic
from model.ids import NodeId
from raftka.partition_health import partition_health

PARTITIONS_PER_STEP = 100


async def render_partitions(node: Node, topics: Sequence[Topic]) -> bytes:
    """Return `node_id` and a row of each partition of these topics, as this broker knows it.

    A row has topic, partition, leader (-1: nobody), term, replicas, in_sync, min_isr, status (partition_health), and
    `leo` and `hw`, the offsets of the next record and after the last visible one. Only a leader in office knows these
    two; elsewhere they are null. Other tasks run between every PARTITIONS_PER_STEP, so rows are of different moments.
    """
    rows = ((topic, number) for topic in topics for number in range(len(topic.replicas)))
    encoded: list[str] = []
    while step := [json.dumps(_row(node, topic, number)) for topic, number in islice(rows, PARTITIONS_PER_STEP)]:
        encoded += step
        await asyncio.sleep(0)
    return f'{{"node_id": {node.options.node_id}, "partitions": [{", ".join(encoded)}]}}'.encode()


def chosen_topics(node: Node, name: str | None) -> Sequence[Topic]:
    """Return the topics in the order of their names, or the one that is named; none if there is no such topic."""
    table = node.controller.topics
    if name is None:
        return sorted(table.all(), key=lambda topic: topic.name)
    topic = table.get(name)
    return () if topic is None else (topic,)


def _row(node: Node, topic: Topic, number: int) -> dict[str, object]:
    group = topic.group(number)
    replicas = [int(replica.node_id) for replica in topic.replicas[number]]
    leader = node.leadership.leader_of(group)
    # The last leader that was heard of may be dead, and nobody else may have been elected.
    if leader is not None and not node.is_alive(NodeId(leader.node_id)):
        leader = None
    in_sync = [] if leader is None else [int(member) for member in leader.in_sync]
    leader_id = -1 if leader is None else int(leader.node_id)
    here = node.partitions.get(group)
    led = here if here is not None and here.is_in_office else None
    return {
        "topic": topic.name,
        "partition": number,
        "leader": leader_id,
        "term": -1 if leader is None else leader.term,
        "replicas": replicas,
        "in_sync": in_sync,
        "min_isr": topic.config.min_insync_replicas,
        "status": partition_health(leader_id, replicas, in_sync, topic.config.min_insync_replicas),
        "leo": None if led is None else led.end_offset,
        "hw": None if led is None else led.high_watermark,
    }
