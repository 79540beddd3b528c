"""Who gets a vote (Raft paper 5.2, 5.4.1; thesis 9.6)."""

import pytest

from model.ids import Index, NodeId, Term
from raft.rules.election import LogEnd, VoterView, refuse_reason

END = LogEnd(Term(3), Index(7))
VOTER = VoterView(Term(4), None, END, hears_leader=False)
A, B = NodeId(1), NodeId(2)


def ask(voter: VoterView, term: int = 5, end: LogEnd = END, *, candidate: NodeId = A, pre: bool = False) -> str | None:
    return refuse_reason(voter, candidate, Term(term), end, pre=pre)


def test_an_equal_log_is_good_enough() -> None:
    assert ask(VOTER) is None


@pytest.mark.parametrize(
    ("end", "granted"),
    [
        pytest.param(LogEnd(Term(4), Index(1)), True, id="later last term beats length"),
        pytest.param(LogEnd(Term(3), Index(8)), True, id="longer"),
        pytest.param(LogEnd(Term(3), Index(6)), False, id="shorter"),
        pytest.param(LogEnd(Term(2), Index(99)), False, id="older last term"),
    ],
)
def test_the_log_must_be_at_least_as_up_to_date(end: LogEnd, granted: bool) -> None:
    assert (ask(VOTER, end=end) is None) == granted


def test_an_old_term_is_refused() -> None:
    assert ask(VOTER, term=3) is not None


def test_a_pre_vote_must_be_for_a_newer_term() -> None:
    assert ask(VOTER, term=4, pre=True) is not None
    assert ask(VOTER, term=5, pre=True) is None


def test_one_vote_per_term() -> None:
    voted = VOTER._replace(term=Term(5), voted_for=B)
    assert ask(voted) is not None
    assert ask(voted, candidate=B) is None
    assert ask(voted, term=6) is None


@pytest.mark.parametrize("pre", [True, False])
def test_while_a_leader_is_heard_nobody_gets_a_vote(pre: bool) -> None:
    assert ask(VOTER._replace(hears_leader=True), pre=pre) == "a leader is heard"


@pytest.mark.parametrize(
    ("end", "granted"),
    [
        pytest.param(LogEnd(Term(3), Index(11)), False, id="shorter than what was lost"),
        pytest.param(LogEnd(Term(3), Index(12)), True, id="as long as what was lost"),
        pytest.param(LogEnd(Term(4), Index(8)), True, id="of a later term, which began with all that was committed"),
    ],
)
def test_who_lost_entries_to_damage_votes_only_for_those_that_reach_as_far(end: LogEnd, granted: bool) -> None:
    damaged = VOTER._replace(lost_end=LogEnd(Term(3), Index(12)))
    assert (ask(damaged, end=end) is None) == granted
    assert (ask(damaged, end=end, pre=True) is None) == granted
