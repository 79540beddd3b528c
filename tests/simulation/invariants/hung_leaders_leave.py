"""RFC 0003 section 7: a disk that hangs takes a leader out of office, where the others can go on without it."""

from model.ids import GroupId
from raft.replica_state import Role
from raft.rules.agreement import has_majority
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView

# Beyond the bound of a stall: a tick of a group at rest, a look that a late loop has left out, and a transfer that
# fails, which takes an election timeout.
_LEAVES_WITHIN = 3.0
# Looks further apart than this were interrupted: by a process that stood still, say.
_LOOKS_APART = 0.6


class HungLeadersLeave(Invariant):
    """A leader whose append or kvstore sync hangs leaves within 3 s of its bound, while the others answer it."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        # Per replica and step: what hangs in which term, since when, and when that was looked at last.
        self._hangs: dict[tuple[int, GroupId, str], tuple[object, float, float]] = {}

    def on_look(self, now: float, view: ReplicaView) -> None:
        consensus = view.consensus
        state, log, context = consensus.state, consensus.log, consensus._context
        # Positions, not what the product notes of its steps.
        steps = {
            "an append up to": log.pending_index if log.pending_index != log.dirty_index else None,
            "a kvstore sync, begun at": context.kvstore.syncing_since,
        }
        oldest = now - context.options.election_timeout
        heard = {node for node, follower in state.followers.items() if follower.last_reply_at >= oldest}
        counts = state.role is Role.LEADER and has_majority(state.commit_quorums, heard)
        for step, which in steps.items():
            key = (view.node_id, view.group, step)
            if which is None or not counts:
                self._hangs.pop(key, None)
                continue
            before, since, looked_at = self._hangs.get(key, (None, now, now))
            if before != (state.term, which) or now - looked_at > _LOOKS_APART:
                since = now
            self._hangs[key] = (state.term, which), since, now
            if now - since > context.options.stall_timeout + _LEAVES_WITHIN:
                self.violated(view, f"{step} {which} hangs for {now - since:.1f} s, and a majority of others answers")
