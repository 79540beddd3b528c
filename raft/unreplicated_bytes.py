"""How far a leader has run ahead of its majority, in bytes.

These bytes may be lost if the leader dies: entries that it has written, and perhaps acknowledged at leader_ack, but
that no majority has written. The bound counts bytes, because counting full windows of followers fails: if one of two
followers is dead and the other's window is full, no majority of windows is ever full (counterexample 11).
"""

from collections import deque

from model.ids import Index


class UnreplicatedBytes:
    """Rounds of one leadership that no majority has written yet, oldest first."""

    __slots__ = ("_rounds", "total")

    def __init__(self) -> None:
        self._rounds: deque[tuple[Index, int]] = deque()
        self.total = 0

    def add_round(self, last_index: Index, size: int) -> None:
        """A round of `size` bytes that ends at `last_index` was written here."""
        assert not self._rounds or self._rounds[-1][0] < last_index
        self._rounds.append((last_index, size))
        self.total += size

    def release(self, replicated: Index) -> None:
        """A majority has written everything up to `replicated`."""
        while self._rounds and self._rounds[0][0] <= replicated:
            self.total -= self._rounds.popleft()[1]

    def clear(self) -> None:
        """The leadership has ended."""
        self._rounds.clear()
        self.total = 0
