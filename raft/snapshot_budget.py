"""Bounds the bytes of the snapshots that the followers of one node are receiving, over all groups.

A follower collects a snapshot in memory before it installs it. Without a bound, a broker that was away for long would
collect the snapshots of all its groups at the same time. The budget is 64 MiB, as much as the largest snapshot may
have. A snapshot of more than 32 MiB counts as 32 MiB, so two of them may be on their way together. If a snapshot does
not fit, the follower answers BUSY, and the leader begins it again later.

A leader may die in the middle of a snapshot. If no chunk of a snapshot has arrived for 10 s, the follower drops it as
soon as another one needs room.
"""

from collections.abc import Callable

_IDLE_SECONDS = 10.0


class IncomingPlace:
    """A snapshot's place in the budget; `give_up` forgets what has arrived of it."""

    __slots__ = ("give_up", "units", "used_at")

    def __init__(self, units: int, used_at: float, give_up: Callable[[], None]) -> None:
        self.units = units
        self.used_at = used_at
        self.give_up = give_up


class SnapshotBudget:
    """One per node. Times are loop times in seconds.

    Attributes:
        limit: Bytes that all incoming snapshots may count together.
        taken: Bytes that the snapshots under way count.
        refused: Snapshots that were answered BUSY because there was no room.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self.refused = 0
        self._places: dict[IncomingPlace, None] = {}

    def try_begin(self, size: int, now: float, give_up: Callable[[], None]) -> IncomingPlace | None:
        """Return a place for a snapshot of `size` bytes, None if there is no room now; `end` gives it back.

        A snapshot of more than half of the limit counts as half: small ones that come and go must not keep it out.
        """
        units = min(size, max(self.limit // 2, 1))
        self._forget_idle(now)
        if self.taken + units > self.limit:
            self.refused += 1
            return None
        place = IncomingPlace(units, now, give_up)
        self._places[place] = None
        self.taken += units
        return place

    def end(self, place: IncomingPlace) -> None:
        """The snapshot is installed or given up. Idempotent."""
        if place in self._places:
            del self._places[place]
            self.taken -= place.units
        assert 0 <= self.taken <= self.limit

    def _forget_idle(self, now: float) -> None:
        for place in [each for each in self._places if now - each.used_at >= _IDLE_SECONDS]:
            self.end(place)
            place.give_up()
