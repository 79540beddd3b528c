"""What must hold once the faults are over: every table's groups stand where it places them, and nothing is held back.

One sentence says what is missing, the first thing that is; None: nothing is. It is asked after every instant of a phase
that waits for it, so what most often is missing is looked for first.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from cluster.evacuation import wanted_moves
from cluster.members_table import BrokerState
from cluster.node import Node
from cluster.raft0_voters import voter_count
from cluster.transactions.log_state import TransactionalLogState
from cluster.transactions.records import TransactionState
from cluster.transactions.transactions_log_state import TransactionsLogState
from kafka_api.server import KafkaServer
from model.features import BROKERS_LEVEL, ENDED_LEADERSHIPS_LEVEL, MEMBERSHIP
from model.ids import RAFT0, GroupId, Replica, number_of, topic_of
from raft.consensus import Consensus
from raft.gravestone import gravestone_key
from raft.replica_directories import marker_key
from tests.simulation.world.sim_disk import Directory

_OF_A_CONNECTION = "kafka connection/"
# The simulator's own in a broker's process: operators.
_NOT_THE_BROKERS = "main"

_Placement = dict[GroupId, frozenset[Replica]]


class Broker(NamedTuple):
    """What is looked at of a broker that is up; `server` is None where no client is served."""

    node: Node
    server: KafkaServer | None
    groups_directory: Directory
    loop: asyncio.AbstractEventLoop


def what_is_missing(brokers: Mapping[int, Broker]) -> str | None:
    """Return why the cluster has not converged; `brokers` are all there are, by node id."""
    nodes = {node_id: broker.node for node_id, broker in brokers.items()}
    if not all(hasattr(node, "backend") and node.is_registered.is_set() for node in nodes.values()):
        return "a broker has not joined"
    placement, *others = [_placement(node) for node in nodes.values()]
    if any(other != placement for other in others):
        return "the brokers' tables of topics differ"
    one = next(iter(nodes.values()))
    moving = _moving(one) or _other_brokers(one, nodes)
    if moving is not None:
        return moving
    for group, placed in placement.items():
        if not nodes.keys() >= {replica.node_id for replica in placed}:
            return f"{group} is placed on {sorted(placed)}, and brokers {sorted(nodes)} run"
        learners = _learners(one) if group == RAFT0 else frozenset()
        replicas = {replica.node_id: nodes[replica.node_id].groups.get(group) for replica in placed | learners}
        missing = _missing_in_group(group, replicas) or _other_members(group, placed, learners, replicas)
        if missing is not None:
            return missing
    for node_id, broker in brokers.items():
        here = {group for group, placed in placement.items() if group == RAFT0 or broker.node.replica in placed}
        missing = (
            _left_behind(broker, here)
            or _held_by_broker(broker)
            or _leaked_task(broker)
            or _unknown_leader(broker.node, placement, nodes)
        )
        if missing is not None:
            return f"node {node_id}: {missing}"
    return None


def what_is_open(brokers: Mapping[int, Broker]) -> str | None:
    """Return a transaction that has not ended, by the tables of whoever leads; None: there is none.

    Each has a time-out, and a coordinator sends markers until they are written. So none may be open for ever.
    """
    for node_id, broker in brokers.items():
        for group, replica in broker.node.groups._groups.items():
            state = replica._log_state._state if replica.is_in_office else None
            if isinstance(state, TransactionalLogState) and len(state.transactions):
                return f"node {node_id}: {len(state.transactions)} transactions are open in {group}"
            if isinstance(state, TransactionsLogState):
                stored = (state.table.get(name) for name in state.table.transactional_ids())
                under_way = [each.stored for each in stored if each is not None and _is_under_way(each.stored.state)]
                if under_way:
                    return f"node {node_id}: {group} has {under_way[0]}"
    return None


def _is_under_way(state: TransactionState) -> bool:
    return state is TransactionState.ONGOING or state.is_prepare


def _other_brokers(node: Node, nodes: Mapping[int, Node]) -> str | None:
    """Return how a broker's tables differ from the brokers that run, and what raft0's leader has yet to do about it."""
    controller = node.controller
    admitted = {int(member.node_id): member for member in controller.members.admitted()}
    if {node_id: member.replica for node_id, member in admitted.items()} != {
        node_id: each.replica for node_id, each in nodes.items()
    }:
        return f"brokers {sorted(nodes)} run, and {[member.replica for member in admitted.values()]} are in the cluster"
    leaving = [node_id for node_id, member in admitted.items() if member.state is not BrokerState.ACTIVE]
    if leaving:
        return f"brokers {leaving} are not active"
    if controller.features.level(MEMBERSHIP) < BROKERS_LEVEL:
        return None
    voters = controller.raft0.voters
    if controller.raft0.move is not None or len(voters) != voter_count(len(admitted)):
        return f"raft0 has {[int(voter.node_id) for voter in voters]} of {sorted(admitted)}, {controller.raft0.move}"
    due = wanted_moves(controller.topics, controller.members, 1)
    return f"{due[0].topic.partition_name(due[0].number)} must move to {due[0].target}" if due else None


def _placement(node: Node) -> _Placement:
    """Return the voters of every group there is, as a broker's tables have it."""
    placed: _Placement = {RAFT0: frozenset(node.controller.raft0.voters)}
    for topic in node.controller.topics.all():
        for number, replicas in enumerate(topic.replicas):
            placed[topic.group(number)] = frozenset(replicas)
    return placed


def _moving(node: Node) -> str | None:
    """Return a partition that is still on its way to other replicas."""
    return next(
        (
            f"{topic.partition_name(number)} is still being moved: {topic.move_of(number)}"
            for topic in node.controller.topics.all()
            for number in topic.placements
            if topic.move_of(number) is not None
        ),
        None,
    )


def _learners(node: Node) -> frozenset[Replica]:
    """Return who learns raft0 for good, as a broker's tables have it: each broker that does not vote."""
    controller = node.controller
    return frozenset(member.replica for member in controller.members.admitted()) - set(controller.raft0.voters)


def _other_members(
    group: GroupId, placed: frozenset[Replica], learners: frozenset[Replica], replicas: Mapping[int, Consensus | None]
) -> str | None:
    """Return a replica whose configuration is not what the table says (L6 of RFC 0019)."""
    for node_id, replica in replicas.items():
        members = None if replica is None else replica.configuration
        if members is None:
            continue
        if learners != set(members.learners) or [set(placed)] != [set(each) for each in members.voter_sets]:
            return f"{group} is placed on {sorted(placed)}, and node {node_id} has it with {members}"
    return None


def _unknown_leader(node: Node, placement: _Placement, nodes: Mapping[int, Node]) -> str | None:
    """Return a group of which the broker tells clients another leader than the one in office, or none.

    Below the level at which news of leaders end, only partitions that were moved are looked at.
    """
    ends = node.controller.features.level(MEMBERSHIP) >= ENDED_LEADERSHIPS_LEVEL
    for topic in node.controller.topics.all():
        for number in range(len(topic.replicas)) if ends else topic.placements:
            group = topic.group(number)
            if node.groups.get(group) is not None:
                continue
            leader = node.leadership.leader_of(group)
            if leader is None or leader.node_id not in {replica.node_id for replica in placement[group]}:
                return f"it takes {leader} for the leader of {group}"
            led = nodes[leader.node_id].groups.get(group)
            if ends and not (led is not None and led.is_in_office and led.term == leader.term):
                return f"it takes {leader} for the leader of {group}, and that leads it no more"
    return None


def _missing_in_group(group: GroupId, replicas: Mapping[int, Consensus | None]) -> str | None:
    """Return what keeps replicas from holding, and knowing as committed, the same entries, under one leader."""
    ends = set()
    for node_id, replica in replicas.items():
        if replica is None:
            return f"node {node_id} has no replica of {group}"
        state, log = replica.state, replica.log
        if replica.failure is not None:
            return f"the replica of {group} on node {node_id} has failed: {replica.failure}"
        if state.is_refilling:
            return f"node {node_id} has not filled {group} again"
        if not state.commit_index == state.visible_index == log.dirty_index:
            return f"node {node_id} has not committed, or does not show, all that it holds of {group}"
        ends.add((state.term, log.last_term, log.dirty_index))
    if len(ends) != 1:
        return f"the replicas of {group} are not equal"
    if not any(replica is not None and replica.is_in_office for replica in replicas.values()):
        return f"nobody leads {group}"
    return next((held for replica in replicas.values() if replica is not None for held in _held_by(replica)), None)


def _left_behind(broker: Broker, here: set[GroupId]) -> str | None:
    """Return what there is of groups other than those that are placed `here`: replicas, directories, markers, votes."""
    node = broker.node
    places: tuple[tuple[str, set[GroupId]], ...] = (
        ("group manager", set(node.groups._groups)),
        ("partition manager", set(node.partitions._partitions) | {RAFT0}),
        ("disk", {GroupId(name.replace("-", "/")) for name in broker.groups_directory.entries}),
        ("kvstore", {_group_of(key) for key, _ in node._kvstore.items("raft/") if not _is_gravestone(node, key, here)}),
    )
    for name, groups in places:
        if groups != here:
            return f"in its {name} there are {sorted(groups - here)} too many, {sorted(here - groups)} too few"
    return None


def _is_gravestone(node: Node, key: str, here: set[GroupId]) -> bool:
    """Whether a key is what a replica leaves behind of a partition that was moved away and is still there."""
    group = _group_of(key)
    topic = None if group == RAFT0 or group in here else node.controller.topics.get_by_id(topic_of(group))
    if topic is None or number_of(group) not in topic.placements:
        return False
    return key == gravestone_key(group) or (key == marker_key(group) and node._kvstore.get(key) == b"left")


def _group_of(key: str) -> GroupId:
    """Return whose key of the kvstore it is: `raft/GROUP/WHAT`."""
    return GroupId(key.removeprefix("raft/").rpartition("/")[0])


def _held_by(replica: Consensus) -> Iterator[str]:
    """Yield the queues and budgets of a replica that are not empty."""
    batcher, buffer = replica._batcher, replica._buffer
    held = {
        "entries in its batcher": not batcher.is_idle or bool(batcher._in_doubt),
        "bytes of its batcher's budget": batcher._budget.taken > 0,
        "requests in its append buffer": bool(buffer._queue) or buffer._is_draining,
        "bytes that no majority has": replica.state.unreplicated.total > 0,
    }
    yield from (f"{replica.group} still holds {name}" for name, is_held in held.items() if is_held)


def _held_by_broker(broker: Broker) -> str | None:
    budgets = {"bytes of its batchers": broker.node.groups.limits.batcher_budget.taken}
    if broker.server is not None:
        budgets["bytes of requests"] = broker.server._requests.taken
        budgets["bytes of fetches"] = broker.server._fetches.taken
    return next((f"{taken} {name} are not given back" for name, taken in budgets.items() if taken), None)


def _leaked_task(broker: Broker) -> str | None:
    """Return the name of a task that is there more often than it may be: once, and once for each connection."""
    connections = 1 if broker.server is None else broker.server.connection_count
    counts = Counter(task.get_name() for task in asyncio.all_tasks(broker.loop))
    del counts[_NOT_THE_BROKERS]
    for name, count in counts.items():
        if count > (connections if name.startswith(_OF_A_CONNECTION) else 1):
            return f"{count} tasks {name!r} run"
    return None
