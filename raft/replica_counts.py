"""Counts what one replica does: into the figures of its node, and into its own interval where telemetry asks for it.

Every round and every answer passes here, so an answer allocates nothing: a place is found by level and kind, and the
loop time is the caller's.
"""

from collections.abc import Sequence

from model.ids import ConsistencyLevel
from raft.call_figures import CallFigures, appended_by_kind, count_appended
from raft.interval_figures import IntervalFigures
from storage.entry import Entry, EntryKind


class ReplicaCounts:
    """See the module; `interval` is None where nobody asks for it."""

    __slots__ = ("_figures", "interval")

    def __init__(self, figures: CallFigures, interval: IntervalFigures | None) -> None:
        self._figures = figures
        self.interval = interval

    def replicated(self, level: ConsistencyLevel, kind: EntryKind, seconds: float, now: float) -> None:
        """A call at a level of `COUNTED_LEVELS` has ended well at loop time `now`, after `seconds`."""
        self._figures.replicate[level][kind].observe(seconds, now)
        if self.interval is not None:
            self.interval.replicated(level, kind, seconds)

    def replicate_failed(self, level: ConsistencyLevel, kind: EntryKind) -> None:
        """A call has ended with an error, or was refused; at no_ack nobody counts it."""
        if level is ConsistencyLevel.NO_ACK:
            return
        self._figures.replicate_failures[level][kind] += 1
        if self.interval is not None:
            self.interval.replicate_failed(level, kind)

    def applied(self, kind: EntryKind, seconds: float, now: float) -> None:
        """Entries of one kind were applied at loop time `now`; it took `seconds`."""
        self._figures.apply[kind].observe(seconds, now)
        if self.interval is not None:
            self.interval.applied(kind, seconds)

    def apply_failed(self, kind: EntryKind) -> None:
        """Entries of one kind could not be applied."""
        self._figures.apply_failures[kind] += 1
        if self.interval is not None:
            self.interval.apply_failed(kind)

    def appended_as_leader(self, entries: Sequence[Entry]) -> None:
        """The leader has written a round."""
        appended = appended_by_kind(entries)
        count_appended(self._figures.appended_as_leader, appended)
        if self.interval is not None:
            self.interval.appended_as_leader(appended)

    def appended_as_follower(self, entries: Sequence[Entry]) -> None:
        """A follower has written what its leader has sent."""
        appended = appended_by_kind(entries)
        count_appended(self._figures.appended_as_follower, appended)
        if self.interval is not None:
            self.interval.appended_as_follower(appended)
