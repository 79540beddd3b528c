"""Moves of partitions, asked for at any broker and decided by raft0's leader (RFC 0019 section 6).

The leader checks each partition against its tables and proposes all that may move in one command. Before it looks, its
tables have all that lies in the log. If they refuse the command all the same, it looks once more. The brokers that hold
a partition do the rest (`controller_backend`), and tell raft0's leader when the wanted voters are in force
(`placement_reports`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from cluster.admin_messages import AdminReply
from cluster.admin_requests import AdminRequests
from cluster.broker_rules import check_internal_count, refusal_of_placing
from cluster.commands import AlterPlacements, FinishPlacement, PlacementRecord, ReplicaRecord
from cluster.controller import Controller
from cluster.errors import (
    ClusterError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    NoReassignmentError,
    UnknownPartitionError,
    UnknownTopicError,
)
from cluster.placement import Move
from cluster.topic_changes import check_assignment, check_replica_count
from cluster.topic_table import Topic, TopicTable
from model.counted import counted
from model.features import MEMBERSHIP, PLACEMENTS_LEVEL
from model.ids import RAFT0, DirectoryId, GroupId, NodeId, Replica, number_of, topic_of
from raft.link_names import LinkNames
from rpc.methods import Method

# What the tables may refuse a command of moves for. They take all of it or nothing.
_REFUSED_AT_APPLY = (
    InvalidReplicaAssignmentError,
    NoReassignmentError,
    UnknownPartitionError,
    UnknownTopicError,
)


class WantedMove(msgspec.Struct, frozen=True, array_like=True):
    """A partition and the brokers that shall hold it, the preferred one first; None: as before it was moved."""

    topic: str
    partition: int
    target: list[int] | None


class AlterPlacementsRequest(msgspec.Struct, frozen=True, array_like=True):
    """Partitions are to move. `may_change_count`: also to more or fewer replicas than they have."""

    moves: list[WantedMove]
    may_change_count: bool
    timeout: float
    validate_only: bool = False


class RefusedMove(msgspec.Struct, frozen=True, array_like=True):
    """Why a partition does not move: the name of a ClusterError, and words."""

    topic: str
    partition: int
    error: str
    message: str


class PlacementsReply(AdminReply, frozen=True, array_like=True):
    """What is not in `refused` moves, or is where it shall be; `moved` says how many began to move, or would."""

    refused: tuple[RefusedMove, ...] = ()
    moved: int = 0


class ReachedPlacement(msgspec.Struct, frozen=True, array_like=True):
    """The group's wanted voters of a revision, (generation, index), are committed.

    `group` is the group's name on links.
    """

    group: str
    revision: tuple[int, int]


class PlacementReport(msgspec.Struct, frozen=True, array_like=True):
    """Moves that may be finished."""

    reached: list[ReachedPlacement]
    timeout: float


ALTER_PLACEMENTS = Method(18, "alter_placements", AlterPlacementsRequest, PlacementsReply)
PLACEMENT_REPORT = Method(73, "placement_report", PlacementReport, AdminReply)


class Placements:
    """See the module.

    Args:
        controller: raft0 here.
        admin: Forwards to raft0's leader.
        link_names: What messages call the groups.
    """

    def __init__(self, controller: Controller, admin: AdminRequests, link_names: LinkNames) -> None:
        self._controller = controller
        self._admin = admin
        self._link_names = link_names
        admin.serve(ALTER_PLACEMENTS, self._alter)
        admin.serve(PLACEMENT_REPORT, self._finish)

    async def alter(self, request: AlterPlacementsRequest) -> PlacementsReply:
        """Let partitions move, or only check whether they could; the reply names those that do not.

        Raises:
            FeatureLevelError: As far as this broker knows, the cluster's feature is below its level; others may not
                know the request, so it is not sent.
            ClusterError: See `AdminRequests.forward`.
        """
        self._require_level()
        return await self._admin.forward(ALTER_PLACEMENTS, request, self._alter)

    async def report(self, request: PlacementReport) -> AdminReply:
        """Tell raft0's leader which moves may be finished; to tell it twice does no harm.

        Raises:
            ClusterError: See `AdminRequests.forward`.
        """
        return await self._admin.forward(PLACEMENT_REPORT, request, self._finish, is_repeatable=True)

    def _require_level(self) -> None:
        self._controller.features.require(MEMBERSHIP, PLACEMENTS_LEVEL, "moves of partitions")

    # -- at raft0's leader --------------------------------------------------------------------------------------

    async def _alter(self, request: AlterPlacementsRequest, deadline: float) -> PlacementsReply:
        async with self._controller.admission:
            index = await self._controller.confirm_office(deadline)
            self._require_level()
            await self._controller.settle(deadline)
            records, refused = self._judged(request)
            if records and request.validate_only:
                self._controller.check_room(AlterPlacements(records))
            elif records:
                try:
                    index = await self._controller.propose(AlterPlacements(records), deadline)
                except _REFUSED_AT_APPLY:
                    # A command on its way had no place in the log yet. By now it is applied, so this look sees it.
                    records, refused = self._judged(request)
                    if records:
                        index = await self._controller.propose(AlterPlacements(records), deadline)
            return PlacementsReply("", "", applied_index=index, refused=tuple(refused), moved=len(records))

    def _judged(self, request: AlterPlacementsRequest) -> tuple[list[PlacementRecord], list[RefusedMove]]:
        """Return what to propose by the tables as of now, and which partitions cannot move."""
        records: list[PlacementRecord] = []
        refused: list[RefusedMove] = []
        room = _Room(self._controller.topics, self._admin.replicas_max())
        brokers = self._controller.members.all()
        directories = {NodeId(broker.node_id): DirectoryId(broker.directory_id) for broker in brokers}
        named: set[tuple[str, int]] = set()
        for wanted in request.moves:
            try:
                if (wanted.topic, wanted.partition) in named:
                    raise InvalidReplicaAssignmentError("the partition is named twice")
                named.add((wanted.topic, wanted.partition))
                record = self._checked(wanted, room, directories, may_change_count=request.may_change_count)
            except ClusterError as error:
                refused.append(RefusedMove(wanted.topic, wanted.partition, type(error).__name__, str(error)))
                continue
            if record is not None:
                records.append(record)
        return records, refused

    def _checked(
        self,
        wanted: WantedMove,
        room: "_Room",
        directories: Mapping[NodeId, DirectoryId],
        *,
        may_change_count: bool,
    ) -> PlacementRecord | None:
        """Return what to propose for a partition, None if it is there; `room` counts who gets new replicas.

        Raises:
            ClusterError: It cannot move there.
        """
        topic, number = self._topic(wanted), wanted.partition
        move = topic.move_of(number)
        if wanted.target is None:
            if move is None or move.is_cancelled:
                raise NoReassignmentError(
                    f"{topic.partition_name(number)} is not being moved: nothing can be cancelled"
                )
            return PlacementRecord(topic.topic_id, number, None)
        self._check_target(topic, number, wanted.target, may_change_count=may_change_count)
        now = topic.replicas[number] if move is None else move.target
        if [replica.node_id for replica in now] == wanted.target:
            return None
        held = topic.holders(number)
        target = [Replica(NodeId(node), directories[NodeId(node)]) for node in wanted.target]
        # As the tables will look: a partition that they refuse would refuse the others of the command, too.
        refusal = refusal_of_placing(self._controller.members, target, held)
        if refusal is not None:
            raise InvalidReplicaAssignmentError(refusal)
        room.take([replica.node_id for replica in target if replica.node_id not in {each.node_id for each in held}])
        return PlacementRecord(topic.topic_id, number, [ReplicaRecord(*replica) for replica in target])

    def _topic(self, wanted: WantedMove) -> Topic:
        topic = self._controller.topics.get(wanted.topic)
        if topic is None:
            raise UnknownTopicError(f"no topic {wanted.topic[:260]!r}")
        if not 0 <= wanted.partition < len(topic.replicas):
            raise UnknownPartitionError(f"topic {topic.name!r} has no partition {wanted.partition}")
        return topic

    def _check_target(self, topic: Topic, number: int, target: list[int], *, may_change_count: bool) -> None:
        members = self._controller.members
        # Who holds the partition already may keep it, though it gets nothing new.
        held = {replica.node_id for replica in topic.holders(number) if members.member(replica.node_id) is not None}
        for node in map(NodeId, target):
            refusal = members.refusal_of(node)
            if refusal is not None and (node not in held or members.get(node) is None):
                raise InvalidReplicaAssignmentError(refusal)
        check_assignment([target], {NodeId(broker.node_id) for broker in members.all()})
        lasting = members.lasting_count()
        if len(target) > lasting and not topic.is_internal:
            # The other half of `check_decommission`: the broker that leaves would never be empty.
            raise InvalidReplicationFactorError(
                f"{counted(len(target), 'replica')}, and {counted(lasting, 'broker')} stay in the cluster:"
                " the others are being decommissioned"
            )
        # Of a partition that is being moved: the number before.
        count = len(topic.replicas[number])
        if not may_change_count and len(target) != count:
            raise InvalidReplicationFactorError(
                f"a move to {counted(len(target), 'replica')}; {topic.partition_name(number)} has {count}, and the"
                " request does not allow another number"
            )
        move = topic.move_of(number)
        check_internal_count(topic, members, count if move is None else len(move.target), len(target))

    async def _finish(self, request: PlacementReport, deadline: float) -> AdminReply:
        async with self._controller.admission:
            index = await self._controller.confirm_office(deadline)
            for reached in request.reached:
                group = self._link_names.group_of(reached.group)
                move = None if group is None else self._move_of(group)
                # Told before, or deleted, or another target is wanted by now.
                if group is not None and move is not None and move.revision == reached.revision:
                    index = await self._controller.propose(FinishPlacement(group, reached.revision), deadline)
            return AdminReply("", "", applied_index=index)

    def _move_of(self, group: GroupId) -> Move | None:
        if group == RAFT0:
            return self._controller.raft0.move
        topic = self._controller.topics.get_by_id(topic_of(group))
        return None if topic is None else topic.move_of(number_of(group))


class _Room:
    """How many replicas brokers may get by the moves of one request. To count a broker's takes long: once is enough."""

    def __init__(self, topics: TopicTable, replicas_max: int) -> None:
        self._topics = topics
        self._replicas_max = replicas_max
        self._there: dict[NodeId, int] = {}
        self._added: Counter[NodeId] = Counter()

    def take(self, nodes: Sequence[NodeId]) -> None:
        """Let each of these brokers get one more.

        Raises:
            InvalidReplicaAssignmentError: One of them would have more than it may; nobody gets any.
        """
        for node in nodes:
            if node not in self._there:
                self._there[node] = self._topics.replica_count(node)
            try:
                check_replica_count(node, self._there[node], self._added[node] + 1, self._replicas_max)
            except InvalidPartitionsError as error:
                raise InvalidReplicaAssignmentError(str(error)) from error
        self._added.update(nodes)
