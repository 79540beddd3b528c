"""Writers at a steady rate while followers come and go, and what reaches one of them."""

from collections.abc import Sequence
from itertools import cycle

from tests.simulation.scenarios.scenario import LEADER, NO_ACK, QUORUM, Scenario

_WRITES_PER_SECOND = 250


class SteadyLoad:
    """Writes of mixed levels at a steady rate, also while a step of the story is waited for.

    Args:
        burst: So many come at once, and then none for as long as they take at that rate.
    """

    def __init__(
        self, story: Scenario, leader: int, *, writes_per_second: int = _WRITES_PER_SECOND, burst: int = 1
    ) -> None:
        self._story = story
        self._burst = burst
        self._rate = writes_per_second
        self._leader = leader
        self._levels = cycle([QUORUM, LEADER, LEADER, NO_ACK])

    def run(self, seconds: float) -> None:
        for _ in range(max(1, int(seconds * self._rate / self._burst))):
            for _ in range(self._burst):
                self._story.write(self._leader, next(self._levels), size=200)
            self._story.run_for(self._burst / self._rate)


def runs_that_reach(story: Scenario, follower: int) -> list[tuple[int, int]]:
    """Return (first, last) of every append with entries that reaches a follower from now on, in order."""
    runs: list[tuple[int, int]] = []
    buffer = story.replica(follower)._buffer
    submit = buffer.submit

    def recorded(leader, request, entries: Sequence):
        if entries:
            runs.append((entries[0].index, entries[-1].index))
        return submit(leader, request, entries)

    buffer.submit = recorded
    return runs
