"""Brokers as JSON: a row for each, at `GET /v1/brokers`, and what is wrong with the link to it."""

import asyncio
from collections import Counter
from itertools import islice

from cluster.members_table import Member
from cluster.node import Node
from model.ids import NodeId
from raftka.broker.readiness import refused_links
from raftka.health.refusals import RefusedLink

_PARTITIONS_PER_STEP = 100


async def broker_rows(node: Node) -> list[dict[str, object]]:
    """Return a row for each broker that was admitted, in order of node id; other tasks run between steps."""
    refused, (held, led) = refused_links(node), await _counted(node)
    return [
        {
            **_addresses(node, member),
            "alive": node.is_alive(member.node_id),
            **_refused_json(refused.get(member.node_id)),
            **member_json(node, member),
            "replicas": held[member.node_id],
            "led": led[member.node_id],
        }
        for member in node.controller.members.admitted()
    ]


def member_json(node: Node, member: Member) -> dict[str, object]:
    """Return what raft0's table has of a broker.

    `directory_retired`: its directory never counts again, and it has not joined with another one. `replaced`: the
    retired directory in whose place it has joined; empty: there was none.
    """
    broker = node.controller.members.get(member.node_id)
    watch = node.broker_watch
    return {
        "directory_id": member.replica.directory_id,
        "directory_retired": node.controller.members.is_retired(member),
        "replaced": member.replaced,
        "epoch": [member.epoch.generation, member.epoch.raft0_index],
        "state": member.state.value,
        "state_seconds": round(watch.seconds_in_state(member.node_id), 1),
        "idle_seconds": round(watch.seconds_without_progress(member.node_id), 1),
        "raft0": raft0_role(node, member),
        "features": {} if broker is None else dict(broker.features),
    }


def raft0_role(node: Node, member: Member) -> str:
    """Return what a broker is in raft0, by its table; while raft0 is being moved, what it was before."""
    return "voter" if member.replica in node.controller.raft0.voters else "learner"


def _addresses(node: Node, member: Member) -> dict[str, object]:
    broker = node.controller.members.get(member.node_id)
    if broker is None:
        rpc = f"{member.rpc_host}:{member.rpc_port}" if member.rpc_port else ""
        return {"node_id": member.node_id, "kafka": "", "rpc": rpc, "admin": ""}
    return {
        "node_id": member.node_id,
        "kafka": f"{broker.kafka_host}:{broker.kafka_port}",
        "rpc": f"{broker.rpc_host}:{broker.rpc_port}",
        "admin": f"{broker.admin_host}:{broker.admin_port}",
    }


async def _counted(node: Node) -> tuple[Counter[NodeId], Counter[NodeId]]:
    """Return how many replicas each broker holds, those on their way counted, and how many it leads."""
    held: Counter[NodeId] = Counter()
    led: Counter[NodeId] = Counter()
    places = ((topic, number) for topic in node.controller.topics.all() for number in range(len(topic.replicas)))
    while step := list(islice(places, _PARTITIONS_PER_STEP)):
        for topic, number in step:
            held.update(replica.node_id for replica in topic.holders(number))
            leader = node.leadership.leader_of(topic.group(number))
            if leader is not None and node.is_alive(leader.node_id):
                led[leader.node_id] += 1
        await asyncio.sleep(0)
    return held, led


def _refused_json(refused: RefusedLink | None) -> dict[str, object]:
    if refused is None:
        return {"refused": None, "refused_cure": None, "refused_seconds": None}
    return {"refused": refused.words, "refused_cure": refused.cure, "refused_seconds": round(refused.age, 1)}
