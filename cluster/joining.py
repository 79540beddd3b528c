"""How a broker with an empty data directory joins a founded cluster (RFC 0020).

It asks any broker by the method `join`, over a link on which nothing else is allowed. That broker has raft0's leader
decide (`admit`). The leader proposes `admit_broker`. The answer has what the new broker needs to begin: the record of
the cluster, its own epoch, and where the others are. Who asks again with the same directory gets the same answer, and
tells its present addresses by that.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

import msgspec

from cluster.admin_messages import AdminReply
from cluster.admin_requests import AdminRequests
from cluster.commands import AdmitBroker
from cluster.controller import Controller
from cluster.errors import (
    BY_NAME,
    BrokerAdmittedError,
    BrokerNotAdmittedError,
    ClusterError,
    ControllerUnavailableError,
    FeatureLevelError,
    FeatureUpdateError,
    PermanentStartupError,
    RefusedDirectoryError,
)
from cluster.founding import check_refused_directory
from cluster.founding_words import ClusterRecord, Seed
from model.features import BROKERS_LEVEL, MEMBERSHIP
from model.ids import DirectoryId, NodeId, Replica
from rpc.errors import ErrorCode, HandshakeRefusedError, RefusalCode, RemoteError, RpcError
from rpc.identity import Peer
from rpc.links import Links
from rpc.methods import Method

_logger = logging.getLogger("cluster")
_ASK_PAUSE = 0.050
_REMIND_INTERVAL = 5.0


class JoinRequest(msgspec.Struct, frozen=True, array_like=True):
    """A broker asks to be in the cluster.

    Attributes:
        node_id, directory_id: Who it is.
        rpc_host, rpc_port: Where its links listen.
        features: The highest level of each feature that it has.
        is_question: Only asks whether it would be taken: nothing changes.
        timeout: Seconds.
    """

    node_id: int
    directory_id: str
    rpc_host: str
    rpc_port: int
    features: dict[str, int]
    is_question: bool
    timeout: float


class JoinReply(AdminReply, frozen=True, array_like=True):
    """What a broker begins with.

    Attributes:
        is_founded: False: there is no cluster yet, and the asker may help to found it.
        cluster: The record of the cluster, with the epoch of the asker; None for a question.
        brokers: Where all brokers are.
    """

    is_founded: bool = True
    cluster: ClusterRecord | None = None
    brokers: tuple[Seed, ...] = ()


JOIN = Method(70, "join", JoinRequest, JoinReply, before_founding=True)
ADMIT = Method(75, "admit", JoinRequest, JoinReply)


class Joins:
    """Answers brokers that ask to join; usable before this node is in a cluster itself.

    Args:
        links: Of this node.
        is_founded: Whether this node is in a cluster.
    """

    def __init__(self, links: Links, is_founded: Callable[[], bool]) -> None:
        self._links = links
        self._is_founded = is_founded
        self._admissions: Admissions | None = None
        links.register_async(JOIN, self._answer)

    def serve(self, admissions: "Admissions") -> None:
        """Let raft0's leader decide from now on."""
        self._admissions = admissions

    async def _answer(self, _: Peer, request: JoinRequest, __: memoryview) -> JoinReply:
        if not self._is_founded():
            return JoinReply("", "", is_founded=False)
        try:
            if self._admissions is None:
                raise ControllerUnavailableError("the broker that was asked is still starting")
            return await self._admissions.admit(request)
        except ClusterError as error:
            if isinstance(error, BrokerAdmittedError):
                # It ends. Whoever looks for the node learns here why it is away.
                refusal = HandshakeRefusedError(RefusalCode.WRONG_DIRECTORY, str(error))
                self._links.note_refusal(NodeId(request.node_id), refusal)
            return JoinReply(type(error).__name__, str(error))


class Admissions:
    """At every broker: has raft0's leader admit brokers; at the leader: admits them.

    Args:
        controller: raft0 here.
        admin: Forwards to raft0's leader.
        cluster: The record of this node.
        seeds: Where the founders are that raft0 has no address of.
    """

    def __init__(
        self, controller: Controller, admin: AdminRequests, cluster: ClusterRecord, seeds: Mapping[NodeId, Seed]
    ) -> None:
        self._controller = controller
        self._admin = admin
        self._cluster = cluster
        self._seeds = seeds
        admin.serve(ADMIT, self._admit)

    async def admit(self, request: JoinRequest) -> JoinReply:
        """Let a broker join, or only say whether it would be taken.

        Raises:
            BrokerAdmittedError: The node id is taken.
            BrokerNotAdmittedError: The directory is retired.
            FeatureLevelError: The cluster is not at the level that joins need.
            FeatureUpdateError: The broker lacks a level that the cluster uses.
            ClusterError: See `AdminRequests.forward`.
        """
        return await self._admin.forward(ADMIT, request, self._admit, is_repeatable=True)

    async def _admit(self, request: JoinRequest, deadline: float) -> JoinReply:
        controller = self._controller
        replica = Replica(NodeId(request.node_id), DirectoryId(request.directory_id))
        async with controller.admission:
            index = await controller.confirm_office(deadline)
            # A taken node id is the better news: no level helps there.
            controller.members.check_admit(replica)
            self._check_level()
            controller.features.check_levels(request.features, request.node_id)
            if request.is_question:
                return JoinReply("", "", applied_index=index)
            address = request.rpc_host, request.rpc_port
            member = controller.members.member(replica.node_id)
            if member is None or member.replica != replica or (member.rpc_host, member.rpc_port) != address:
                index = await controller.propose(AdmitBroker(*replica, *address), deadline)
            return self._welcome(replica, index)

    def _check_level(self) -> None:
        features = self._controller.features
        if features.level(MEMBERSHIP) < BROKERS_LEVEL <= self._cluster.features.get(MEMBERSHIP, 0):
            # The first broker that registers has them put in force.
            raise ControllerUnavailableError("the levels that the cluster was founded with are not in force yet")
        features.require(MEMBERSHIP, BROKERS_LEVEL, "brokers that join")

    def _welcome(self, replica: Replica, index: int) -> JoinReply:
        members = self._controller.members
        member = members.require(replica.node_id)
        cluster = msgspec.structs.replace(self._cluster, epoch=tuple(member.epoch))
        brokers = []
        for each in members.admitted():
            if each.rpc_port:
                brokers.append(Seed(each.node_id, each.rpc_host, each.rpc_port))
            elif each.node_id in self._seeds:
                brokers.append(self._seeds[each.node_id])
        return JoinReply("", "", applied_index=index, cluster=cluster, brokers=tuple(brokers))


# Refusals that the same start would meet again.
_PERMANENT = (BrokerAdmittedError, BrokerNotAdmittedError, FeatureLevelError, FeatureUpdateError)


class Joining:
    """The asking side: goes from seed to seed until one answers for the cluster.

    Args:
        links: Of this node; its peers are the seeds.
        seeds: Whom to ask, this node left out.
        request: What to ask.
    """

    def __init__(self, links: Links, seeds: Sequence[Seed], request: JoinRequest) -> None:
        self._links = links
        self._seeds = [seed for seed in seeds if seed.node_id != request.node_id]
        self._request = request
        self._why: dict[int, Exception] = {}

    async def run(self) -> JoinReply:
        """Return the first answer.

        Raises:
            RefusedDirectoryError: The node id is in the cluster with another data directory.
            PermanentStartupError: The cluster does not take this broker.
        """
        loop = asyncio.get_running_loop()
        remind_at = loop.time() + _REMIND_INTERVAL
        while True:
            reply = await self.ask_once()
            if reply is not None:
                return reply
            if loop.time() >= remind_at:
                remind_at = loop.time() + _REMIND_INTERVAL
                told = ", ".join(
                    f"{seed.node_id} ({self._why.get(seed.node_id, 'not reached')})" for seed in self._seeds
                )
                _logger.warning("no seed answers for the cluster yet: %s", told)
            await asyncio.sleep(_ASK_PAUSE)

    async def ask_once(self) -> JoinReply | None:
        """Ask each seed once; None: none answers for the cluster. Raises as `run`."""
        for seed in self._seeds:
            reply = await self._ask(NodeId(seed.node_id))
            if reply is not None:
                return reply
        return None

    def unanswered(self) -> list[tuple[Seed, Exception | None]]:
        """Return the seeds that have not let this node in, each with the newest reason; None: there is none yet.

        Of a seed whose link works, it is what the seed has said: a ClusterError.
        """
        return [
            (seed, self._links.why_down(NodeId(seed.node_id)) or self._why.get(seed.node_id)) for seed in self._seeds
        ]

    async def _ask(self, node: NodeId) -> JoinReply | None:
        try:
            reply = await self._links.send(node, JOIN, self._request, timeout=self._request.timeout + 0.5)
        except RemoteError as error:
            if error.code == ErrorCode.UNKNOWN_METHOD and self._request.is_question:
                # An older version knows no joins. The founding finds out what it is.
                return JoinReply("", "", is_founded=False)
            self._why[node] = error
            return None
        except RpcError as error:
            self._why[node] = error
            check_refused_directory(self._links, node, self._request.node_id)
            return None
        if reply.error:
            refusal = BY_NAME.get(reply.error, ClusterError)(reply.message)
            if isinstance(refusal, BrokerAdmittedError):
                raise RefusedDirectoryError(str(refusal))
            if isinstance(refusal, _PERMANENT):
                raise PermanentStartupError(f"the cluster does not take node {self._request.node_id}: {refusal}")
            self._why[node] = refusal
            return None
        if not reply.is_founded and not self._request.is_question:
            self._why[node] = ControllerUnavailableError("it is in no cluster yet")
            return None
        return reply
