"""What always holds of one replica, asserted at the end of `Consensus.settle` (RFC 0003, invariants).

Each assert is about a mistake of ours. What a peer, a client or a disk sends is judged before it gets into the state,
and raises an error instead.
"""

from raft.replica_state import ReplicaState, Role


def check_replica(state: ReplicaState) -> None:
    """Assert S2 and the vote of whoever leads or stands; and on a leader what it may believe of its followers."""
    role = state.role
    if role is Role.FAILED:
        # It has stopped, perhaps because one of these does not hold.
        return
    state.check_invariants()
    if role is not Role.LEADER:
        # What a leader alone keeps goes with its leadership: in the next one it would be another term's.
        assert not state.followers
        assert not state.unreplicated.total
        return
    for follower in state.followers.values():
        # P8: a request that ended twice would let more of them in flight than the window.
        assert follower.in_flight >= 0, str(follower)
        # R2: rounds skip whom only recovery may send to; without a recovery such a follower would be left behind.
        assert not follower.is_probing or follower.needs_recovery, str(follower)
