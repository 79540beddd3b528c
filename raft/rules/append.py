"""What a follower does with an append_entries request.

Source: Raft paper, figure 2 "AppendEntries RPC" steps 2-4 and section 5.3.
"""

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

    `skip == len(entries)`: everything is here already. A duplicated or delayed request appends and cuts nothing.
    """

    skip: int
    truncate_at: Index | None


def plan_append(
    log: LogView, prev_index: Index, prev_term: Term, entries: Sequence[tuple[Index, Term]]
) -> AppendPlan | Reject:
    """Decide what to do with `entries`, which follow `prev_index`; stale terms were refused before (step 1)."""
    assert log.commit <= log.last
    assert not entries or entries[0][0] == prev_index + 1

    if prev_index > log.last:
        return Reject.GAP
    # What lies below the start was committed, so the leader agrees with it (Leader Completeness).
    if prev_index >= log.start - 1 and log.term_at(prev_index) != prev_term:
        return Reject.CONFLICT_WITH_COMMITTED if prev_index <= log.commit else Reject.TERM_MISMATCH

    for skip, (index, term) in enumerate(entries):
        if index < log.start:
            continue
        if index > log.last:
            return AppendPlan(skip, None)
        # Without this check a delayed or repeated request that ends at entry 3 would remove entries 4 and 5, which the
        # follower has reported since, and which may be committed (step 3: only a conflict removes).
        if log.term_at(index) == term:
            continue
        # Without this check a leader that lacks a committed entry would make every follower remove it (S5).
        if index <= log.commit:
            return Reject.CONFLICT_WITH_COMMITTED
        return AppendPlan(skip, index)
    return AppendPlan(len(entries), None)
