"""Whether a voter grants its vote, and which of two logs is longer.

Source: Raft paper sections 5.2 and 5.4.1; thesis 9.6 (pre-vote), 4.2.3 (refuse while a leader is heard), 3.10
(leadership transfer).
"""

from typing import NamedTuple

from model.ids import Index, NodeId, Term


class LogEnd(NamedTuple):
    """Compared as the paper does: the later last term wins, then the longer log."""

    term: Term
    last_index: Index


class VoterView(NamedTuple):
    """What the decision needs of the voter.

    Attributes:
        log_end: Appends in flight included (counterexample 19).
        lost_end: Where the log ended before damage took entries that were counted, or before the replica left and came
            back without its log; None if nothing is missing.
        hears_leader: A leader of `term` spoke within one election timeout, or the voter is that leader.
    """

    term: Term
    voted_for: NodeId | None
    log_end: LogEnd
    hears_leader: bool
    lost_end: LogEnd | None = None


def refuse_reason(
    voter: VoterView, candidate: NodeId, term: Term, log_end: LogEnd, *, pre: bool, transfer: bool = False
) -> str | None:
    """Return why the vote is refused, or None to grant it. A refusal never raises the voter's term.

    With `transfer` the leader itself has asked the candidate to stand: that it is heard is no reason to refuse.
    """
    if term < voter.term or (pre and term == voter.term):
        return f"term {term} is over, now {voter.term}"
    if voter.hears_leader and not transfer:
        return "a leader is heard"
    if term == voter.term and voter.voted_for not in (None, candidate):
        return f"voted for node {voter.voted_for} in term {term}"
    if log_end < voter.log_end:
        return (
            f"log ends at {log_end.last_index}@{log_end.term}, ours at {voter.log_end.last_index}@{voter.log_end.term}"
        )
    if voter.lost_end is not None and log_end < voter.lost_end:
        lost = f"{voter.lost_end.last_index}@{voter.lost_end.term}"
        return f"log ends at {log_end.last_index}@{log_end.term}, ours once ended at {lost}"
    return None
