"""Administrative requests: any broker accepts them and forwards them to raft0's leader, which decides.

The leader checks a request against its tables, draws ids and placements, and proposes one command. It answers once it
has applied that command. While no leader is known, or the broker that was asked does not lead, the request is tried
again until its deadline (`forwarding`).

If a request was sent and no reply came, it may have taken effect. Only the registration of a broker and the allocation
of producer ids are then sent again, because they do no harm twice. A request about a topic ends with
ControllerUnavailableError instead, and its outcome is unknown. If it were sent again, the leader could refuse it
because the first attempt took effect, or it could undo a change that somebody made in between.

The topics are one linearizable object: an answer shows what the tables hold, and a refusal does so too. So the leader
confirms with a majority that it still leads before it reads its tables for a topic or a registration.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from cluster.commands import (
    AllocateProducerIds,
    AlterBrokerConfigs,
    AlterTopicConfigs,
    BrokerRecord,
    Command,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    RegisterBroker,
    ReplicaRecord,
    SetFeature,
)
from cluster.controller import Controller
from cluster.dynamic_options import DynamicOptions, altered_options
from cluster.errors import (
    BY_NAME,
    ClusterError,
    ControllerUnavailableError,
    FeatureUpdateError,
    InvalidReplicaAssignmentError,
    InvalidTopicNameError,
    NotControllerError,
    ProducerIdsTakenError,
    RequestTooLargeError,
    TopicExistsError,
    UnknownBrokerError,
    UnknownTopicError,
)
from cluster.forwarding import Forwarded, Forwarder, NoLeaderError, NoReplyError, RequestNotTakenError
from cluster.partition_allocator import allocate
from cluster.present_features import PresentFeatures
from cluster.producer_id_table import BLOCK_SIZE
from cluster.topic_changes import (
    ConfigChange,
    altered_configs,
    check_assignment,
    check_configs,
    check_growth,
    check_partition_count,
    check_replica_counts,
)
from cluster.topic_table import Topic
from model.features import MEMBERSHIP, OPTIONS_LEVEL
from model.ids import Index, NodeId, TopicId
from rpc.identity import Peer
from rpc.links import Links
from rpc.methods import Method
from runtime.rng import Rng

_logger = logging.getLogger("cluster")

T = TypeVar("T")

TOPIC_NAME_MAX = 249
_TOPIC_NAME = re.compile(rf"[a-zA-Z0-9._-]{{1,{TOPIC_NAME_MAX}}}")


class CreateTopicRequest(msgspec.Struct, frozen=True, array_like=True):
    """A topic to create. `assignment[p]` are the nodes of partition p; empty: the allocator chooses."""

    name: str
    partitions: int
    replication_factor: int
    assignment: list[list[int]]
    configs: dict[str, str]
    validate_only: bool
    timeout: float


class DeleteTopicRequest(msgspec.Struct, frozen=True, array_like=True):
    """A topic to delete, by name or, where that is empty, by id. The leader looks it up: others' tables may be old."""

    name: str
    topic_id: str
    timeout: float


class CreatePartitionsRequest(msgspec.Struct, frozen=True, array_like=True):
    """A topic is to have `partitions` in all. `assignment` names the nodes of each new one, or is empty."""

    name: str
    partitions: int
    assignment: list[list[int]]
    validate_only: bool
    timeout: float


class AlterTopicConfigsRequest(msgspec.Struct, frozen=True, array_like=True):
    """Changes of what is set on a topic; `replaces_all`: everything that is not named is deleted (AlterConfigs)."""

    name: str
    changes: list[ConfigChange]
    replaces_all: bool
    validate_only: bool
    timeout: float


class RegisterBrokerRequest(msgspec.Struct, frozen=True, array_like=True):
    """A broker's current addresses."""

    broker: BrokerRecord
    timeout: float


class AllocateProducerIdsRequest(msgspec.Struct, frozen=True, array_like=True):
    """A broker needs a block of producer ids."""

    timeout: float


class UpdateFeatureRequest(msgspec.Struct, frozen=True, array_like=True):
    """A feature is to be used at a level (RFC 0018)."""

    name: str
    level: int
    validate_only: bool
    timeout: float


class AlterBrokerConfigsRequest(msgspec.Struct, frozen=True, array_like=True):
    """Changes of what is set on a broker while it runs, or on all (`node` None); `replaces_all` as for topics."""

    node: int | None
    changes: list[ConfigChange]
    replaces_all: bool
    validate_only: bool
    timeout: float


class AdminReply(msgspec.Struct, frozen=True, array_like=True):
    """`error` is the name of a ClusterError, empty for success; then the topic's name, id, partitions and replicas.

    `applied_index` is raft0's commit index as the leader has confirmed it for this request, or the index of the command
    that the request became. A broker that has applied as much knows all that any broker knew when the request arrived.
    `first_producer_id` begins the block that was asked for.
    """

    error: str
    message: str
    topic_id: str = ""
    partitions: int = 0
    replication_factor: int = 0
    applied_index: int = 0
    first_producer_id: int = -1
    name: str = ""


CREATE_TOPIC = Method(10, "create_topic", CreateTopicRequest, AdminReply)
DELETE_TOPIC = Method(11, "delete_topic", DeleteTopicRequest, AdminReply)
REGISTER_BROKER = Method(12, "register_broker", RegisterBrokerRequest, AdminReply)
CREATE_PARTITIONS = Method(13, "create_partitions", CreatePartitionsRequest, AdminReply)
ALTER_TOPIC_CONFIGS = Method(14, "alter_topic_configs", AlterTopicConfigsRequest, AdminReply)
ALLOCATE_PRODUCER_IDS = Method(15, "allocate_producer_ids", AllocateProducerIdsRequest, AdminReply)
UPDATE_FEATURE = Method(16, "update_feature", UpdateFeatureRequest, AdminReply)
ALTER_BROKER_CONFIGS = Method(17, "alter_broker_configs", AlterBrokerConfigsRequest, AdminReply)


class AdminRequest(Protocol):
    """What all of these requests have."""

    @property
    def timeout(self) -> float:
        """For how many seconds an answer is waited for."""
        ...


Placing = TypeVar("Placing", CreateTopic, CreatePartitions)
Request = TypeVar("Request", bound=AdminRequest)
Reply = TypeVar("Reply", bound=AdminReply)


def check_topic_name(name: str) -> None:
    """Raise InvalidTopicNameError unless Kafka would take the name (1-249 of a-z A-Z 0-9 . _ -, not . or ..)."""
    if not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        raise InvalidTopicNameError(f"topic name {name[:260]!r}: 1 to 249 characters of a-z, A-Z, 0-9, '.', '_', '-'")


class AdminRequests:
    """See the module.

    Args:
        controller: raft0 here.
        links: To the other brokers.
        self_node: This broker.
        rng: Draws ids.
        replicas_max: Returns the replicas that one broker may have, as of now.
        first_levels: The levels of features with which the cluster was founded.
        dynamic: What may be set on brokers while they run.
        present_features: Asks brokers what they can do.
    """

    def __init__(
        self,
        controller: Controller,
        links: Links,
        self_node: NodeId,
        rng: Rng,
        replicas_max: Callable[[], int],
        first_levels: Mapping[str, int],
        dynamic: DynamicOptions,
        present_features: PresentFeatures,
    ) -> None:
        self._controller = controller
        self._links = links
        self._forwarder = Forwarder(links, self_node)
        self._self_node = self_node
        self._rng = rng
        self.replicas_max = replicas_max
        self._first_levels = dict(first_levels)
        self._dynamic = dynamic
        self._present_features = present_features
        self.serve(CREATE_TOPIC, self._create_topic)
        self.serve(DELETE_TOPIC, self._delete_topic)
        self.serve(REGISTER_BROKER, self._register_broker)
        self.serve(CREATE_PARTITIONS, self._create_partitions)
        self.serve(ALTER_TOPIC_CONFIGS, self._alter_topic_configs)
        self.serve(ALLOCATE_PRODUCER_IDS, self._allocate_producer_ids)
        self.serve(UPDATE_FEATURE, self._update_feature)
        self.serve(ALTER_BROKER_CONFIGS, self._alter_broker_configs)

    async def create_topic(self, request: CreateTopicRequest) -> AdminReply:
        """Create a topic, or only check whether it could be; see `forward` for the errors all of these share."""
        return await self.forward(CREATE_TOPIC, request, self._create_topic)

    async def delete_topic(self, request: DeleteTopicRequest) -> AdminReply:
        """Delete a topic."""
        return await self.forward(DELETE_TOPIC, request, self._delete_topic)

    async def register_broker(self, request: RegisterBrokerRequest) -> AdminReply:
        """Make a broker's addresses known."""
        return await self.forward(REGISTER_BROKER, request, self._register_broker, is_repeatable=True)

    async def create_partitions(self, request: CreatePartitionsRequest) -> AdminReply:
        """Add partitions to a topic, or only check whether they could be."""
        return await self.forward(CREATE_PARTITIONS, request, self._create_partitions)

    async def alter_topic_configs(self, request: AlterTopicConfigsRequest) -> AdminReply:
        """Change what is set on a topic, or only check whether it could be."""
        return await self.forward(ALTER_TOPIC_CONFIGS, request, self._alter_topic_configs)

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> AdminReply:
        """Take a block of producer ids that no other broker has or will have."""
        return await self.forward(ALLOCATE_PRODUCER_IDS, request, self._allocate_producer_ids, is_repeatable=True)

    async def update_feature(self, request: UpdateFeatureRequest) -> AdminReply:
        """Let a feature be used at a level from now on, or only check whether it could be."""
        # A level that is raised already is not raised again. A raise may end the very link that its answer comes by.
        return await self.forward(UPDATE_FEATURE, request, self._update_feature, is_repeatable=True)

    async def alter_broker_configs(self, request: AlterBrokerConfigsRequest) -> AdminReply:
        """Change what is set on a broker or on all while they run, or only check whether it could be.

        Raises:
            FeatureLevelError: As far as this broker knows, the cluster's feature is below its level; others may not
                know the request, so it is not sent.
            ClusterError: See `forward`.
        """
        self._require_options()
        return await self.forward(ALTER_BROKER_CONFIGS, request, self._alter_broker_configs)

    def _require_options(self) -> None:
        what = "options that are set while brokers run"
        self._controller.features.require(MEMBERSHIP, OPTIONS_LEVEL, what)

    async def forward(
        self,
        method: Method[Request, Reply],
        request: Request,
        run_here: Callable[[Request, float], Awaitable[Reply]],
        *,
        is_repeatable: bool = False,
    ) -> Reply:
        """Run `request` at raft0's leader. `is_repeatable`: that it may take effect twice does no harm.

        Raises:
            ControllerUnavailableError: No leader has answered; what became of the request is unknown.
            RequestTooLargeError: It was not sent.
            ClusterError: The leader refused it.
        """
        deadline = asyncio.get_running_loop().time() + request.timeout
        forwarded = Forwarded(method, request, lambda request: run_here(request, deadline))
        try:
            return await self._forwarder.forward_until(
                self._leader, forwarded, _checked, deadline, is_repeatable=is_repeatable
            )
        except NoLeaderError as error:
            why = f"no answer from raft0's leader within {request.timeout:.1f} s: {error}"
            raise ControllerUnavailableError(why) from error
        except RequestNotTakenError as error:
            raise RequestTooLargeError(f"raft0's leader takes no request of this size: {error.cause}") from error
        except NoReplyError as error:
            raise ControllerUnavailableError(f"whether it took effect is unknown: {error}") from error

    def _leader(self) -> NodeId | None:
        """Return who runs a request now: this node if it leads raft0, or a leader that can be reached."""
        if self._controller.is_in_office:
            return self._self_node
        leader = self._controller.leader_id
        return leader if leader is not None and leader != self._self_node and self._links.is_up(leader) else None

    def serve(self, method: Method[Request, Reply], run_here: Callable[[Request, float], Awaitable[Reply]]) -> None:
        """Answer other brokers' requests by `run_here`, with a deadline; what it refuses travels by name."""

        async def answer(_: Peer, request: Request, __: memoryview) -> Reply:
            deadline = asyncio.get_running_loop().time() + request.timeout
            try:
                return await run_here(request, deadline)
            except ClusterError as error:
                return method.reply(type(error).__name__, str(error))

        self._links.register_async(method, answer)

    # -- at raft0's leader --------------------------------------------------------------------------------------

    async def _create_topic(self, request: CreateTopicRequest, deadline: float) -> AdminReply:
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
            await self._propose(placing, deadline, validate_only=validate_only)
        except InvalidReplicaAssignmentError:
            if not chooses:
                raise
            # What lay in the log before the command is applied by now.
            placing = command()
            await self._propose(placing, deadline, validate_only=validate_only)
        return placing

    async def _propose(self, command: Command, deadline: float, *, validate_only: bool) -> Index | None:
        """Return the index of the applied command; None where it is only asked for whether it could be."""
        if not validate_only:
            return await self._controller.propose(command, deadline)
        self._controller.check_room(command)
        return None

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
        # A partition whose only replica is on a dead broker would be of no use; with more replicas than working
        # brokers the dead ones take part too and catch up when they return.
        alive = {node for node in brokers if node == self._self_node or self._links.is_up(node)}
        candidates = alive if replication_factor <= len(alive) else brokers
        counts = {node: topics.replica_count(node) for node in sorted(candidates)}
        return allocate(counts, partitions, replication_factor, shift=topics.revision)

    def _check_room(self, placements: Sequence[Sequence[int]]) -> None:
        counts = {node: self._controller.topics.replica_count(node) for node in self._brokers()}
        check_replica_counts(counts, placements, self.replicas_max())

    def _records(self, placements: Sequence[Sequence[int]]) -> list[list[ReplicaRecord]]:
        directories = {broker.node_id: broker.directory_id for broker in self._controller.members.all()}
        return [[ReplicaRecord(node, directories[node]) for node in nodes] for nodes in placements]

    async def _delete_topic(self, request: DeleteTopicRequest, deadline: float) -> AdminReply:
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

    async def _create_partitions(self, request: CreatePartitionsRequest, deadline: float) -> AdminReply:
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

    async def _alter_topic_configs(self, request: AlterTopicConfigsRequest, deadline: float) -> AdminReply:
        async with self._controller.admission:
            index = await self._controller.confirm_office(deadline)
            topic = self._topic(request.name)
            configs = altered_configs(topic, request.changes, replaces_all=request.replaces_all)
            if configs != topic.overrides:
                self._controller.features.require_for_topic(configs)
                command = AlterTopicConfigs(topic.topic_id, configs)
                index = await self._propose(command, deadline, validate_only=request.validate_only) or index
            return AdminReply("", "", topic.topic_id, applied_index=index)

    def _topic(self, name: str) -> Topic:
        topic = self._controller.topics.get(name)
        if topic is None:
            raise UnknownTopicError(f"no topic {name[:260]!r}")
        return topic

    async def _register_broker(self, request: RegisterBrokerRequest, deadline: float) -> AdminReply:
        async with self._controller.admission:
            # The broker deletes what it has of topics that are not in the tables as of the answer. A leader that was
            # deposed, and does not know, must not answer, though nothing has changed (counterexample 41).
            index = await self._controller.confirm_office(deadline)
            await self._raise_first_levels(deadline)
            if self._controller.members.get(NodeId(request.broker.node_id)) != request.broker:
                index = await self._controller.propose(RegisterBroker(request.broker), deadline)
            return AdminReply("", "", applied_index=index)

    async def _raise_first_levels(self, deadline: float) -> None:
        """Raise the features to the levels that the cluster was founded with, unless that was done before.

        No broker registers before that, so all that the cluster ever writes is written at these levels.
        """
        features = self._controller.features
        for name, level in self._first_levels.items():
            if features.level(name) < level:
                try:
                    await self._controller.propose(SetFeature(name, level), deadline)
                except FeatureUpdateError as error:
                    # A version was changed amid the founding. The brokers register all the same.
                    cure = f"raise it once all brokers have it: raftka cluster features upgrade {name}={level}"
                    _logger.warning("%s was to be at level %d from the beginning: %s; %s", name, level, error, cure)

    async def _update_feature(self, request: UpdateFeatureRequest, deadline: float) -> AdminReply:
        # No broker registers between the question and the command: both happen under the lock, and a registration that
        # took too long is applied before.
        async with self._controller.admission:
            index = await self._controller.confirm_office(deadline)
            await self._controller.settle(deadline)
            term = self._controller.consensus.term
            features, members = self._controller.features, self._controller.members
            features.check(request.name, request.level, {})
            if request.level != features.level(request.name):
                nodes = {NodeId(each.node_id) for each in members.all()} | {each.node_id for each in members.admitted()}
                highest = members.highest_levels(await self._present_features.ask(sorted(nodes), deadline))
                if self._controller.consensus.term != term:
                    # Another leader may have registered a broker that was replaced by an older version meanwhile.
                    raise NotControllerError("raft0 has begun another term while brokers were asked what they have")
                features.check(request.name, request.level, highest)
                command = SetFeature(request.name, request.level, {node: dict(highest[node]) for node in highest})
                index = await self._propose(command, deadline, validate_only=request.validate_only) or index
            return AdminReply("", "", applied_index=index)

    async def _alter_broker_configs(self, request: AlterBrokerConfigsRequest, deadline: float) -> AdminReply:
        async with self._controller.admission:
            index = await self._controller.confirm_office(deadline)
            self._require_options()
            node = None if request.node is None else NodeId(request.node)
            if node is not None and self._controller.members.get(node) is None:
                raise UnknownBrokerError(f"broker {node} is not in the cluster")
            table = self._controller.options
            configs = altered_options(table, node, request.changes, self._dynamic, replaces_all=request.replaces_all)
            if configs != table.of(node):
                command = AlterBrokerConfigs(node, configs)
                index = await self._propose(command, deadline, validate_only=request.validate_only) or index
            return AdminReply("", "", applied_index=index)

    async def _allocate_producer_ids(self, _: AllocateProducerIdsRequest, deadline: float) -> AdminReply:
        async with self._controller.admission:
            while True:
                # The command itself proves that the table was current: it is refused where `first` is not next.
                self._controller.require_office()
                first = self._controller.producer_ids.next_id
                try:
                    await self._controller.propose(AllocateProducerIds(first, BLOCK_SIZE), deadline)
                except ProducerIdsTakenError:
                    # A command whose proposer gave up was applied after all: the table has moved on.
                    continue
                return AdminReply("", "", first_producer_id=first)


def _checked(reply: Reply) -> Reply:
    if reply.error:
        raise BY_NAME.get(reply.error, ClusterError)(reply.message)
    return reply
