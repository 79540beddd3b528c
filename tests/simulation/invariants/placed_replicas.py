"""RFC 0001 section 5: a replica's data is deleted because its topic was."""

from model.ids import GroupId
from tests.simulation.invariants.invariant import Invariant


class PlacedReplicas(Invariant):
    """A broker removes no replica of a topic that is in its table."""

    def on_removed(self, node_id: int, group: GroupId, *, is_in_table: bool) -> None:
        if is_in_table:
            self.violated(None, f"node {node_id} removes its replica of {group}, whose topic there is")
