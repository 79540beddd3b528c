"""raft0's leader moves partitions away from brokers that are to be empty and from lost disks (RFC 0020).

It looks each second, if a table has changed. A replica must go if its broker is being decommissioned, or if its data
directory is retired. A node that has joined with a new directory gets back what it had. Everything else goes to the
active broker with the fewest replicas, working ones first. Internal topics get more replicas as brokers join, up to
three, and lose those that no active broker is left for. A few partitions move at a time.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from cluster.commands import AlterPlacements, PlacementRecord, ReplicaRecord
from cluster.controller import Controller
from cluster.errors import ClusterError
from cluster.members_table import BrokerState, MembersTable
from cluster.placement import Replicas
from cluster.topic_table import Topic, TopicTable
from model.features import BROKERS_LEVEL, MEMBERSHIP
from model.ids import DirectoryId, NodeId, Replica
from runtime.gate import Gate

_logger = logging.getLogger("cluster")
_INTERVAL = 1.0
_TIMEOUT = 5.0
MOVES_AT_ONCE = 8
INTERNAL_REPLICAS = 3


class Wanted(NamedTuple):
    """Where a partition is to go."""

    topic: Topic
    number: int
    target: Replicas


def must_leave(members: MembersTable, replica: Replica) -> bool:
    """Whether a replica must go elsewhere: its broker is to be empty, or its directory never counts again."""
    member = members.member(replica.node_id)
    if replica.directory_id in members.retired or member is None or member.replica != replica:
        return True
    return member.state is BrokerState.DECOMMISSIONING


def evacuated(
    replicas: Replicas,
    members: MembersTable,
    counts: Mapping[NodeId, int],
    is_alive: Callable[[NodeId], bool] = lambda _: True,
    *,
    may_shrink: bool = False,
) -> Replicas | None:
    """Return the replicas with those that must leave replaced; None: nothing can be done now.

    A node whose directory is retired is waited for: it may join again, unless it is to be empty. The order stays, and
    with it the preferred leader's place.

    Args:
        replicas: As wanted until now.
        members: The brokers.
        counts: Replicas of each broker.
        is_alive: Whether a broker works: one that does not would keep the move waiting, so it comes last.
        may_shrink: Whether a replica that no active broker is left for may go all the same, unless it is the last one.
    """
    usable = _usable(members)
    kept = [replica for replica in replicas if not must_leave(members, replica)]
    # A node that has joined anew gets its own back, so nobody else's place is there.
    taken = {replica.node_id for replica in replicas if replica in kept or replica.node_id in usable}
    found: dict[NodeId, Replica] = {replica.node_id: replica for replica in kept}
    is_better = False
    for replica in replicas:
        if replica.node_id in found:
            continue
        member = members.member(replica.node_id)
        if replica.node_id in usable:
            found[replica.node_id] = Replica(replica.node_id, usable[replica.node_id])
            is_better = True
            continue
        is_waited_for = member is not None and member.state is not BrokerState.DECOMMISSIONING
        free = [] if is_waited_for else _by_fill(usable.keys() - taken, counts, is_alive)
        if not free:
            if may_shrink and not is_waited_for and (kept or is_better):
                is_better = True
            else:
                found[replica.node_id] = replica
            continue
        found[replica.node_id] = Replica(free[0], usable[free[0]])
        taken.add(free[0])
        is_better = True
    result = tuple(found[replica.node_id] for replica in replicas if replica.node_id in found)
    if not is_better or len({each.node_id for each in result}) < len(result):
        return None
    return result


def _usable(members: MembersTable) -> dict[NodeId, DirectoryId]:
    """Return the directory of each broker that may get replicas."""
    return {NodeId(each.node_id): DirectoryId(each.directory_id) for each in members.usable()}


def _by_fill(nodes: Iterable[NodeId], counts: Mapping[NodeId, int], is_alive: Callable[[NodeId], bool]) -> list[NodeId]:
    """Return brokers that work before others, and of these those with the fewest replicas first."""
    return sorted(nodes, key=lambda node: (not is_alive(node), counts.get(node, 0), node))


def can_move(topic: Topic, number: int, retired: Collection[DirectoryId]) -> bool:
    """Whether the voters that are left may still agree on others: retired directories never answer."""
    voters = topic.replicas[number]
    return 2 * sum(voter.directory_id not in retired for voter in voters) > len(voters)


def raised(
    replicas: Replicas,
    members: MembersTable,
    counts: Mapping[NodeId, int],
    is_alive: Callable[[NodeId], bool] = lambda _: True,
) -> Replicas | None:
    """Return the replicas of a partition of an internal topic with as many as it should have; None: it has them."""
    usable = _usable(members)
    missing = min(INTERNAL_REPLICAS, len(usable)) - len(replicas)
    if missing <= 0:
        return None
    held = {replica.node_id for replica in replicas}
    free = _by_fill(usable.keys() - held, counts, is_alive)[:missing]
    return (*replicas, *(Replica(node, usable[node]) for node in free)) if free else None


def wanted_moves(
    topics: TopicTable, members: MembersTable, places: int, is_alive: Callable[[NodeId], bool] = lambda _: True
) -> list[Wanted]:
    """Return which partitions must move now, and where to: up to `places`, and those that move and must go elsewhere.

    A partition whose voters cannot agree on anything any more is left alone: its move would never end, and those of
    others would wait for its place.
    """
    counts = {member.node_id: topics.replica_count(member.node_id) for member in members.admitted()}
    found: list[Wanted] = []
    for topic, number, replicas in _partitions(topics):
        is_moving = topic.move_of(number) is not None
        if (places <= 0 and not is_moving) or not can_move(topic, number, members.retired):
            continue
        target = None
        if any(must_leave(members, replica) for replica in replicas):
            target = evacuated(replicas, members, counts, is_alive, may_shrink=topic.is_internal)
        elif topic.is_internal and not is_moving:
            target = raised(replicas, members, counts, is_alive)
        if target is None:
            continue
        places -= not is_moving
        for replica in target:
            if replica not in replicas:
                counts[replica.node_id] = counts.get(replica.node_id, 0) + 1
        found.append(Wanted(topic, number, target))
    return found


def _partitions(topics: TopicTable) -> Iterator[tuple[Topic, int, Replicas]]:
    for topic in topics.all():
        for number, replicas in enumerate(topic.replicas):
            move = topic.move_of(number)
            yield topic, number, replicas if move is None else move.target


class Evacuation:
    """See the module."""

    def __init__(self, controller: Controller, is_alive: Callable[[NodeId], bool]) -> None:
        self._controller = controller
        self._is_alive = is_alive
        self._gate = Gate("evacuation")
        # Whether anything has changed since a look in office found nothing to move: then no partition is gone through.
        self._is_due = True

    def start(self) -> None:
        """Begin to look."""
        self._controller.topics.add_listener(self._on_change)
        self._controller.members.add_listener(self._on_change)
        self._gate.spawn(self._run(), name="look")

    async def stop(self) -> None:
        """Propose nothing more."""
        await self._gate.close()

    def _on_change(self) -> None:
        self._is_due = True

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_INTERVAL)
            controller = self._controller
            is_in_use = controller.features.level(MEMBERSHIP) >= BROKERS_LEVEL
            if not self._is_due or not controller.is_in_office or not is_in_use:
                continue
            try:
                self._is_due = bool(self._due())
                if self._is_due:
                    await self._propose()
            except ClusterError as error:
                # The next look tries again, here or at the next leader.
                _logger.info("partitions have not begun to move away: %s", error)

    def _due(self) -> Sequence[Wanted]:
        topics = self._controller.topics
        members = self._controller.members
        # What cannot end takes no place.
        moving = sum(
            topic.move_of(number) is not None and can_move(topic, number, members.retired)
            for topic in topics.all()
            for number in topic.placements
        )
        return wanted_moves(topics, members, MOVES_AT_ONCE - moving, self._is_alive)

    async def _propose(self) -> None:
        """Let the partitions that are due move.

        Raises:
            ClusterError: They are not known to move.
        """
        controller = self._controller
        deadline = asyncio.get_running_loop().time() + _TIMEOUT
        async with controller.admission:
            await controller.confirm_office(deadline)
            due = self._due()
            if not due:
                return
            for topic, number, target in due:
                nodes = [int(replica.node_id) for replica in target]
                _logger.info("partition %s is to be on brokers %s", topic.partition_name(number), nodes)
            records = [
                PlacementRecord(topic.topic_id, number, [ReplicaRecord(*replica) for replica in target])
                for topic, number, target in due
            ]
            await controller.propose(AlterPlacements(records), deadline)
