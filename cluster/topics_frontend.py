"""Topics are created, grown, altered and deleted, at raft0's leader; `admin_requests` forwards to it.

The leader checks a request against its tables, draws ids and placements, and proposes one command. The topics are one
linearizable object: an answer shows what the tables hold, and a refusal does so too. So the leader confirms with a
majority that it still leads before it reads them.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from cluster.admin_messages import (
    AdminReply,
    AlterTopicConfigsRequest,
    CreatePartitionsRequest,
    CreateTopicRequest,
    DeleteTopicRequest,
)
from cluster.broker_rules import check_enough_brokers
from cluster.commands import AlterTopicConfigs, CreatePartitions, CreateTopic, DeleteTopic, ReplicaRecord
from cluster.controller import Controller
from cluster.errors import InvalidReplicaAssignmentError, InvalidTopicNameError, TopicExistsError, UnknownTopicError
from cluster.partition_allocator import allocate
from cluster.topic_changes import (
    altered_configs,
    check_assignment,
    check_configs,
    check_growth,
    check_partition_count,
    check_replica_counts,
    check_topic_name,
)
from cluster.topic_table import Topic
from model.ids import NodeId, TopicId
from rpc.links import Links
from runtime.rng import Rng

Placing = TypeVar("Placing", CreateTopic, CreatePartitions)


class TopicsFrontend:
    """See the module.

    Args:
        controller: raft0 here.
        links: To the other brokers.
        self_node: This broker.
        rng: Draws ids.
        replicas_max: Returns the replicas that one broker may have, as of now.
    """

    def __init__(
        self, controller: Controller, links: Links, self_node: NodeId, rng: Rng, replicas_max: Callable[[], int]
    ) -> None:
        self._controller = controller
        self._links = links
        self._self_node = self_node
        self._rng = rng
        self._replicas_max = replicas_max

    async def create(self, request: CreateTopicRequest, deadline: float) -> AdminReply:
        """Create a topic before `deadline` (loop time), or only check it.

        Raises:
            ClusterError: What is asked for cannot be, or not here; so for all of these.
        """
        async with self._controller.admission:
            await self._controller.confirm_office(deadline)
            check_topic_name(request.name)
            if self._controller.topics.get(request.name) is not None:
                raise TopicExistsError(f"topic {request.name!r} already exists")
            self._check_collision(request.name)
            chooses = not request.assignment
            create = await self._place(
                lambda: self._creation(request), deadline, validate_only=request.validate_only, chooses=chooses
            )
            return AdminReply("", "", create.topic_id, len(create.partitions), len(create.partitions[0]))

    def _creation(self, request: CreateTopicRequest) -> CreateTopic:
        placements = self._placements(request)
        self._check_room(placements)
        check_configs(request.configs, len(placements[0]))
        self._controller.features.require_for_topic(request.configs)
        topic_id = TopicId(self._rng.randbytes(16).hex())
        return CreateTopic(request.name, topic_id, self._records(placements), request.configs)

    async def _place(
        self, command: Callable[[], Placing], deadline: float, *, validate_only: bool, chooses: bool
    ) -> Placing:
        """Return the applied command that places partitions, or the one that could be applied.

        Args:
            command: Returns it, by the tables as of now.
            deadline: As `propose`.
            validate_only: Only whether it could be.
            chooses: Whether `command` chooses the brokers. Then it does so once more if one has left meanwhile.

        Raises:
            InvalidReplicaAssignmentError: A broker that was asked for gets no replicas, or has left meanwhile.
            ClusterError: As `propose`.
        """
        placing = command()
        try:
            await self._controller.propose_or_check(placing, deadline, validate_only=validate_only)
        except InvalidReplicaAssignmentError:
            if not chooses:
                raise
            # What lay in the log before the command is applied by now.
            placing = command()
            await self._controller.propose_or_check(placing, deadline, validate_only=validate_only)
        return placing

    def _check_collision(self, name: str) -> None:
        """Refuse, as Kafka does, what metrics that know no '.' would take for a topic that there is."""
        for topic in self._controller.topics.all():
            if topic.name.replace(".", "_") == name.replace(".", "_"):
                raise InvalidTopicNameError(f"topic {name!r} collides with {topic.name!r}: '.' and '_' count as one")

    def _placements(self, request: CreateTopicRequest) -> Sequence[Sequence[int]]:
        check_partition_count(len(request.assignment) or request.partitions)
        if request.assignment:
            check_assignment(request.assignment, self._brokers())
            return request.assignment
        return self._allocate(request.partitions, request.replication_factor)

    def _brokers(self) -> set[NodeId]:
        """Return the brokers that may get replicas."""
        return {NodeId(broker.node_id) for broker in self._controller.members.usable()}

    def _allocate(self, partitions: int, replication_factor: int) -> Sequence[Sequence[int]]:
        brokers, topics = self._brokers(), self._controller.topics
        check_enough_brokers(self._controller.members, replication_factor)
        # A partition whose only replica is on a dead broker would be of no use; with more replicas than working
        # brokers the dead ones take part too and catch up when they return.
        alive = {node for node in brokers if node == self._self_node or self._links.is_up(node)}
        candidates = alive if replication_factor <= len(alive) else brokers
        counts = {node: topics.replica_count(node) for node in sorted(candidates)}
        return allocate(counts, partitions, replication_factor, shift=topics.revision)

    def _check_room(self, placements: Sequence[Sequence[int]]) -> None:
        counts = {node: self._controller.topics.replica_count(node) for node in self._brokers()}
        check_replica_counts(counts, placements, self._replicas_max())

    def _records(self, placements: Sequence[Sequence[int]]) -> list[list[ReplicaRecord]]:
        directories = {broker.node_id: broker.directory_id for broker in self._controller.members.all()}
        return [[ReplicaRecord(node, directories[node]) for node in nodes] for nodes in placements]

    async def delete(self, request: DeleteTopicRequest, deadline: float) -> AdminReply:
        """Delete a topic."""
        async with self._controller.admission:
            await self._controller.confirm_office(deadline)
            if request.name:
                topic = self._topic(request.name)
            elif (found := self._controller.topics.get_by_id(TopicId(request.topic_id))) is not None:
                topic = found
            else:
                raise UnknownTopicError(f"no topic with id {request.topic_id}")
            await self._controller.propose(DeleteTopic(topic.topic_id), deadline)
            return AdminReply("", "", topic.topic_id, len(topic.replicas), name=topic.name)

    async def create_partitions(self, request: CreatePartitionsRequest, deadline: float) -> AdminReply:
        """Add partitions to a topic, or only check it."""
        async with self._controller.admission:
            await self._controller.confirm_office(deadline)
            topic = self._topic(request.name)
            chooses = not request.assignment
            await self._place(
                lambda: self._growth(request), deadline, validate_only=request.validate_only, chooses=chooses
            )
            return AdminReply("", "", topic.topic_id, request.partitions, topic.replication_factor)

    def _growth(self, request: CreatePartitionsRequest) -> CreatePartitions:
        topic = self._topic(request.name)
        check_growth(topic, request.partitions, request.assignment, self._brokers())
        first = len(topic.replicas)
        placements = request.assignment or self._allocate(request.partitions - first, topic.replication_factor)
        self._check_room(placements)
        return CreatePartitions(topic.topic_id, first, self._records(placements))

    async def alter_configs(self, request: AlterTopicConfigsRequest, deadline: float) -> AdminReply:
        """Change what is set on a topic, or only check it."""
        async with self._controller.admission:
            index = await self._controller.confirm_office(deadline)
            topic = self._topic(request.name)
            configs = altered_configs(topic, request.changes, replaces_all=request.replaces_all)
            if configs != topic.overrides:
                self._controller.features.require_for_topic(configs)
                command = AlterTopicConfigs(topic.topic_id, configs)
                is_dry = request.validate_only
                index = await self._controller.propose_or_check(command, deadline, validate_only=is_dry) or index
            return AdminReply("", "", topic.topic_id, applied_index=index)

    def _topic(self, name: str) -> Topic:
        topic = self._controller.topics.get(name)
        if topic is None:
            raise UnknownTopicError(f"no topic {name[:260]!r}")
        return topic
