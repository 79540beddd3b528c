"""How much is measured: full runs are kept, short ones show that a script works."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """How many runs of which length.

    Attributes:
        pairs: Runs of each contender, in turns.
        seconds: Measured window of each run.
        settle_seconds: Load before the window of each run: connections, batches and buffers reach their sizes.
        warm_up_seconds: Load on each cluster after its start; a JVM needs half a minute to compile what is hot.
        is_quick: Not to be kept.
    """

    pairs: int = 5
    seconds: float = 15.0
    settle_seconds: float = 3.0
    warm_up_seconds: float = 30.0
    is_quick: bool = False


QUICK = Plan(pairs=1, seconds=3.0, settle_seconds=1.0, warm_up_seconds=3.0, is_quick=True)
