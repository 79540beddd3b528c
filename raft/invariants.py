"""What always holds of one replica, asserted at the end of `Consensus.settle` (RFC 0003, invariants).

Each assert is about a mistake of ours. What a peer, a client or a disk sends is judged before it gets into the state,
and raises an error instead.
"""

from raft.replica_state import ReplicaState, Role


def check_replica(state: ReplicaState) -> None:
    """Assert S2, S9, that a leader or candidate voted for itself, and the leader's view of its followers. O(voters)."""
    role = state.role
    if role is Role.FAILED:
        # The replica has stopped, perhaps because one of these invariants is violated.
        return
    state.check_invariants()
    # S9: a term is durable once this replica has entered it, never before.
    assert state.durable_term <= state.term
    if role is not Role.LEADER:
        # A leader drops its view of followers and writes when its leadership ends. In a later one it would be stale.
        assert not state.followers
        assert not state.unreplicated.total
        assert not state.last_asked_index
        return
    # S9: the term is durable together with the own vote, so after a restart the replica votes for nobody else in it.
    assert state.durable_term == state.term
    # Section 5: the barrier is a leader's first commit. Until then it is among the entries that wait for a flush.
    assert state.barrier_index > 0
    assert state.commit_index >= state.barrier_index or state.last_asked_index >= state.barrier_index
    for follower in state.followers.values():
        # R4 of RFC 0004: if a request ended twice, more of them than the window could be in flight.
        assert follower.in_flight >= 0, str(follower)
        # R1 of RFC 0004: rounds skip a follower that is being probed. If no recovery were due, nobody would send to it.
        assert not follower.is_probing or follower.needs_recovery, str(follower)
