"""W7 of the metrics: counters."""

from dataclasses import asdict

from cluster.health_counts import ClusterCounts, LedCounts
from cluster.node import Node
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant


class CountersGrow(Invariant):
    """No counter of a broker falls within a life of it, whoever leads."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._counted: dict[int, tuple[int, dict[str, int]]] = {}

    def on_counted(self, node: Node, life: int, led: LedCounts, cluster: ClusterCounts | None) -> None:
        node_id = int(node.options.node_id)
        counted = asdict(node.groups.probe) | {"events": node.events.next_seq}
        before_life, before = self._counted.get(node_id, (life, counted))
        self._counted[node_id] = life, counted
        if before_life != life:
            return
        for name, count in counted.items():
            if count < before[name]:
                self.violated(None, f"node {node_id} counts {count} {name}, and had {before[name]} before")
