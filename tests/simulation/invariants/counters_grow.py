"""W7 of the metrics: counters."""

from dataclasses import fields

from cluster.health_counts import ClusterCounts, LedCounts
from cluster.node import Node
from raft.probe import RaftProbe
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant

# Not `asdict`: it copies each of them in depth, a few times per second and broker.
_COUNTERS = tuple(each.name for each in fields(RaftProbe))


class CountersGrow(Invariant):
    """No counter of a broker falls within a life of it, whoever leads."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._counted: dict[int, tuple[int, dict[str, int]]] = {}

    def on_counted(self, node: Node, life: int, led: LedCounts, cluster: ClusterCounts | None) -> None:
        node_id = int(node.options.node_id)
        probe = node.groups.probe
        counted = {name: getattr(probe, name) for name in _COUNTERS} | {"events": node.events.next_seq}
        before_life, before = self._counted.get(node_id, (life, counted))
        self._counted[node_id] = life, counted
        if before_life != life:
            return
        for name, count in counted.items():
            if count < before[name]:
                self.violated(None, f"node {node_id} counts {count} {name}, and had {before[name]} before")
