"""RFC 0003 section 9: what one dead leader can take with it is bounded in bytes (counterexample 11)."""

from collections import defaultdict
from collections.abc import Sequence

from model.ids import GroupId
from raft.replica_state import Role
from storage.entry import EntryKind
from tests.simulation.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.replica_view import Ghost, ReplicaView


class BoundedRunahead(Invariant):
    """What a leadership has taken from producers and no majority has written passes the bound by one round at most."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        # Per group, term and node: up to where it has ever written that term's entries. A power loss that takes some
        # of them again is not the leader's doing.
        self._written: dict[GroupId, defaultdict[tuple[int, int], int]] = {}

    def on_appended(self, view: ReplicaView, added: Sequence[Ghost]) -> None:
        written = self._written.setdefault(view.group, defaultdict(int))
        last = added[-1]
        written[last.term, view.node_id] = max(written[last.term, view.node_id], last.index)
        context = view.consensus._context
        if view.now.role is not Role.LEADER or context.is_internal:
            return
        majority = self.history.voters // 2 + 1
        reached = sorted((index for (term, _), index in written.items() if term == view.now.term), reverse=True)
        replicated = max(view.now.commit, reached[majority - 1] if len(reached) >= majority else 0)
        ahead = largest = 0
        for ghost in reversed(view.entries[replicated:]):
            # What earlier leaders have left was theirs to bound.
            if ghost.term != view.now.term:
                break
            # In bytes of payload: what fits into a round is counted so, and the leader's own account is no smaller.
            if ghost.kind is EntryKind.DATA:
                ahead += ghost.size
                largest = max(largest, ghost.size)
        bound = context.options.unreplicated_bytes
        # A round is what fits into the batcher, or one batch that does not.
        if ahead > bound + max(context.options.batcher_bytes, largest):
            self.violated(view, f"{ahead} bytes behind entry {replicated} are on no majority; the bound is {bound}")
        if ahead > bound:
            self.history.counts["a leader as far ahead as it may be"] += 1
