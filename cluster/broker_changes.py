"""Changes of brokers, asked for at any broker and decided by raft0's leader (RFC 0020).

    drain, undrain             a broker leads nothing and gets nothing, or may again
    decommission, recommission a broker is to be empty (`evacuation` empties it), or may stay
    activate                   a broker is as any other, whatever it was
    retire                     a broker's data directory never counts again: its disk is lost
    remove                     an empty broker is in the cluster no longer

Each may be asked for again without harm, and only asked for whether it could be done.
"""

from collections.abc import Callable

import msgspec

from cluster.admin_messages import AdminReply
from cluster.admin_requests import AdminRequests
from cluster.broker_rules import check_decommission, check_remove, check_unnamed_retirement
from cluster.commands import OfBrokers, RemoveBroker, RetireDirectory, SetBrokerState
from cluster.controller import Controller
from cluster.errors import BrokerInUseError, UnknownBrokerError
from cluster.members_table import BrokerState, Member
from model.features import BROKERS_LEVEL, MEMBERSHIP
from model.ids import DirectoryId, NodeId, Replica
from rpc.links import SILENCE_SECONDS
from rpc.methods import Method

STATES = {
    "drain": BrokerState.DRAINING,
    "undrain": BrokerState.ACTIVE,
    "decommission": BrokerState.DECOMMISSIONING,
    "recommission": BrokerState.ACTIVE,
    "activate": BrokerState.ACTIVE,
}
# In which state a change finds nothing of its own, and what to say instead.
_MISPLACED = {
    ("drain", BrokerState.DECOMMISSIONING): "is being decommissioned, so it leads nothing already",
    ("undrain", BrokerState.DECOMMISSIONING): "is being decommissioned: run `raftka broker recommission {}`",
    ("recommission", BrokerState.DRAINING): "drains, and is not being decommissioned: run `raftka broker undrain {}`",
}
CHANGES = (*STATES, "retire", "remove")


class ChangeBrokerRequest(msgspec.Struct, frozen=True, array_like=True):
    """A broker is to be changed.

    Attributes:
        node_id: Which.
        change: One of CHANGES.
        directory_id: Of `retire`: only that directory, the one that somebody has looked at; empty: the present one, if
            it is the first one that the broker has.
        validate_only: Only asks whether it could be done.
        timeout: Seconds.
    """

    node_id: int
    change: str
    directory_id: str
    validate_only: bool
    timeout: float


CHANGE_BROKER = Method(19, "change_broker", ChangeBrokerRequest, AdminReply)


class BrokerChanges:
    """See the module.

    Args:
        controller: raft0 here.
        admin: Forwards to raft0's leader.
        heard_replica: Which directory answers as a node, on a link over which something came within so many seconds;
            None: none does.
        self_replica: This node.
    """

    def __init__(
        self,
        controller: Controller,
        admin: AdminRequests,
        heard_replica: Callable[[NodeId, float], Replica | None],
        self_replica: Replica,
    ) -> None:
        self._controller = controller
        self._admin = admin
        self._heard_replica = heard_replica
        self._self_replica = self_replica
        admin.serve(CHANGE_BROKER, self._change)

    async def change(self, request: ChangeBrokerRequest) -> AdminReply:
        """Change a broker, or only check whether it could be.

        Raises:
            FeatureLevelError: The cluster is not at the level that it needs.
            UnknownBrokerError: No broker of that node id, or not with that directory, or the change is unknown.
            InvalidReplicationFactorError: Without the broker there are too few for some topics.
            BrokerInUseError: It holds replicas or votes in raft0 (remove), its link works (retire), its directory has
                replaced another one and is not named (retire), or it is in another state than the change ends.
            ClusterError: See `AdminRequests.forward`.
        """
        self._require_level()
        return await self._admin.forward(CHANGE_BROKER, request, self._change)

    def _require_level(self) -> None:
        self._controller.features.require(MEMBERSHIP, BROKERS_LEVEL, "changes of brokers")

    # -- at raft0's leader --------------------------------------------------------------------------------------

    async def _change(self, request: ChangeBrokerRequest, deadline: float) -> AdminReply:
        async with self._controller.admission:
            index = await self._controller.confirm_office(deadline)
            self._require_level()
            members, node_id = self._controller.members, NodeId(request.node_id)
            if request.change == "remove" and node_id in members.removed:
                return AdminReply("", "", applied_index=index)
            member = members.require(node_id)
            command = self._command(request, member)
            if command is not None and not request.validate_only:
                index = await self._controller.propose(command, deadline)
            return AdminReply("", "", applied_index=index)

    def _command(self, request: ChangeBrokerRequest, member: Member) -> OfBrokers | None:
        """Return what to propose; None: it is so already."""
        tables = self._controller
        state = STATES.get(request.change)
        if state is not None:
            misplaced = _MISPLACED.get((request.change, member.state))
            if misplaced is not None:
                raise BrokerInUseError(f"broker {member.node_id} {misplaced.format(member.node_id)}")
            if member.state is state:
                return None
            if state is BrokerState.DECOMMISSIONING:
                check_decommission(tables.members, tables.topics, member.node_id)
            return SetBrokerState(member.node_id, state.value)
        if request.change == "remove":
            check_remove(tables.topics, tables.raft0, member.node_id)
            return RemoveBroker(member.node_id)
        if request.change == "retire":
            if not request.directory_id:
                check_unnamed_retirement(tables.members, member)
            return self._retirement(member, DirectoryId(request.directory_id or member.replica.directory_id))
        raise UnknownBrokerError(f"no change of brokers is called {request.change[:40]!r}: {', '.join(CHANGES)}")

    def _retirement(self, member: Member, directory: DirectoryId) -> RetireDirectory | None:
        if directory in self._controller.members.retired:
            return None
        if directory != member.replica.directory_id:
            raise UnknownBrokerError(
                f"broker {member.node_id} has data directory {member.replica.directory_id}, not {directory[:64]}"
            )
        own = self._self_replica
        linked = own if member.node_id == own.node_id else self._heard_replica(member.node_id, SILENCE_SECONDS)
        if linked is not None and linked.directory_id == directory:
            raise BrokerInUseError(
                f"the data directory of broker {member.node_id} is in use: broker {self._self_replica.node_id} sees its"
                " link work; stop that broker first, and only if its disk is lost"
            )
        return RetireDirectory(member.node_id, directory)
