"""RFC 0019, L1: how a leader changes who decides."""

from collections.abc import Sequence

from raft.replica_state import Role
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import Ghost, ReplicaView


class ConfigurationsOneByOne(Invariant):
    """A leader appends a configuration once all before it are committed, and so is an entry of its own term."""

    def on_appended(self, view: ReplicaView, added: Sequence[Ghost]) -> None:
        new = [ghost for ghost in added if ghost.configuration is not None and ghost.term == view.now.term]
        if not new or view.now.role is not Role.LEADER:
            return
        commit = view.now.commit
        for ghost in new:
            open_before = [each for each in view.configured if commit < each.index < ghost.index]
            if open_before:
                self.violated(view, f"it appends {ghost} while {open_before} are not committed")
            # What is committed may have been committed in this very step, but not without a barrier.
            own = [each for each in view.entries[: ghost.index - 1] if each.term == ghost.term]
            if not own or own[0].index > commit:
                self.violated(view, f"it appends {ghost} before the barrier of its term is committed")
