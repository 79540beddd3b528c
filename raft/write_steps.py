"""Which steps of writes are under way, and when each began. `leader_watch` and `write_probe` look for steps that hang.

append    bytes are written to the log's files: a leader's round, a follower's append or truncation, an install
fsync     these bytes are made durable
kvstore   a term, a vote or a marker is made durable; all replicas of a node share these syncs (`node_stalls`)

RFC 0003 section 7 says what follows when a step hangs.
"""

import asyncio
import contextlib
from enum import StrEnum
from typing import NamedTuple


class Step(StrEnum):
    """A step of a write; the value is how log lines call it. A string, because a plain Enum hashes in Python."""

    APPEND = "append"
    FSYNC = "fsync"
    KVSTORE = "kvstore sync"


class Stall(NamedTuple):
    """A step that has been under way for too long, since the loop time `since`."""

    step: Step
    since: float

    def __str__(self) -> str:
        return f"{self.step.value} hangs"


class _UnderWay(contextlib.AbstractContextManager[None]):
    # Not a generator: each round and each fsync enters one, and a generator takes twice as long.
    __slots__ = ("_begun",)

    def __init__(self, begun: dict[object, float]) -> None:
        self._begun = begun

    def __enter__(self) -> None:
        self._begun[self] = asyncio.get_running_loop().time()

    def __exit__(self, *_: object) -> None:
        del self._begun[self]


class WriteSteps:
    """The steps of one replica, or of the probe of a node."""

    def __init__(self) -> None:
        # Loop times at which those under way began, oldest first.
        self._begun: dict[Step, dict[object, float]] = {step: {} for step in Step}

    def under_way(self, step: Step) -> contextlib.AbstractContextManager[None]:
        """Return what to enter for as long as the step is under way; once only."""
        return _UnderWay(self._begun[step])

    def since(self, step: Step) -> float | None:
        """Return when the oldest one of a kind that has not ended began; None: none is under way."""
        return next(iter(self._begun[step].values()), None)

    def stall(self, step: Step, oldest: float) -> Stall | None:
        """Return the step if it is under way since before the loop time `oldest`."""
        since = self.since(step)
        return None if since is None or since > oldest else Stall(step, since)

    def stalls(self, oldest: float) -> list[Stall]:
        """Return every kind of step that is under way since before `oldest`."""
        return [stall for step in Step if (stall := self.stall(step, oldest)) is not None]
