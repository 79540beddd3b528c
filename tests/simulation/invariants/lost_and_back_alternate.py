"""RFC 0016, W6: the events about other brokers."""

from cluster.events import Event, EventKind
from cluster.node import Node
from model.ids import NodeId
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant

_LOST = (EventKind.NODE_LOST, EventKind.NODE_STOPS)


class LostAndBackAlternate(Invariant):
    """What a broker tells of another one alternates, lost or stops, then back, and is what its outgoing link does."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        # Per node, its newest life and node; what it says of each other one: up or not.
        self._lives: dict[int, tuple[int, Node, dict[int, bool]]] = {}

    def on_event(self, node: Node, life: int, event: Event) -> None:
        if event.kind not in (EventKind.NODE_CONNECTED, EventKind.NODE_BACK, *_LOST):
            return
        node_id = int(node.options.node_id)
        if self._lives.get(node_id, (0,))[0] != life:
            self._lives[node_id] = life, node, {}
        said = self._lives[node_id][2]
        other = int(event.text.split()[1])
        before, is_up = said.get(other), node.links.is_up(NodeId(other))
        if event.kind is EventKind.NODE_CONNECTED:
            if before is not None:
                self.violated(None, f"node {node_id} is connected with node {other} for the first time again")
            said[other] = True
        elif event.kind in _LOST:
            if before is not True:
                self.violated(None, f"node {node_id} tells of node {other} as lost, and has not told of it as back")
            if is_up:
                self.violated(None, f"node {node_id} tells of node {other} as lost, and its link to it works")
            said[other] = False
        elif event.kind is EventKind.NODE_BACK:
            if before is not False:
                self.violated(None, f"node {node_id} tells of node {other} as back, and has not told of it as lost")
            if not is_up:
                self.violated(None, f"node {node_id} tells of node {other} as back, and its link to it is down")
            said[other] = True

    def at_end(self) -> None:
        for node_id, (_, node, said) in self._lives.items():
            for other, is_said_up in said.items():
                if not is_said_up and node.links.is_up(NodeId(other)):
                    self.violated(None, f"node {node_id} has a link to node {other}, and still tells of it as lost")
