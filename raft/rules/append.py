"""What a follower does with an append_entries request.

Source: Raft paper, figure 2 "AppendEntries RPC" steps 2-4 and section 5.3.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from model.ids import Index, Term


class Reject(Enum):
    """Why entries cannot be appended."""

    GAP = "prev_index is past the end of the log"
    TERM_MISMATCH = "another entry stands at prev_index"
    CONFLICT_WITH_COMMITTED = "the entries contradict what is committed here"


class LogView(NamedTuple):
    """What the decision needs of the local log; `term_at` is defined on [start - 1, last]."""

    start: Index
    last: Index
    commit: Index
    term_at: Callable[[Index], Term]


class AppendPlan(NamedTuple):
    """Append `entries[skip:]`, after cutting the log from `truncate_at` on if that is set.

    `skip == len(entries)`: everything is here already. A duplicated or delayed request appends and cuts nothing. The
    first one that is appended may be a placeholder that begins before the end of the log: its rest is appended.
    """

    skip: int
    truncate_at: Index | None


def plan_append(
    log: LogView, prev_index: Index, prev_term: Term, entries: Sequence[tuple[Index, Index, Term]]
) -> AppendPlan | Reject:
    """Decide what to do with `entries`, which follow `prev_index`; stale terms were refused before (step 1).

    Each is (first index, last index, term): a placeholder stands for several entries of one term (RFC 0022, section 2).
    """
    assert log.commit <= log.last
    assert not entries or entries[0][0] == prev_index + 1

    if prev_index > log.last:
        return Reject.GAP
    # What lies below the start was committed, so the leader agrees with it (Leader Completeness).
    if prev_index >= log.start - 1 and log.term_at(prev_index) != prev_term:
        return Reject.CONFLICT_WITH_COMMITTED if prev_index <= log.commit else Reject.TERM_MISMATCH

    for skip, (first, last, term) in enumerate(entries):
        if last < log.start:
            continue
        if first > log.last:
            return AppendPlan(skip, None)
        conflict = _first_of_other_term(log, max(first, log.start), min(last, log.last), term)
        # Without this check a delayed or repeated request that ends at entry 3 would remove entries 4 and 5, which the
        # follower has reported since, and which may be committed (step 3: only a conflict removes).
        if conflict is None:
            if last <= log.last:
                continue
            return AppendPlan(skip, None)
        # Without this check a leader that lacks a committed entry would make every follower remove it (S5).
        if conflict <= log.commit:
            return Reject.CONFLICT_WITH_COMMITTED
        return AppendPlan(skip, conflict)
    return AppendPlan(len(entries), None)


def _first_of_other_term(log: LogView, first: Index, last: Index, term: Term) -> Index | None:
    """Return the first entry in [first, last] that is not of `term`; terms never fall along a log."""
    if first > last:
        return None
    if log.term_at(first) != term:
        return first
    if log.term_at(last) == term:
        return None
    return Index(bisect_right(range(last + 1), term, lo=first, key=lambda index: log.term_at(Index(index))))
