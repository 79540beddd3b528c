"""RFC 0016, W5: the event `leader`."""

from cluster.events import Event, EventKind
from cluster.node import Node
from model.ids import GroupId
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView, Standing


class EventsTellElections(Invariant):
    """Each term in which a replica has taken office is one `leader` event of its broker, and no other term is one."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._told: dict[tuple[GroupId, int], int] = {}
        self._offices: dict[tuple[GroupId, int], ReplicaView] = {}
        self._deleted: set[GroupId] = set()

    def on_event(self, node: Node, life: int, event: Event) -> None:
        self.history.counts[f"event {event.kind.value}"] += 1
        if event.kind is not EventKind.LEADER:
            return
        node_id = int(node.options.node_id)
        # By the name alone it may be a partition of a deleted topic, whose terms began at 1 as well.
        named = [each for each in node.groups if each.name == event.partition and each.term == event.term]
        in_office = [each.group for each in named if each.is_in_office]
        if not in_office:
            self.violated(None, f"node {node_id} tells of term {event.term} of {event.partition}, and is not in office")
        key = in_office[0], event.term
        if key in self._told and key[0] not in self._deleted:
            self.violated(None, f"node {node_id} tells again of term {event.term} of {event.partition}")
        self._told[key] = node_id

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        if view.now.in_office:
            self._offices[view.group, view.now.term] = view

    def on_removed(self, node_id: int, group: GroupId, *, is_in_table: bool) -> None:
        # A broker that starts again may begin an empty replica, in term 1, before it applies the deletion again.
        self._deleted.add(group)

    def on_look(self, now: float, view: ReplicaView) -> None:
        self._all_are_told()

    def at_end(self) -> None:
        self._all_are_told()

    def _all_are_told(self) -> None:
        for key, view in self._offices.items():
            if self._told.get(key) != view.node_id:
                self.violated(view, f"it took office in term {key[1]}, and its broker has not told so")
        self._offices.clear()
