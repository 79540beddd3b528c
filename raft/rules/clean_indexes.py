"""How far every member of a group is clean, as its leader knows: the bound of deletes of log compaction (RFC 0022, 4).

    ask        the leader asks a member how far its log is clean
    sent       meanwhile it sends or offers the member entries
    answered   the answer counts as at most the entry before the lowest that was sent since the question

A member may lose its log behind its answer, and be filled again with records that were not cleaned yet. Without the
second step its old answer would let a tombstone go that deletes one of these.
"""

from collections.abc import Collection

from model.ids import NO_INDEX, Index, NodeId


class CleanIndexes:
    """Of one leadership. Not safe across terms: a new leadership begins with a new one."""

    def __init__(self) -> None:
        self._clean: dict[NodeId, Index] = {}
        # The lowest entry that was sent to a member since it was asked; while a question is open only.
        self._lowest_sent: dict[NodeId, Index | None] = {}

    def ask(self, member: NodeId) -> bool:
        """A question to a member is sent; False: the last one is not answered yet, and no second one may be."""
        if member in self._lowest_sent:
            return False
        self._lowest_sent[member] = None
        return True

    def sent(self, member: NodeId, first: Index) -> None:
        """A member is sent or offered entries from `first` on: it may lack them, and all behind them."""
        before = Index(first - 1)
        if self._clean.get(member, NO_INDEX) > before:
            self._clean[member] = before
        lowest = self._lowest_sent.get(member)
        if member in self._lowest_sent and (lowest is None or first < lowest):
            self._lowest_sent[member] = first

    def answered(self, member: NodeId, clean: Index | None) -> None:
        """The open question to a member has ended: with its clean index, or without an answer."""
        lowest = self._lowest_sent.pop(member)
        if clean is not None:
            self._clean[member] = clean if lowest is None else min(clean, Index(lowest - 1))

    def bound(self, members: Collection[NodeId], own: Index) -> Index:
        """Return up to where deletes may go: the smallest clean index of the other members and the leader's own.

        Args:
            members: All others of the newest configuration, learners too; who has not answered counts as 0.
            own: The leader's clean index.
        """
        return min([own, *(self._clean.get(member, NO_INDEX) for member in members)])

    def behind(self, members: Collection[NodeId], own: Index) -> tuple[NodeId, ...]:
        """Return those of `members`, as of `bound`, that are not as clean as the leader: deletes wait for them."""
        return tuple(member for member in members if self._clean.get(member, NO_INDEX) < own)
