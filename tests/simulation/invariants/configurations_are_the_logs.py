"""Raft thesis 4.1, RFC 0019 section 2: a replica uses the newest configuration in its log, committed or not."""

from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView, Standing


class ConfigurationsAreTheLogs(Invariant):
    """The members that a replica works with are those of the newest configuration in its log."""

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        self._compare(view)

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        if view.now.last != before.last or view.now.truncations != before.truncations:
            self._compare(view)

    def _compare(self, view: ReplicaView) -> None:
        configurations = view.consensus.state.configurations
        if view.now.commit < view.now.start.index - 1:
            # The log is that of a snapshot already, and the rest of it is being restored; nobody stands meanwhile.
            return
        # One that is still being written is in force already.
        if configurations.index <= view.now.last and configurations.in_force != view.configuration:
            self.violated(view, f"it works with {configurations.in_force}, its log says {view.configuration}")
