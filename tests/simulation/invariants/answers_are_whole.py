"""RFC 0002 section 14: what a consumer gets is whole batches, unless a bit has rotted since the broker checked them."""

from model.ids import GroupId
from tests.simulation.invariants.invariant import Invariant


class AnswersAreWhole(Invariant):
    """A consumer gets whole batches, with the CRC of their bytes; a disk that has rotted excepted."""

    def on_damaged_answer(self, host: str, group: GroupId, reason: str, *, has_rotted: bool) -> None:
        if not has_rotted:
            self.violated(None, f"{group}: {host} has sent a damaged batch, and its disk is fine: {reason}")
        self.history.counts["rotted batches found by clients"] += 1
