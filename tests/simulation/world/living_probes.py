"""Probes of living runs: which rare sights of members that change a campaign must have seen."""

from collections.abc import Sequence

from cluster.commands import FinishPlacement, decode_command
from cluster.node import Node
from model.ids import RAFT0, GroupId, Replica
from raft.group_configuration import Revision
from raft.replica_state import Role
from rpc.identity import Peer
from storage.entry import EntryKind
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.living import LIVING_KINDS
from tests.simulation.world.living_brokers import STRUCK_CHANGES
from tests.simulation.world.replica_view import Ghost, ReplicaView, Standing, voter_sets_of

SOMETIMES_LIVING = (
    *(f"fault {kind}" for kind in LIVING_KINDS),
    *(f"strikes amid: {moment}" for moment in ("learners", "joint", "uncommitted", "new")),
    "alter placements NONE",
    "alter placements NoReassignmentError",
    "moves finished",
    "replicas that left",
    "learners promoted",
    "a crash in a joint configuration",
    "a move cancelled from a joint configuration",
    "a configuration truncated",
    "a leader outside its target",
    "a gravestone used",
    "a learner promoted under load",
    "a group of one voter grew",
    "a group shrank to one voter",
    "a draining broker that led nothing",
    "brokers that joined",
    "brokers removed",
    "disks replaced",
    "old disks refused",
    "raft0 moves finished",
    "brokers upgraded",
    "brokers rolled back",
    "levels raised",
    "links of both formats",
    *(
        f"strikes amid {change}: {who}"
        for change in ("a change of brokers", "an upgrade")
        for who in ("subject", "raft0's leader", "any")
    ),
    *(f"amid {change}: {how}" for change in STRUCK_CHANGES for how in ("kill", "power loss")),
)


class LivingProbes(Invariant):
    """Objects to nothing, and counts."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._gone: set[tuple[GroupId, Replica]] = set()

    def _count(self, name: str) -> None:
        self.history.counts[name] += 1

    def on_left(self, node: Node, view: ReplicaView | None, group: GroupId, revision: Revision | None) -> None:
        self._gone.add((group, node.replica))

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        key = (view.group, view.replica)
        if former is not None and former.life != view.life and former.configuration.is_joint:
            self._count("a crash in a joint configuration")
        if former is None and key in self._gone:
            self._gone.discard(key)
            if view.now.term > 0 and view.consensus.state.voted_for is not None:
                self._count("a gravestone used")

    def on_committed(self, view: ReplicaView, new: Sequence[Ghost]) -> None:
        if view.group == RAFT0:
            commands = [decode_command(ghost.command) for ghost in new if ghost.command]
            if any(isinstance(each, FinishPlacement) and each.group == RAFT0 for each in commands):
                self._count("raft0 moves finished")

    def on_links(self, node: Node, peers: Sequence[Peer]) -> None:
        if len({peer.link_format for peer in peers}) > 1:
            self._count("links of both formats")

    def on_truncated(self, view: ReplicaView, removed: Sequence[Ghost], before: Standing) -> None:
        if any(ghost.configuration is not None for ghost in removed):
            self._count("a configuration truncated")

    def on_appended(self, view: ReplicaView, added: Sequence[Ghost]) -> None:
        for ghost in added:
            if ghost.configuration is not None and view.now.role is Role.LEADER and ghost.term == view.now.term:
                self._look_at(view, ghost)

    def _look_at(self, view: ReplicaView, ghost: Ghost) -> None:
        configuration = ghost.configuration
        assert configuration is not None
        former = view.configuration_before(ghost.index)
        sets, former_sets = voter_sets_of(configuration), voter_sets_of(former)
        if view.replica not in sets[-1]:
            self._count("a leader outside its target")
        if former.is_joint and sets == former_sets[:1] != former_sets[1:]:
            self._count("a move cancelled from a joint configuration")
        if not configuration.is_joint:
            return
        if len(sets[0]) == 1 < len(sets[1]):
            self._count("a group of one voter grew")
        if len(sets[1]) == 1 < len(sets[0]):
            self._count("a group shrank to one voter")
        begin = max((each.index for each in view.configured if each.index < ghost.index), default=0)
        if former.learners and any(each.kind is EntryKind.DATA for each in view.entries[begin : ghost.index - 1]):
            self._count("a learner promoted under load")
