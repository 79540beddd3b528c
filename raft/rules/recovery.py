"""Where the leader looks next for the last entry it shares with a follower.

Source: Raft paper end of section 5.3 (back up by term instead of by entry); RFC 0004.
"""

from collections.abc import Callable

from model.ids import Index, Term


def retry_index(term_at: Callable[[Index], Term], start: Index, prev_index: Index) -> Index:
    """Return the follower's hint after a mismatch at `prev_index`: the last entry before the term that stands there.

    The follower computes it on its own log, where `term_at` is defined on [start - 1, prev_index].
    """
    conflicting = term_at(prev_index)
    low, high = int(start) - 1, int(prev_index)
    # The first index of the conflicting term, by bisection: terms never decrease along a log.
    while low < high:
        middle = (low + high) // 2
        if term_at(Index(middle)) < conflicting:
            low = middle + 1
        else:
            high = middle
    return Index(max(low - 1, start - 1))


def next_index_after_reject(hint: Index, tried_prev: Index, leader_last: Index) -> Index:
    """Return the next index to send after the follower refused `tried_prev`: strictly lower, at least 1."""
    return Index(max(1, min(hint + 1, tried_prev, leader_last + 1)))
