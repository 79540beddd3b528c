"""RFC 0003 section 9: what one dead leader can take with it is bounded in bytes (counterexample 11)."""

from collections import defaultdict
from collections.abc import Sequence

from model.ids import GroupId, Replica
from raft.replica_state import Role
from storage.entry import EntryKind
from tests.simulation.clients.history import History, reached_by_majority
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import Ghost, ReplicaView


class BoundedRunahead(Invariant):
    """What a leadership has taken from producers and no majority has written passes the bound by one round at most."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        # Per group, term and replica: up to where it has ever written that term's entries. A power loss that takes some
        # of them again is not the leader's doing.
        self._written: dict[GroupId, defaultdict[tuple[int, Replica], int]] = {}

    def on_appended(self, view: ReplicaView, added: Sequence[Ghost]) -> None:
        written = self._written.setdefault(view.group, defaultdict(int))
        last = added[-1]
        written[last.term, view.replica] = max(written[last.term, view.replica], last.index)
        context = view.consensus._context
        if view.now.role is not Role.LEADER or context.is_internal:
            return
        reached = {replica: index for (term, replica), index in written.items() if term == view.now.term}
        replicated = max(view.now.commit, reached_by_majority(view.voter_sets, reached))
        sizes = _sizes_ahead(view, replicated)
        bound = context.options.unreplicated_bytes
        # Producers are let in while less than the bound is ahead; then a round is written.
        before = sum(sizes) - _newest_round(sizes, context.options.batcher_bytes)
        if before >= bound:
            self.violated(view, f"{before} bytes behind entry {replicated} were on no majority; the bound is {bound}")
        if sum(sizes) > bound:
            self.history.counts["a leader as far ahead as it may be"] += 1


def _sizes_ahead(view: ReplicaView, replicated: int) -> list[int]:
    """Return the payload bytes of the leader's own entries behind that one, the newest first.

    What fits into a round is counted in payloads, and the leader's own account is no smaller.
    """
    sizes = []
    for ghost in reversed(view.entries[replicated:]):
        # What earlier leaders have left was theirs to bound.
        if ghost.term != view.now.term:
            break
        # Markers are no producer's; they go on where producers are held back (RFC 0021).
        if ghost.kind is EntryKind.DATA and ghost.marker is None:
            sizes.append(ghost.size)
    return sizes


def _newest_round(sizes: list[int], batcher_bytes: int) -> int:
    """Return the bytes of the largest round that may have been written last: what fits, or one batch that does not."""
    newest = 0
    for size in sizes:
        if newest and newest + size > batcher_bytes:
            break
        newest += size
    return newest
