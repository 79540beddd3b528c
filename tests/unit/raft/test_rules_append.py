"""Raft paper figure 7, told as one table, and the log matching property."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.ids import Index, Term
from raft.rules.append import AppendPlan, LogView, Reject, plan_append

LEADER = [1, 1, 1, 4, 4, 5, 5, 6, 6, 6]


def view(terms: list[int], commit: int = 0) -> LogView:
    return LogView(Index(1), Index(len(terms)), Index(commit), lambda i: Term(terms[i - 1] if i else 0))


def entries(terms: list[int], first: int) -> list[tuple[Index, Index, Term]]:
    return [(Index(i), Index(i), Term(t)) for i, t in enumerate(terms, 1) if i >= first]


@pytest.mark.parametrize(
    ("follower", "expected"),
    [
        pytest.param([1, 1, 1, 4, 4, 5, 5, 6, 6], Reject.GAP, id="a"),
        pytest.param([1, 1, 1, 4], Reject.GAP, id="b"),
        pytest.param([1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6], AppendPlan(0, Index(11)), id="c"),
        pytest.param([1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7], AppendPlan(0, Index(11)), id="d"),
        pytest.param([1, 1, 1, 4, 4, 4, 4], Reject.GAP, id="e"),
        pytest.param([1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3], Reject.TERM_MISMATCH, id="f"),
    ],
)
def test_figure_7(follower: list[int], expected: AppendPlan | Reject) -> None:
    assert plan_append(view(follower), Index(10), Term(6), entries([*LEADER, 8], 11)) == expected


@st.composite
def diverging_logs(draw: st.DrawFn) -> tuple[list[int], list[int], int]:
    """Two logs that share a prefix and then never again have the same term at an index."""
    prefix = sorted(draw(st.lists(st.integers(1, 3), max_size=6)))
    ours = sorted(draw(st.lists(st.sampled_from([4, 6]), max_size=6)))
    theirs = sorted(draw(st.lists(st.sampled_from([5, 7]), max_size=6)))
    return prefix + ours, prefix + theirs, len(prefix)


@settings(deadline=None)
@given(diverging_logs(), st.data())
def test_an_accepted_append_leaves_a_log_that_starts_with_the_leaders(
    logs: tuple[list[int], list[int], int], data: st.DataObject
) -> None:
    ours, theirs, shared = logs
    commit = data.draw(st.integers(0, shared))
    prev = data.draw(st.integers(0, len(theirs)))
    plan = plan_append(
        view(ours, commit), Index(prev), Term(theirs[prev - 1] if prev else 0), entries(theirs, prev + 1)
    )
    if prev > shared:
        assert plan in (Reject.GAP, Reject.TERM_MISMATCH)
        return
    assert isinstance(plan, AppendPlan)
    assert plan.truncate_at is None or plan.truncate_at > commit
    kept = ours if plan.truncate_at is None else ours[: plan.truncate_at - 1]
    after = kept + theirs[prev + plan.skip :]
    assert after[: len(theirs)] == theirs


def merged(single: list[tuple[Index, Index, Term]], cuts: list[bool]) -> list[tuple[Index, Index, Term]]:
    """Put neighbours of one term into one placeholder, except behind a cut."""
    made: list[tuple[Index, Index, Term]] = []
    for (first, last, term), is_cut in zip(single, cuts, strict=True):
        if made and not is_cut and made[-1][2] == term:
            made[-1] = (made[-1][0], last, term)
        else:
            made.append((first, last, term))
    return made


@settings(deadline=None)
@given(diverging_logs(), st.data())
def test_placeholders_lead_to_the_log_that_their_entries_lead_to(
    logs: tuple[list[int], list[int], int], data: st.DataObject
) -> None:
    ours, theirs, shared = logs
    commit = data.draw(st.integers(0, shared))
    prev = data.draw(st.integers(0, len(theirs)))
    single = entries(theirs, prev + 1)
    placeholders = merged(single, data.draw(st.lists(st.booleans(), min_size=len(single), max_size=len(single))))
    where = view(ours, commit), Index(prev), Term(theirs[prev - 1] if prev else 0)
    one, other = plan_append(*where, single), plan_append(*where, placeholders)
    if isinstance(one, Reject) or isinstance(other, Reject):
        assert one == other
        return
    assert one.truncate_at == other.truncate_at
    end = len(ours) if one.truncate_at is None else one.truncate_at - 1
    left = placeholders[other.skip :]
    assert bool(left) == bool(single[one.skip :])
    # The first one that is appended may have begun before the end of the log, and goes on behind it.
    assert not left or left[0][0] <= end + 1 <= left[0][1]


def test_a_duplicated_request_appends_and_cuts_nothing() -> None:
    assert plan_append(view([1, 1, 2]), Index(1), Term(1), entries([1, 1, 2], 2)) == AppendPlan(2, None)


def test_a_delayed_shorter_request_does_not_cut_what_followed_it() -> None:
    assert plan_append(view([1, 1, 2, 2]), Index(1), Term(1), entries([1, 1], 2)) == AppendPlan(1, None)


def test_committed_entries_are_never_rewritten() -> None:
    plan = plan_append(view([1, 1, 1], commit=2), Index(1), Term(1), entries([1, 2], 2))
    assert plan is Reject.CONFLICT_WITH_COMMITTED


def test_a_mismatch_at_or_below_commit_is_a_contradiction() -> None:
    assert plan_append(view([1, 1], commit=2), Index(2), Term(3), []) is Reject.CONFLICT_WITH_COMMITTED
