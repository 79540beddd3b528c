"""raft0's leader moves partitions away from brokers that are to be empty and from lost disks (RFC 0020).

It looks each second, if a table has changed, or a broker has come or gone. A replica must go if its broker is being
decommissioned, or if its data directory is retired. A node that has joined with a new directory gets back what it had.
Everything else goes to the active broker with the fewest replicas. Internal topics get more replicas as brokers join,
up to three, and lose those that no active broker is left for.

A move begins only if it can go on: nothing goes to a broker that is down, and no group is left to replicas without a
majority that works. A few partitions move at a time (`move_places`).

Only what moves or must move is judged (`move_index`). After a look that has judged many partitions the next one comes
later, so links that come and go take no more than a bounded part of the loop's time.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from cluster.commands import AlterPlacements, PlacementRecord, ReplicaRecord
from cluster.controller import Controller
from cluster.errors import ClusterError
from cluster.members_table import BrokerState, MembersTable
from cluster.move_index import INTERNAL_REPLICAS, MoveIndex
from cluster.move_places import MoveKey, MovePlaces, can_go_on
from cluster.placement import Replicas
from cluster.topic_table import Topic, TopicTable
from model.features import BROKERS_LEVEL, MEMBERSHIP
from model.ids import DirectoryId, NodeId, Replica
from runtime.gate import Gate

_logger = logging.getLogger("cluster")
_INTERVAL = 1.0
_TIMEOUT = 5.0
MOVES_AT_ONCE = 8
# How many moves and partitions that must move the looks judge each second, on average: it takes some 20 us for each.
JUDGED_PER_SECOND = 5000
# How often brokers are asked which moves get further, while one has not for so long as far as is known.
ASK_SECONDS = 600.0

ReadIdle = Callable[[], Awaitable[Mapping[MoveKey, float]]]


class Wanted(NamedTuple):
    """Where a partition is to go."""

    topic: Topic
    number: int
    target: Replicas


def evacuated(
    replicas: Replicas,
    members: MembersTable,
    counts: Mapping[NodeId, int],
    is_alive: Callable[[NodeId], bool] = lambda _: True,
    *,
    may_shrink: bool = False,
) -> Replicas | None:
    """Return the replicas with those that must leave replaced; None: nothing can be done now.

    A node whose directory is retired is waited for: it may join again, unless it is to be empty. A broker that is down
    gets nothing, and is waited for, too. The order stays, and with it the preferred leader's place.

    Args:
        replicas: As wanted until now.
        members: The brokers.
        counts: Replicas of each broker.
        is_alive: Whether a broker works.
        may_shrink: Whether a replica that no active broker is left for, down or not, may go all the same, unless it is
            the last one.
    """
    usable = _usable(members)
    kept = [replica for replica in replicas if not members.must_leave(replica)]
    # A node that has joined anew gets its own back, so nobody else's place is there.
    taken = {replica.node_id for replica in replicas if replica in kept or replica.node_id in usable}
    found: dict[NodeId, Replica] = {replica.node_id: replica for replica in kept}
    is_better = False
    for replica in replicas:
        if replica.node_id in found:
            continue
        member = members.member(replica.node_id)
        if replica.node_id in usable and is_alive(replica.node_id):
            found[replica.node_id] = Replica(replica.node_id, usable[replica.node_id])
            is_better = True
            continue
        is_waited_for = member is not None and member.state is not BrokerState.DECOMMISSIONING
        others = usable.keys() - taken
        free = [] if is_waited_for else _by_fill(others, counts, is_alive)
        if not free:
            if may_shrink and not is_waited_for and not others and (kept or is_better):
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
    """Return the brokers that work, those with the fewest replicas first."""
    return sorted(filter(is_alive, nodes), key=lambda node: (counts.get(node, 0), node))


def raised(
    replicas: Replicas,
    members: MembersTable,
    counts: Mapping[NodeId, int],
    is_alive: Callable[[NodeId], bool] = lambda _: True,
) -> Replicas | None:
    """Return the replicas of a partition of an internal topic with more of them; None: it can have no more now."""
    usable = _usable(members)
    held = {replica.node_id for replica in replicas}
    free = _by_fill(usable.keys() - held, counts, is_alive)[: max(0, INTERNAL_REPLICAS - len(replicas))]
    return (*replicas, *(Replica(node, usable[node]) for node in free)) if free else None


def next_target(
    topic: Topic,
    number: int,
    members: MembersTable,
    counts: Mapping[NodeId, int],
    is_alive: Callable[[NodeId], bool] = lambda _: True,
) -> Replicas | None:
    """Return where a partition is to go now, if it is not on its way there; None: nowhere, or it could not go on.

    Args:
        topic, number: The partition.
        members, counts, is_alive: As `evacuated` takes them.
    """
    for target in _targets(topic, number, members, counts, is_alive):
        if target is not None and can_go_on(topic.replicas[number], target, members, is_alive):
            return target
    return None


def _targets(
    topic: Topic,
    number: int,
    members: MembersTable,
    counts: Mapping[NodeId, int],
    is_alive: Callable[[NodeId], bool],
) -> Iterator[Replicas | None]:
    """Yield where a partition could go, the best target first."""
    now, move = topic.replicas[number], topic.move_of(number)
    wanted = now if move is None else move.target
    is_left = any(map(members.must_leave, wanted))
    if is_left:
        yield evacuated(wanted, members, counts, is_alive, may_shrink=topic.is_internal)
    if not topic.is_internal:
        return
    if is_left:
        # Those that stay cannot go on alone: what can be replaced is, and the others wait.
        yield evacuated(wanted, members, counts, is_alive)
    if move is None and not is_left:
        yield raised(wanted, members, counts, is_alive)
    if move is not None and len(wanted) < len(move.origin):
        # It shrinks, and a broker has come meanwhile. Without it the move may never end.
        yield raised(wanted, members, counts, is_alive)
        if not can_go_on(now, wanted, members, is_alive):
            larger = evacuated(move.origin, members, counts, is_alive)
            yield larger if larger is not None and len(larger) > len(wanted) else None


def wanted_moves(
    topics: TopicTable, members: MembersTable, places: int, is_alive: Callable[[NodeId], bool] = lambda _: True
) -> list[Wanted]:
    """Return which partitions must move now, and where to: up to `places`, and those that move and must go elsewhere.

    A move that could not go on is left alone: those of others would wait for its place.
    """
    index = MoveIndex(topics, members)
    index.refresh()
    return _judged(index, members, places, is_alive)[0]


def _judged(
    index: MoveIndex, members: MembersTable, places: int, is_alive: Callable[[NodeId], bool]
) -> tuple[list[Wanted], int]:
    """Return what `wanted_moves` does, and how many partitions it took to find that out."""
    counts, count = dict(index.counts), 0
    found: list[Wanted] = []
    for topic, number in index.due:
        is_moving = topic.move_of(number) is not None
        if places <= 0 and not is_moving:
            continue
        count += 1
        target = next_target(topic, number, members, counts, is_alive)
        if target is None:
            continue
        places -= not is_moving
        for replica in target:
            if replica not in topic.holders(number):
                counts[replica.node_id] = counts.get(replica.node_id, 0) + 1
        found.append(Wanted(topic, number, target))
    return found, count


def pause_after(judged: int) -> float:
    """Return the seconds until the next look, after one that has judged so many partitions."""
    return max(_INTERVAL, judged / JUDGED_PER_SECOND)


class Evacuation:
    """See the module.

    Args:
        controller: raft0 here.
        is_alive: Whether a broker works.
        read_idle: Asks the brokers for how many seconds each move has not got further, as far as they know.

    Attributes:
        judged: How many moves, and partitions that must move, its looks have judged.
        index: Which these are.
    """

    def __init__(self, controller: Controller, is_alive: Callable[[NodeId], bool], read_idle: ReadIdle) -> None:
        self._controller = controller
        self._is_alive = is_alive
        self._read_idle = read_idle
        self._gate = Gate("evacuation")
        self.index = MoveIndex(controller.topics, controller.members)
        self._places = MovePlaces()
        self.judged = 0
        self._asked_at = -math.inf
        # Whether anything has changed since a look in office found nothing to move: then nothing is looked at.
        self._is_due = True
        # Which brokers worked at the last look in office.
        self._alive: frozenset[NodeId] = frozenset()

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
        pause = pause_after(0)
        while True:
            await asyncio.sleep(pause)
            before = self.judged
            await self.look()
            pause = pause_after(self.judged - before)

    async def look(self) -> None:
        """Let move what must, if this broker leads raft0 in office."""
        controller = self._controller
        if not controller.is_in_office or controller.features.level(MEMBERSHIP) < BROKERS_LEVEL:
            return
        await self._ask_which_get_further()
        self._note_time()
        if not self._is_due:
            return
        try:
            self._is_due = bool(self._due())
            if self._is_due:
                await self._propose()
        except ClusterError as error:
            # The next look judges again, here or at the next leader.
            _logger.info("partitions have not begun to move away: %s", error)

    async def _ask_which_get_further(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._asked_at + ASK_SECONDS <= now and self._places.idle_since + ASK_SECONDS <= now:
            self._asked_at = now
            idle = await self._read_idle()
            self._places.note_idle(idle, asyncio.get_running_loop().time())
            self._is_due = True

    def _note_time(self) -> None:
        """A look is due as well if a broker has come or gone, or a move has had its place for long enough."""
        admitted = (member.node_id for member in self._controller.members.admitted())
        alive = frozenset(filter(self._is_alive, admitted))
        if alive != self._alive or self._places.expires_at <= asyncio.get_running_loop().time():
            self._alive, self._is_due = alive, True

    def _due(self) -> Sequence[Wanted]:
        members, index = self._controller.members, self.index
        index.refresh()
        taken = self._places.taken(index.moving, members, self._is_alive, asyncio.get_running_loop().time())
        found, count = _judged(index, members, MOVES_AT_ONCE - taken, self._is_alive)
        self.judged += len(index.moving) + count
        return found

    async def _propose(self) -> None:
        """Let the partitions that are due move.

        Raises:
            ClusterError: They are not known to move.
        """
        controller = self._controller
        deadline = asyncio.get_running_loop().time() + _TIMEOUT
        async with controller.admission:
            await controller.confirm_office(deadline)
            # A former proposal that nobody waits for any more may lie in the log: what it moves has its places.
            await controller.settle(deadline)
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
