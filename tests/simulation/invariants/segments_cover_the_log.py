"""RFC 0002 section 2: a log is the entries of its segments, one after the other; RFC 0008 section 2: where it begins."""

from itertools import pairwise

from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView, Standing


class SegmentsCoverTheLog(Invariant):
    """Every entry of a log lies in exactly one of its segments; what lay before them is told by a durable snapshot."""

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        self._check(view)

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        self._check(view)

    def _check(self, view: ReplicaView) -> None:
        segments, now = view.consensus.log._segments, view.now
        if not segments:
            if now.start.index <= now.last:
                self.violated(view, f"no segment holds [{now.start.index}, {now.last}]")
            return
        first, last = segments[0], segments[-1]
        if first.base_index > now.start.index or last.last_index != now.last:
            self.violated(view, f"segments hold [{first.base_index}, {last.last_index}], it starts at {now.start}")
        rows = last.index._positions
        if rows and rows[-1] >= last.size:
            self.violated(view, f"the index of {last.name} knows byte {rows[-1]}, it has {last.size}")
        snapshot = view.consensus.log._snapshots._start
        if first.base_index > (1 if snapshot is None else snapshot.index):
            self.violated(view, f"it begins with {first.name}, the durable start is {snapshot}")
        for earlier, later in pairwise(segments):
            if later.base_index != earlier.last_index + 1:
                self.violated(view, f"{later.name} follows entry {earlier.last_index}")
