"""RFC 0008, L3: what a snapshot says."""

from storage.snapshot_file import Snapshot
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.digested_state import DigestedState, digest_of
from tests.simulation.world.replica_view import ReplicaView


class SnapshotsAreTrue(Invariant):
    """The state in a snapshot is what the committed entries up to its applied index come to."""

    def on_snapshot(self, view: ReplicaView, snapshot: Snapshot) -> None:
        if not isinstance(view.consensus._log_state._state, DigestedState):
            return  # A group without state, or with one that proves nothing.
        self.history.counts["snapshots seen"] += 1
        gold = self.history.committed_in(view.group)
        index = snapshot.applied_index
        if index > len(gold):
            self.violated(view, f"a snapshot as of entry {index}, only {len(gold)} entries are committed")
        expected = (gold[index - 1].term, gold[index - 1].chain) if index > 0 else (0, b"")
        if (snapshot.applied_term, digest_of(snapshot.state)) != expected:
            self.violated(view, f"its snapshot as of entry {index} holds the state of other entries")
