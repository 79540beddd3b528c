"""design.md section 6, first row: acked when fsynced on a majority."""

from collections.abc import Sequence

from tests.simulation.invariants.invariant import Invariant
from tests.simulation.replica_view import Ghost, ReplicaView


class CommittedIsDurable(Invariant):
    """When an entry is first committed, a majority of the replicas holds it fsynced."""

    def __init__(self, history):
        super().__init__(history)
        self._views: dict[tuple[str, int], ReplicaView] = {}

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        self._views[(view.group, view.node_id)] = view

    def on_committed(self, view: ReplicaView, new: Sequence[Ghost]) -> None:
        last = new[-1]
        copies = [each for (group, _), each in self._views.items() if group == view.group]
        holders = [
            each.node_id
            for each in copies
            if each.now.flushed >= last.index and each.chain_at(last.index) == last.chain
        ]
        if len(holders) <= self.history.voters // 2:
            self.violated(view, f"entry {last.index}@{last.term} is committed but fsynced on nodes {holders} only")
