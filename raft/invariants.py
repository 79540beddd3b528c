"""What always holds of one replica, asserted at the end of `Consensus.settle` (RFC 0003, invariants).

Each assert is about a mistake of ours. What a peer, a client or a disk sends is judged before it gets into the state,
and raises an error instead.
"""

from raft.replica_state import ReplicaState, Role


def check_replica(state: ReplicaState) -> None:
    """Assert S2, S9, the vote of whoever leads or stands, and what a leader may believe of its followers. O(voters)."""
    role = state.role
    if role is Role.FAILED:
        # It has stopped, perhaps because one of these does not hold.
        return
    state.check_invariants()
    # S9: a term is durable once this replica has entered it, never before.
    assert state.durable_term <= state.term
    if role is not Role.LEADER:
        # What a leader alone keeps goes with its leadership: in the next one it would be another term's.
        assert not state.followers
        assert not state.unreplicated.total
        assert not state.last_asked_index
        return
    # S9: a restart finds the term that this replica leads, and so its own vote: nobody else is elected in it.
    assert state.durable_term == state.term
    # Section 5: until its barrier is committed, a leader commits nothing; what is asked for begins with the barrier.
    assert state.barrier_index > 0
    assert state.commit_index >= state.barrier_index or state.last_asked_index >= state.barrier_index
    for follower in state.followers.values():
        # P8: a request that ended twice would let more of them in flight than the window.
        assert follower.in_flight >= 0, str(follower)
        # R2: rounds skip whom only recovery may send to; without a recovery such a follower would be left behind.
        assert not follower.is_probing or follower.needs_recovery, str(follower)
