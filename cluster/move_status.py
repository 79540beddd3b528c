"""How far the moves of partitions are: each broker tells of its own replicas, any broker gathers them.

The leader of a moving group knows what it waits for. If it has none, its other replicas know which voters the newest
configuration in their logs has. So a group whose voters cannot form a quorum is named, too.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from cluster.placement import Move
from cluster.topic_table import Topic, TopicTable
from model.counted import brokers
from model.ids import GroupId, NodeId, Replica
from raft.consensus import Consensus
from raft.group_configuration import GroupConfiguration, Revision
from raft.group_manager import GroupManager
from rpc.errors import RpcError
from rpc.identity import Peer
from rpc.links import Links
from rpc.methods import Method

_GATHER_TIMEOUT = 1.0
# Of one answer.
_REPLICAS_MAX = 1000
LED_STATES = ("preparing", "copying", "joint", "finishing")


class MovesRequest(msgspec.Struct, frozen=True, array_like=True):
    """Asks for the receiver's replicas of partitions that are being moved."""


class MovingReplica(msgspec.Struct, frozen=True, array_like=True):
    """One replica, and the newest configuration in its log, whose last entry is `last_index`.

    `group` is the group's name on links.

    `lacks` names, at the leader, members of the configuration that lack entries of the leader's log, as (node, number
    of entries). `idle_ms` says how long nothing of all this has got further, as far as this replica knows. `retired`
    are the nodes whose voting data directory never counts again: they may run, with another one.
    """

    group: str
    node_id: int
    is_leader: bool
    term: int
    revision: tuple[int, int]
    voter_sets: list[list[int]]
    learners: list[int]
    waits_for: str
    has_reached: bool
    lacks: list[tuple[int, int]]
    last_index: int
    idle_ms: int
    retired: list[int] = msgspec.field(default_factory=list)

    @property
    def state(self) -> str:
        """How far the move is, in one word; of a replica that leads, one of LED_STATES."""
        if not self.is_leader:
            return "leaderless"
        if self.has_reached:
            return "finishing"
        if len(self.voter_sets) > 1:
            return "joint"
        return "copying" if self.learners else "preparing"


class MovingReplicas(msgspec.Struct, frozen=True, array_like=True):
    """All such replicas of one node, at most as many as fit into an answer."""

    replicas: list[MovingReplica]


DESCRIBE_MOVES = Method(29, "describe_moves", MovesRequest, MovingReplicas)


@dataclass(frozen=True, slots=True)
class MoveStatus:
    """A partition that is being moved, and the replica that knows most of it.

    Attributes:
        topic, number: The partition.
        move: As the table has it.
        replica: Its leader's, else the one with the newest configuration; None: no holder has answered.
        lost: The voter sets of that configuration of which no majority answers; if no holder does, all holders. If it
            is older than the last move that has ended, the sets are where that move ended.
        away: The holders that do not answer.
        retired: Voters of the lost sets that answer, with another data directory than the one that is to agree.
    """

    topic: Topic
    number: int
    move: Move
    replica: MovingReplica | None
    lost: tuple[tuple[int, ...], ...]
    away: tuple[int, ...]
    retired: tuple[int, ...] = ()

    @property
    def state(self) -> str:
        """How far the move is, in one word."""
        return "leaderless" if self.replica is None else self.replica.state

    @property
    def waits_for(self) -> str:
        """Until what the move waits, as a sentence; empty: it goes on."""
        if self.lost:
            return until_a_majority(self.lost, self.away, self.retired)
        replica = self.replica
        if replica is None:
            return "a broker that holds it answers"
        if not replica.is_leader:
            return "a leader is elected"
        if replica.has_reached:
            return "raft0's leader takes the report"
        wanted = {each.node_id for each in self.move.target}
        absent = [node for node in self.away if node in wanted]
        why = f": {brokers(absent)} {'does' if len(absent) == 1 else 'do'} not answer"
        return replica.waits_for + (why if replica.waits_for and absent else "")

    @property
    def why_stuck(self) -> str:
        """Why the group can decide nothing, as a sentence; empty: it can, as far as is known."""
        if not self.lost:
            return ""
        return f"no majority of the voters {_sets(self.lost)} answers: {_who_does_not(self.away, self.retired)}"


def until_a_majority(lost: Sequence[Sequence[int]], away: Sequence[int], retired: Sequence[int]) -> str:
    """Return until what a group waits that can decide nothing, as a sentence.

    Args:
        lost: The voter sets of which no majority answers.
        away: Brokers that do not answer.
        retired: Brokers that answer, with another data directory than the one that is to agree.
    """
    return f"a majority of the voters {_sets(lost)} answers: {_who_does_not(away, retired)}"


def _sets(lost: Sequence[Sequence[int]]) -> str:
    return " and of ".join(",".join(map(str, each)) for each in lost)


def _who_does_not(away: Sequence[int], retired: Sequence[int]) -> str:
    absent = [f"{brokers(away)} {'does' if len(away) == 1 else 'do'} not"] if away else []
    return " and ".join(absent + [f"the data directory that broker {each} voted with is retired" for each in retired])


class _Progress(NamedTuple):
    seen: object
    since: float


class MoveStatusReader:
    """Answers for this node's replicas and gathers those of others.

    Args:
        topics: The table.
        groups: Of this node.
        links: To the other brokers.
        self_replica: This node.
        is_alive: Whether a broker is this one or its link works.
        is_retired: Whether a data directory never counts again.
    """

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupManager,
        links: Links,
        self_replica: Replica,
        is_alive: Callable[[NodeId], bool],
        is_retired: Callable[[Replica], bool],
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._links = links
        self._self_node = self_replica.node_id
        self._is_alive = is_alive
        self._is_retired = is_retired
        self._progress: dict[GroupId, _Progress] = {}
        links.register(DESCRIBE_MOVES, self._answer)

    def look(self) -> None:
        """Note what has got further since the last look; call it about each second while something moves."""
        now = asyncio.get_running_loop().time()
        before, self._progress = self._progress, {}
        for _, group, consensus in self._moving_here():
            seen, known = _position(consensus), before.get(group)
            self._progress[group] = known if known is not None and known.seen == seen else _Progress(seen, now)

    def here(self) -> list[MovingReplica]:
        """Return this node's replicas of partitions that are being moved."""
        return [self._replica(group, consensus) for _, group, consensus in self._moving_here()]

    async def read(self) -> list[MoveStatus]:
        """Return all moves of this node's table, in order of topic and number, with what is known within a second."""
        moving = [
            (topic, number, move)
            for topic in self._topics.all()
            for number in sorted(topic.placements)
            if (move := topic.move_of(number)) is not None
        ]
        nodes = sorted({replica.node_id for _, _, move in moving for replica in move.replicas})
        answers = await asyncio.gather(*(self._of(node) for node in nodes))
        best: dict[str, MovingReplica] = {}
        for replica in (each for found in answers for each in found):
            known = best.get(replica.group)
            if known is None or _rank(replica) > _rank(known):
                best[replica.group] = replica
        names = self._groups.link_names
        return [
            self._status(topic, number, move, best.get(names.name_of(topic.group(number))))
            for topic, number, move in moving
        ]

    async def read_idle(self) -> dict[tuple[GroupId, Revision], float]:
        """Return, by group and revision of the move, for how many seconds a move has not got further.

        That is what its leader knows, else the replica that knows most. Whoever has begun to lead counts from then on.
        Moves of which nobody tells are left out.
        """
        return {
            (each.topic.group(each.number), each.move.revision): each.replica.idle_ms / 1000
            for each in await self.read()
            if each.replica is not None
        }

    def _status(self, topic: Topic, number: int, move: Move, replica: MovingReplica | None) -> MoveStatus:
        holders = sorted({int(each.node_id) for each in move.replicas})
        away = tuple(node for node in holders if not self._is_alive(NodeId(node)))
        sets = [] if replica is None else replica.voter_sets
        gone = set() if replica is None else set(replica.retired)
        if (
            replica is not None
            and not replica.is_leader
            and replica.revision < _pair(topic.placements[number].finished)
        ):
            # Whoever answers knows the partition as it was before its last move, or as it was created: none of those
            # that it was moved to is there. At least they voted then.
            sets = [[int(each.node_id) for each in move.origin]]
            gone = {int(each.node_id) for each in move.origin if self._is_retired(each)}
        lost = tuple(tuple(nodes) for nodes in sets if not self._have_majority(nodes, gone))
        if replica is None and len(away) == len(holders):
            # Nobody tells the configuration, but all voters that it may have are among them.
            lost = (away,)
        retired = sorted({node for nodes in lost for node in nodes if node in gone} - set(away))
        return MoveStatus(topic, number, move, replica, lost, away, tuple(retired))

    def _have_majority(self, nodes: Sequence[int], gone: Collection[int]) -> bool:
        return 2 * sum(node not in gone and self._is_alive(NodeId(node)) for node in nodes) > len(nodes)

    async def _of(self, node: NodeId) -> list[MovingReplica]:
        if node == self._self_node:
            return self.here()
        if not self._is_alive(node):
            return []
        try:
            return (await self._links.send(node, DESCRIBE_MOVES, MovesRequest(), timeout=_GATHER_TIMEOUT)).replicas
        except RpcError:
            return []

    def _answer(self, _: Peer, __: MovesRequest, ___: memoryview) -> MovingReplicas:
        return MovingReplicas(self.here()[:_REPLICAS_MAX])

    def _moving_here(self) -> list[tuple[Move, GroupId, Consensus]]:
        return [
            (move, topic.group(number), consensus)
            for topic in self._topics.all()
            for number in topic.placements
            if (move := topic.move_of(number)) is not None
            and (consensus := self._groups.get(topic.group(number))) is not None
        ]

    def _replica(self, group: GroupId, consensus: Consensus) -> MovingReplica:
        configuration, way = consensus.configuration, consensus.reconfiguration
        known = self._progress.get(group)
        idle = 0.0 if known is None else asyncio.get_running_loop().time() - known.since
        return MovingReplica(
            self._groups.link_names.name_of(group),
            self._self_node,
            consensus.is_in_office,
            consensus.term,
            (configuration.revision.generation, configuration.revision.raft0_index),
            [[int(voter.node_id) for voter in voters] for voters in configuration.voter_sets],
            [int(learner.node_id) for learner in configuration.learners],
            way.waits_for if consensus.is_in_office else "",
            consensus.is_in_office and way.has_reached,
            _lacks(consensus),
            int(consensus.log.dirty_index),
            int(idle * 1000),
            sorted(
                {int(each.node_id) for voters in configuration.voter_sets for each in voters if self._is_retired(each)}
            ),
        )


def _pair(revision: Revision) -> tuple[int, int]:
    return revision.generation, revision.raft0_index


def _rank(replica: MovingReplica) -> tuple[bool, int, tuple[int, int], int]:
    """Who knows more: a leader of a later term, then a newer configuration, then a longer log."""
    if replica.is_leader:
        return True, replica.term, replica.revision, 0
    return False, 0, replica.revision, replica.last_index


def _lacks(consensus: Consensus) -> list[tuple[int, int]]:
    if not consensus.is_in_office:
        return []
    end = int(consensus.log.dirty_index)
    members = {int(node) for node in consensus.configuration.node_ids}
    behind = [
        (int(node), end - int(follower.position.flushed))
        for node, follower in sorted(consensus.state.followers.items())
        if int(node) in members
    ]
    return [(node, entries) for node, entries in behind if entries > 0]


def _position(consensus: Consensus) -> tuple[GroupConfiguration, bool, object, tuple[int, ...]]:
    """What changes while a move gets further: the configuration, and what its learners have."""
    configuration, state = consensus.configuration, consensus.state
    followers = [state.followers.get(learner.node_id) for learner in configuration.learners]
    flushed = tuple(-1 if each is None else int(each.position.flushed) for each in followers)
    return configuration, state.configurations.is_committed, consensus.reconfiguration.target, flushed
