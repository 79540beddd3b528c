"""RFC 0001 section 5, RFC 0012: a replica's data is deleted because its topic was."""

from collections.abc import Sequence

from cluster.commands import DeleteTopic, decode_command
from model.ids import RAFT0, GroupId, TopicId, topic_of
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import Ghost, ReplicaView


class PlacedReplicas(Invariant):
    """A broker removes a replica only once the deletion of its topic is committed in raft0."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._deleted: set[TopicId] = set()

    def on_committed(self, view: ReplicaView, new: Sequence[Ghost]) -> None:
        if view.group == RAFT0:
            for ghost in new:
                if ghost.command and isinstance(command := decode_command(ghost.command), DeleteTopic):
                    self._deleted.add(TopicId(command.topic_id))

    def on_removed(self, node_id: int, group: GroupId, *, is_in_table: bool) -> None:
        if topic_of(group) not in self._deleted:
            table = "has" if is_in_table else "does not have"
            self.violated(None, f"node {node_id}, whose table {table} its topic, removes its replica of {group}")
