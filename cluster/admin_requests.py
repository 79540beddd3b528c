"""Administrative requests: any broker accepts them and forwards them to raft0's leader, which decides.

The leader checks a request against its tables and proposes one command. It answers once it has applied that command.
What it decides about topics is in `topics_frontend`; the rest, about brokers, features, options and producer ids, is
here. While no leader is known, or the broker that was asked does not lead, the request is tried again until its
deadline (`forwarding`).

If a request was sent and no reply came, it may have taken effect. Only the registration of a broker and the allocation
of producer ids are then sent again, because they do no harm twice. A request about a topic ends with
ControllerUnavailableError instead, and its outcome is unknown. If it were sent again, the leader could refuse it
because the first attempt took effect, or it could undo a change that somebody made in between.

The leader confirms with a majority that it still leads before it reads its tables for a registration.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeVar

from cluster.admin_messages import (
    ALLOCATE_PRODUCER_IDS,
    ALTER_BROKER_CONFIGS,
    ALTER_TOPIC_CONFIGS,
    CREATE_PARTITIONS,
    CREATE_TOPIC,
    DELETE_TOPIC,
    REGISTER_BROKER,
    UPDATE_FEATURE,
    AdminReply,
    AllocateProducerIdsRequest,
    AlterBrokerConfigsRequest,
    AlterTopicConfigsRequest,
    CreatePartitionsRequest,
    CreateTopicRequest,
    DeleteTopicRequest,
    RegisterBrokerRequest,
    UpdateFeatureRequest,
)
from cluster.commands import AllocateProducerIds, AlterBrokerConfigs, RegisterBroker, SetFeature
from cluster.controller import Controller
from cluster.dynamic_options import DynamicOptions, altered_options
from cluster.errors import (
    BY_NAME,
    ClusterError,
    ControllerUnavailableError,
    FeatureUpdateError,
    NotControllerError,
    ProducerIdsTakenError,
    RequestTooLargeError,
    UnknownBrokerError,
)
from cluster.forwarding import Forwarded, Forwarder, NoLeaderError, NoReplyError, RequestNotTakenError
from cluster.present_features import PresentFeatures
from cluster.producer_id_table import BLOCK_SIZE
from cluster.topics_frontend import TopicsFrontend
from model.features import MEMBERSHIP, OPTIONS_LEVEL
from model.ids import Index, NodeId
from rpc.identity import Peer
from rpc.links import Links
from rpc.methods import Method
from runtime.rng import Rng

_logger = logging.getLogger("cluster")


class AdminRequest(Protocol):
    """What all of these requests have."""

    @property
    def timeout(self) -> float:
        """For how many seconds an answer is waited for."""
        ...


Request = TypeVar("Request", bound=AdminRequest)
Reply = TypeVar("Reply", bound=AdminReply)


class AdminRequests:
    """See the module.

    Args:
        controller: raft0 here.
        links: To the other brokers.
        self_node: This broker.
        rng: Draws ids of topics.
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
        self.replicas_max = replicas_max
        self._first_levels = dict(first_levels)
        self._dynamic = dynamic
        self._present_features = present_features
        topics = TopicsFrontend(controller, links, self_node, rng, lambda: self.replicas_max())
        self._topics = topics
        self.serve(CREATE_TOPIC, topics.create)
        self.serve(DELETE_TOPIC, topics.delete)
        self.serve(REGISTER_BROKER, self._register_broker)
        self.serve(CREATE_PARTITIONS, topics.create_partitions)
        self.serve(ALTER_TOPIC_CONFIGS, topics.alter_configs)
        self.serve(ALLOCATE_PRODUCER_IDS, self._allocate_producer_ids)
        self.serve(UPDATE_FEATURE, self._update_feature)
        self.serve(ALTER_BROKER_CONFIGS, self._alter_broker_configs)

    async def create_topic(self, request: CreateTopicRequest) -> AdminReply:
        """Create a topic, or only check whether it could be; see `forward` for the errors all of these share."""
        return await self.forward(CREATE_TOPIC, request, self._topics.create)

    async def delete_topic(self, request: DeleteTopicRequest) -> AdminReply:
        """Delete a topic."""
        return await self.forward(DELETE_TOPIC, request, self._topics.delete)

    async def register_broker(self, request: RegisterBrokerRequest) -> AdminReply:
        """Make a broker's addresses known."""
        return await self.forward(REGISTER_BROKER, request, self._register_broker, is_repeatable=True)

    async def create_partitions(self, request: CreatePartitionsRequest) -> AdminReply:
        """Add partitions to a topic, or only check whether they could be."""
        return await self.forward(CREATE_PARTITIONS, request, self._topics.create_partitions)

    async def alter_topic_configs(self, request: AlterTopicConfigsRequest) -> AdminReply:
        """Change what is set on a topic, or only check whether it could be."""
        return await self.forward(ALTER_TOPIC_CONFIGS, request, self._topics.alter_configs)

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

    async def catch_up(self, timeout: float) -> None:
        """Return once raft0's tables here are as new as its leader knows now; `timeout` in seconds.

        Raises:
            ControllerUnavailableError: They are not known to be.
        """
        level = self._controller.features.level(MEMBERSHIP)
        # A feature that stays where it is: the leader confirms its office, and tells its commit index.
        question = UpdateFeatureRequest(MEMBERSHIP, level, validate_only=True, timeout=timeout)
        try:
            async with asyncio.timeout(timeout):
                reply = await self.update_feature(question)
                await self._controller.wait_applied(Index(reply.applied_index))
        except TimeoutError:
            raise ControllerUnavailableError(
                f"raft0's tables are not known to be current after {timeout:g} s"
            ) from None

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
            # Above 0 it was raised before. It may have been lowered since.
            if not features.level(name):
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
            features.check_direction(request.name, request.level, is_lowering=request.is_lowering)
            if request.level < features.level(request.name):
                # Whoever has the level in force has the lower one, too.
                lowered, is_dry = SetFeature(request.name, request.level), request.validate_only
                index = await self._controller.propose_or_check(lowered, deadline, validate_only=is_dry) or index
            elif request.level > features.level(request.name):
                nodes = {NodeId(each.node_id) for each in members.all()} | {each.node_id for each in members.admitted()}
                highest = members.highest_levels(await self._present_features.ask(sorted(nodes), deadline))
                if self._controller.consensus.term != term:
                    # Another leader may have registered a broker that was replaced by an older version meanwhile.
                    raise NotControllerError("raft0 has begun another term while brokers were asked what they have")
                features.check(request.name, request.level, highest)
                command = SetFeature(request.name, request.level, {node: dict(highest[node]) for node in highest})
                is_dry = request.validate_only
                index = await self._controller.propose_or_check(command, deadline, validate_only=is_dry) or index
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
                is_dry = request.validate_only
                index = await self._controller.propose_or_check(command, deadline, validate_only=is_dry) or index
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
