"""RFC 0003, first level: acked when fsynced on a majority, lost never while a majority keeps its data."""

from collections.abc import Sequence

from cluster.node import Node
from model.ids import GroupId, Replica
from raft.group_configuration import Revision
from tests.simulation.clients.history import is_majority_of
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import Ghost, ReplicaView, Standing


class CommittedIsDurable(Invariant):
    """What is committed is fsynced on a majority of its group's voters, from the moment it is committed on, for ever."""

    def __init__(self, history):
        super().__init__(history)
        self._views: dict[str, dict[Replica, ReplicaView]] = {}

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        self._views.setdefault(view.group, {})[view.replica] = view
        self._check(view)

    def on_left(self, node: Node, view: ReplicaView | None, group: GroupId, revision: Revision | None) -> None:
        self._views.get(group, {}).pop(node.replica, None)

    def on_committed(self, view: ReplicaView, new: Sequence[Ghost]) -> None:
        self._check(view)

    def on_truncated(self, view: ReplicaView, removed: Sequence[Ghost], before: Standing) -> None:
        self._check(view)

    def _check(self, view: ReplicaView) -> None:
        gold = self.history.committed_in(view.group)
        if not gold:
            return
        last = gold[-1]
        holders = [
            each.replica
            for each in self._views[view.group].values()
            if each.now.flushed >= last.index and each.chain_at(last.index) == last.chain
        ]
        # What damage took is counted: whoever lost it makes sure that no leader is elected without it.
        waiting = [replica for replica, each in self._views[view.group].items() if each.is_refilling]
        if not holders or not is_majority_of(self.history.deciders[view.group], {*holders, *waiting}):
            self.violated(view, f"entry {last.index}@{last.term} is committed but fsynced on {holders} only")
