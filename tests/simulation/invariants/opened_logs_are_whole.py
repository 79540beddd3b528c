"""RFC 0002 section 7: a start cuts what a crash has torn, and serves none of it."""

from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView


class OpenedLogsAreWhole(Invariant):
    """A log that was just opened holds no entry with broken bytes, unless its file has rotted."""

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        if view.broken_at is not None:
            self.violated(view, f"entry {view.broken_at} does not have the bytes that its checksum covers")
