"""Commit, visibility and the answer to acks=all: one function with different arguments (RFC 0003 section 5).

    commit   point(majorities, min(flushed, match)), own-term entries only, never above the leader's own flushed
    answer   min(commit, point(k copies, min(flushed, match)))
             under write.caching point(k copies, min(dirty, match)), as far as that is visible
    visible  point(k copies, min(dirty, match)), but not past an uncommitted write that asked for a flush

Source: Raft paper figure 2 and section 5.4.2 (commit); Redpanda's visibility upper bound (its PR 14794: relaxed
data must not be shown while a quorum write before it is uncommitted).
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from model.ids import Index, NodeId, Term


class Quorum(NamedTuple):
    """`k` of `members`."""

    members: tuple[NodeId, ...]
    k: int


class CopyPosition(NamedTuple):
    """How far one member's log is known to equal the leader's: written, and fsynced."""

    dirty: Index
    flushed: Index


def point(quorums: Sequence[Quorum], value: Callable[[NodeId], Index]) -> Index:
    """Return the largest index that k members of every quorum have reached: min over quorums of the k-th largest."""
    if len(quorums) == 1:
        # The usual case, asked for several times a record.
        members, k = quorums[0]
        return sorted(map(value, members))[-k]
    assert quorums
    return min([sorted(map(value, members))[-k] for members, k in quorums])


def commit_point(
    quorums: Sequence[Quorum],
    flushed: Callable[[NodeId], Index],
    own_flushed: Index,
    term: Term,
    term_at: Callable[[Index], Term],
    commit: Index,
) -> Index:
    """Return the leader's new commit index, at least `commit`.

    An entry of an older term is never committed by counting copies (paper figure 8): only by an entry of `term`
    above it.
    """
    candidate = min(point(quorums, flushed), own_flushed)
    if candidate <= commit or term_at(candidate) != term:
        return commit
    return candidate


def has_majority(quorums: Sequence[Quorum], granted: Collection[NodeId]) -> bool:
    """Whether enough members of every quorum are in `granted`."""
    return all(sum(member in granted for member in members) >= k for members, k in quorums)


def answer_point(quorums: Sequence[Quorum], flushed: Callable[[NodeId], Index], commit: Index) -> Index:
    """Return up to where acks=all may be answered."""
    return min(commit, point(quorums, flushed))


def written_answer_point(quorums: Sequence[Quorum], dirty: Callable[[NodeId], Index], visible: Index) -> Index:
    """Return up to where acks=all may be answered under write.caching: written on k, and never before it is visible."""
    return min(visible, point(quorums, dirty))


def visible_point(
    quorums: Sequence[Quorum],
    dirty: Callable[[NodeId], Index],
    flushed: Callable[[NodeId], Index],
    commit: Index,
    barrier: Index,
    first_unanswered: Index | None,
) -> Index:
    """Return up to where consumers may read, as of now; the caller never moves visible backwards by it.

    Args:
        quorums: Of the answer.
        dirty: What each member has written.
        flushed: What each member has fsynced.
        commit: The commit index.
        barrier: The first entry of the leader's term: what lies before it is visible once it is committed.
        first_unanswered: First entry of the oldest uncommitted write that asked for a flush, if there is one.
    """
    visible = point(quorums, dirty)
    if first_unanswered is not None:
        visible = min(visible, max(Index(first_unanswered - 1), answer_point(quorums, flushed, commit)))
    if commit >= barrier:
        visible = max(visible, barrier)
    return visible
