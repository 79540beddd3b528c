"""The brokers of the cluster, as raft0 has them (RFC 0020). Written by `controller_tables` only.

A broker is *admitted* with a data directory, and *registers* each time that it starts. The founders are admitted by the
founding. A directory that is *retired* never counts again: its disk is lost, or its broker was removed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import msgspec

from cluster.commands import AdmitBroker, BrokerRecord, RetireDirectory, SetBrokerState
from cluster.errors import BrokerAdmittedError, BrokerNotAdmittedError, UnknownBrokerError
from model.ids import DirectoryId, NodeId, Replica
from raft.group_configuration import NO_REVISION, Revision

# Of the founders: before any command, which has a later one.
FOUNDING_EPOCH = Revision(0, 1)


class BrokerState(StrEnum):
    """What a broker may be given."""

    ACTIVE = "active"
    # It leads nothing and gets nothing.
    DRAINING = "draining"
    # It is to be empty, and then removed.
    DECOMMISSIONING = "decommissioning"


@dataclass(frozen=True, slots=True)
class Member:
    """A broker that was admitted.

    Attributes:
        replica: Its node id, and the directory that it was admitted with.
        epoch: The command that admitted it. A node that is admitted again, with another directory, has a later one.
        state: See `BrokerState`.
        rpc_host, rpc_port: Where its links listen; port 0: a founder that has not registered.
        replaced: The directory that it had before, which is retired; empty: it has its first one.
    """

    replica: Replica
    epoch: Revision
    state: BrokerState = BrokerState.ACTIVE
    rpc_host: str = ""
    rpc_port: int = 0
    replaced: str = ""

    @property
    def node_id(self) -> NodeId:
        """Its node id."""
        return self.replica.node_id


class MembersTable:
    """Admitted and registered brokers by node id.

    Args:
        founders: The replicas that raft0 was founded with: admitted before anything else.

    Attributes:
        retired: Directories that never count again, those of removed brokers among them.
        removed: Node ids of brokers that were removed, and have not joined anew since.
        changed: The command that admitted, retired or removed the last broker, or changed the state of one; there is
            none before.
    """

    def __init__(self, founders: Iterable[Replica] = ()) -> None:
        self._founders = tuple(founders)
        self._brokers: dict[NodeId, BrokerRecord] = {}
        self._listeners: list[Callable[[], None]] = []
        self._admitted: dict[NodeId, Member] = {}
        self.retired: frozenset[DirectoryId] = frozenset()
        self.removed: frozenset[NodeId] = frozenset()
        self.changed = NO_REVISION
        self._found()

    def _found(self) -> None:
        self._admitted = {each.node_id: Member(each, FOUNDING_EPOCH) for each in self._founders}
        self.retired, self.removed, self.changed = frozenset(), frozenset(), NO_REVISION

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change, of registrations too; it must not block."""
        self._listeners.append(listener)

    # -- what is here -------------------------------------------------------------------------------------------

    def get(self, node_id: NodeId) -> BrokerRecord | None:
        """Return a broker's newest registration, None if it never registered."""
        return self._brokers.get(node_id)

    def all(self) -> list[BrokerRecord]:
        """Return all registrations in ascending order of node id."""
        return [self._brokers[node_id] for node_id in sorted(self._brokers)]

    def with_features(self, told: Mapping[int, Mapping[str, int]]) -> list[BrokerRecord]:
        """Return all registrations in ascending order of node id, with the features `told` of some node ids."""
        return [
            msgspec.structs.replace(broker, features=dict(told[broker.node_id])) if broker.node_id in told else broker
            for broker in self.all()
        ]

    def highest_levels(self, told: Mapping[int, Mapping[str, int]]) -> dict[int, Mapping[str, int]]:
        """Return by node id what registered brokers have, and those in `told`, which is newer."""
        found = {broker.node_id: broker.features for broker in self.all()}
        return dict(sorted({**found, **told}.items()))

    def member(self, node_id: NodeId) -> Member | None:
        """Return an admitted broker; None if there is none of that node id."""
        return self._admitted.get(node_id)

    def admitted(self) -> list[Member]:
        """Return all admitted brokers in ascending order of node id, those with a retired directory among them."""
        return [self._admitted[node_id] for node_id in sorted(self._admitted)]

    def is_retired(self, member: Member) -> bool:
        """Whether the node's directory is retired: it has none until it joins again."""
        return member.replica.directory_id in self.retired

    def is_present(self, replica: Replica) -> bool:
        """Whether its node is in the cluster with that directory, which counts."""
        member = self._admitted.get(replica.node_id)
        return member is not None and member.replica == replica and replica.directory_id not in self.retired

    def must_leave(self, replica: Replica) -> bool:
        """Whether a replica must go elsewhere: its broker is to be empty, or its directory never counts again."""
        return not self.is_present(replica) or self._admitted[replica.node_id].state is BrokerState.DECOMMISSIONING

    def usable(self) -> list[BrokerRecord]:
        """Return the registered brokers that may get replicas: active ones, in ascending order of node id.

        Where nothing is known of admissions, all of them.
        """
        return [broker for broker in self.all() if self.refusal_of(NodeId(broker.node_id)) is None]

    def lasting_count(self) -> int:
        """Return how many brokers are admitted and are not to leave: as many replicas a topic can have for good.

        One that is drained, gets a new disk, or has yet to register, counts. Where nothing is known of admissions,
        those that have registered do.
        """
        if not self._admitted:
            return len(self._brokers)
        return sum(member.state is not BrokerState.DECOMMISSIONING for member in self._admitted.values())

    def refusal_of(self, node_id: NodeId) -> str | None:
        """Return why a broker may get no replica; None: it may."""
        broker, member = self._brokers.get(node_id), self._admitted.get(node_id)
        if broker is None:
            return f"broker {node_id} is not in the cluster"
        if member is None:
            return None
        if self.is_retired(member) or broker.directory_id != member.replica.directory_id:
            return f"the data directory of broker {node_id} is retired, and the broker has not joined with a new one"
        return None if member.state is BrokerState.ACTIVE else f"broker {node_id} is {member.state}"

    def refusal_of_replica(self, replica: Replica) -> str | None:
        """Return why a broker may get no replica in that directory; None: it may, or nothing is known of admissions."""
        if not self._admitted:
            return None
        refusal = self.refusal_of(replica.node_id)
        if refusal is None and self._brokers[replica.node_id].directory_id != replica.directory_id:
            return f"broker {replica.node_id} has another data directory by now"
        return refusal

    # -- commands -----------------------------------------------------------------------------------------------

    def apply_register(self, broker: BrokerRecord, *, only_admitted: bool = False) -> None:
        """Take a registration; a later one of the same node replaces it.

        Args:
            broker: What registers.
            only_admitted: Whether brokers are admitted one by one: the feature is in use.

        Raises:
            BrokerNotAdmittedError: The node was not admitted with that directory, or it is retired.
        """
        node = NodeId(broker.node_id)
        member = self._admitted.get(node)
        if only_admitted and self._founders:
            self.check_admitted(Replica(node, DirectoryId(broker.directory_id)))
        self._brokers[node] = broker
        if member is not None and member.replica.directory_id == broker.directory_id:
            self._admitted[node] = replace(member, rpc_host=broker.rpc_host, rpc_port=broker.rpc_port)
        elif member is not None and not only_admitted:
            # Nothing but registrations tells addresses then, in a snapshot as here.
            self._admitted[node] = replace(member, rpc_host="", rpc_port=0)
        self.tell()

    def apply_features(self, told: Mapping[int, Mapping[str, int]]) -> None:
        """Let registered brokers have these features."""
        brokers = self.with_features(told)
        if brokers != self.all():
            self._brokers = {NodeId(broker.node_id): broker for broker in brokers}
            self.tell()

    def check_admitted(self, replica: Replica) -> None:
        """Raise BrokerNotAdmittedError unless a node was admitted with a directory that still counts."""
        member = self._admitted.get(replica.node_id)
        if replica.directory_id in self.retired or member is None or member.replica != replica:
            raise BrokerNotAdmittedError(not_admitted(replica, is_retired=replica.directory_id in self.retired))

    def apply_admit(self, admit: AdmitBroker, revision: Revision) -> None:
        """Take a node in, or a node whose directory was retired with its new one. Again: its address may change.

        Raises:
            BrokerAdmittedError: The node is there with another directory.
            BrokerNotAdmittedError: The directory is retired.
        """
        replica = Replica(NodeId(admit.node_id), DirectoryId(admit.directory_id))
        self.check_admit(replica)
        member = self._admitted.get(replica.node_id)
        if member is not None and member.replica == replica:
            admitted = replace(member, rpc_host=admit.rpc_host, rpc_port=admit.rpc_port)
        else:
            # E1 of RFC 0020: a node's later directory has a later epoch.
            assert member is None or revision > member.epoch
            state = BrokerState.ACTIVE if member is None else member.state
            replaced = "" if member is None else member.replica.directory_id
            admitted = Member(replica, revision, state, admit.rpc_host, admit.rpc_port, replaced)
            self.removed -= {replica.node_id}
            self.changed = revision
        self._admitted[replica.node_id] = admitted
        self.tell()

    def check_admit(self, replica: Replica) -> None:
        """Raise what `apply_admit` would raise."""
        if replica.directory_id in self.retired:
            raise BrokerNotAdmittedError(not_admitted(replica, is_retired=True))
        member = self._admitted.get(replica.node_id)
        if member is not None and member.replica != replica and not self.is_retired(member):
            raise BrokerAdmittedError(
                f"node {replica.node_id} is in the cluster with another data directory: bring that directory back; if"
                f" it is lost, run `raftka broker replace {replica.node_id}`, then start this broker again"
            )

    def apply_set_state(self, command: SetBrokerState, revision: Revision) -> None:
        """Change what a broker may be given.

        Raises:
            UnknownBrokerError: There is none of that node id.
        """
        member = self.require(NodeId(command.node_id))
        if member.state != command.state:
            self._admitted[member.node_id] = replace(member, state=BrokerState(command.state))
            self.changed = revision
            self.tell()

    def apply_retire(self, command: RetireDirectory, revision: Revision) -> None:
        """Let a node's directory never count again.

        Raises:
            UnknownBrokerError: The node is not there with that directory.
        """
        member = self.require(NodeId(command.node_id))
        if member.replica.directory_id != command.directory_id:
            raise UnknownBrokerError(f"broker {command.node_id} has another data directory by now")
        if not self.is_retired(member):
            self.retired |= {member.replica.directory_id}
            self.changed = revision
            self.tell()

    def apply_remove(self, node_id: NodeId, revision: Revision) -> None:
        """Let a broker be no longer in the cluster; its directory is retired.

        Raises:
            UnknownBrokerError: There is none of that node id.
        """
        member = self.require(node_id)
        self.retired |= {member.replica.directory_id}
        self.removed |= {node_id}
        del self._admitted[node_id]
        self._brokers.pop(node_id, None)
        self.changed = revision
        self.tell()

    def require(self, node_id: NodeId) -> Member:
        """Return an admitted broker, or raise UnknownBrokerError."""
        member = self._admitted.get(node_id)
        if member is None:
            raise UnknownBrokerError(f"broker {node_id} is not in the cluster")
        return member

    # -- snapshots ----------------------------------------------------------------------------------------------

    def replace(self, brokers: Sequence[BrokerRecord], saved: "SavedMembers | None" = None) -> None:
        """Let these be all registrations, and the members those of a snapshot; None: the founders.

        Nobody is told: `tell`, once the other tables are of the same moment.
        """
        self._brokers = {NodeId(broker.node_id): broker for broker in brokers}
        if saved is None:
            self._found()
            self._admitted = self._by_registrations()
        else:
            self._admitted = {member.node_id: member for member in saved.members}
            self.retired, self.removed, self.changed = saved.retired, saved.removed, saved.changed

    def clear(self) -> None:
        """Begin from the founding, and tell nobody: what was here is read again."""
        self._brokers = {}
        self._found()

    def saved(self) -> "SavedMembers | None":
        """Return what a snapshot must keep beside the registrations; None: they and the founders tell all.

        Below the level of the feature it is None: no broker is admitted there, so addresses come from registrations.
        """
        if self.changed == NO_REVISION and self._admitted == self._by_registrations():
            return None
        return SavedMembers(tuple(self.admitted()), self.retired, self.changed, self.removed)

    def _by_registrations(self) -> dict[NodeId, Member]:
        """Return the founders, each with the address that it has registered with, if it has."""
        founders = {}
        for replica in self._founders:
            broker, member = self._brokers.get(replica.node_id), Member(replica, FOUNDING_EPOCH)
            if broker is not None and broker.directory_id == replica.directory_id:
                member = replace(member, rpc_host=broker.rpc_host, rpc_port=broker.rpc_port)
            founders[replica.node_id] = member
        return founders

    def tell(self) -> None:
        """Call the listeners."""
        for listener in self._listeners:
            listener()


@dataclass(frozen=True, slots=True)
class SavedMembers:
    """What a snapshot keeps of admissions."""

    members: tuple[Member, ...]
    retired: frozenset[DirectoryId]
    changed: Revision
    removed: frozenset[NodeId] = frozenset()


def not_admitted(replica: Replica, *, is_retired: bool) -> str:
    """Return what to tell a broker that is not in the cluster, with the cure."""
    if is_retired:
        return (
            f"the data directory {replica.directory_id} of node {replica.node_id} is retired and never counts again:"
            f" start node {replica.node_id} with an empty data.dir, or, if it was removed, leave it stopped"
        )
    return (
        f"node {replica.node_id} was not admitted with data directory {replica.directory_id}: see `raftka broker list`"
    )
