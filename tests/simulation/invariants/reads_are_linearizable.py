"""RFC 0003 section 10: linearizable reads."""

from model.ids import GroupId
from tests.simulation.invariants.invariant import Invariant


class ReadsAreLinearizable(Invariant):
    """A confirmed latest offset is behind everything that was committed anywhere when it was asked for."""

    def on_latest(self, group: GroupId, committed: int, end: int) -> None:
        if committed:
            last = self.history.committed_in(group)[committed - 1]
            if end < last.base_offset + last.record_count:
                self.violated(None, f"{group}: the latest offset is {end}, when it was asked for {last} was committed")
        self.history.counts["latest offsets"] += 1
