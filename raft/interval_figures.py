"""Durations of one replica's calls and fsyncs since the last telemetry record (`RaftOptions.keeps_figures`)."""

from typing import NamedTuple

from model.duration_histogram import DurationHistogram, Durations
from model.ids import ConsistencyLevel


class TakenFigures(NamedTuple):
    """One interval.

    Attributes:
        since: Loop time at which it began.
        quorum_ack, leader_ack: How long replicate calls of producers took that ended well here, from the call to the
            answer: waiting for memory and for others is in it. None: there were none.
        fsync: How long fsyncs of the log took on the disk.
        recovery_bytes: Bytes sent to followers that were behind.
    """

    since: float
    quorum_ack: Durations | None
    leader_ack: Durations | None
    fsync: Durations | None
    recovery_bytes: int


class IntervalFigures:
    """One replica's."""

    __slots__ = ("_since", "fsync", "leader_ack", "quorum_ack", "recovery_bytes")

    def __init__(self, now: float) -> None:
        self._since = now
        self.quorum_ack = DurationHistogram()
        self.leader_ack = DurationHistogram()
        self.fsync = DurationHistogram()
        self.recovery_bytes = 0

    def of_level(self, level: ConsistencyLevel) -> DurationHistogram | None:
        """Return where calls of a level are counted; nobody waits for one at no_ack."""
        match level:
            case ConsistencyLevel.QUORUM_ACK:
                return self.quorum_ack
            case ConsistencyLevel.LEADER_ACK:
                return self.leader_ack
            case ConsistencyLevel.NO_ACK:
                return None

    def take(self, now: float) -> TakenFigures:
        """Return the interval that ends at loop time `now`, and begin the next one."""
        taken = TakenFigures(
            self._since, self.quorum_ack.take(), self.leader_ack.take(), self.fsync.take(), self.recovery_bytes
        )
        self._since, self.recovery_bytes = now, 0
        return taken

    def put_back(self, taken: TakenFigures) -> None:
        """The interval has reached nobody: the one under way begins where it began, or where an earlier one did."""
        self._since = min(self._since, taken.since)
        self.quorum_ack.put_back(taken.quorum_ack)
        self.leader_ack.put_back(taken.leader_ack)
        self.fsync.put_back(taken.fsync)
        self.recovery_bytes += taken.recovery_bytes
