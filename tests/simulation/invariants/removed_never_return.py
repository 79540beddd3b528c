"""RFC 0020, L12: brokers come back by an admission only, and of two directories of a node the later epoch counts."""

from collections.abc import Sequence

from cluster.commands import AdmitBroker, RemoveBroker, RetireDirectory, decode_command
from cluster.node import Node
from model.ids import RAFT0, DirectoryId
from rpc.identity import Peer
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import Ghost, ReplicaView


class RemovedNeverReturn(Invariant):
    """A removed broker or a retired directory never registers and is never elected, and no link is with an older epoch."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        # The entry of raft0 that has retired a directory.
        self._retired_at: dict[DirectoryId, int] = {}
        # By node: its replica of raft0, in its newest life.
        self._raft0: dict[int, ReplicaView] = {}
        # By node: the directory of its newest admission; of founders the one that it was first seen with.
        self._admitted: dict[int, DirectoryId] = {}

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        if view.group == RAFT0:
            self._raft0[view.node_id] = view
            self._admitted.setdefault(view.node_id, view.replica.directory_id)

    def on_committed(self, view: ReplicaView, new: Sequence[Ghost]) -> None:
        if view.group != RAFT0:
            return
        for ghost in new:
            command = decode_command(ghost.command) if ghost.command else None
            if isinstance(command, RetireDirectory):
                self._retired_at.setdefault(DirectoryId(command.directory_id), ghost.index)
            elif isinstance(command, RemoveBroker) and command.node_id in self._admitted:
                self._retired_at.setdefault(self._admitted[command.node_id], ghost.index)
            elif isinstance(command, AdmitBroker):
                self._admit(command)

    def _admit(self, command: AdmitBroker) -> None:
        # Two directories may ask at once: the tables take the first one.
        now = self._admitted.get(command.node_id)
        if command.directory_id not in self._retired_at and (now is None or now in self._retired_at):
            self._admitted[command.node_id] = DirectoryId(command.directory_id)

    def on_registered(self, node_id: int, committed: int, covered: int) -> None:
        view = self._raft0.get(node_id)
        if view is None:
            return
        retired_at = self._retired_at.get(view.replica.directory_id)
        if retired_at is not None and retired_at <= committed:
            self.violated(view, f"{view.replica} registers, and entry {retired_at} of raft0 has retired it")

    def on_elected(self, view: ReplicaView) -> None:
        retired_at = self._retired_at.get(view.replica.directory_id)
        if retired_at is None:
            return
        for voters in view.voter_sets:
            knowing = sum(
                self._applied(voter.node_id) >= retired_at for voter in voters if voter.node_id != view.node_id
            )
            if 2 * knowing > len(voters):
                self.violated(view, f"{view.replica} is elected, and entry {retired_at} of raft0 has retired it")

    def _applied(self, node_id: int) -> int:
        view = self._raft0.get(node_id)
        return 0 if view is None else view.consensus._log_state._stepped.applied_index

    def on_links(self, node: Node, peers: Sequence[Peer]) -> None:
        members = node.controller.members
        for peer in peers:
            member = members.member(peer.replica.node_id)
            if member is None or peer.epoch is None:
                continue
            is_same = member.replica == peer.replica
            if tuple(peer.epoch) != tuple(member.epoch) if is_same else tuple(peer.epoch) <= tuple(member.epoch):
                self.violated(None, f"node {node.options.node_id} has a link with {peer}, and knows {member}")
