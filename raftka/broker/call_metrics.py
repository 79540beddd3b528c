"""What is measured of replication and of state machines, by kind of entry, over all groups of the node."""

from raft.call_figures import CallFigures
from raftka.broker.metric_rows import Row, Rows


class CallCollector:
    """Reads the figures of one node."""

    def __init__(self, figures: CallFigures) -> None:
        self._figures = figures

    def rows(self, now: float) -> Rows:
        """Yield the rows of calls, then of appended entries, then of applies."""
        figures = self._figures
        calls = [
            ((level.name.lower(), kind.name.lower()), histogram, figures.replicate_failures[level][kind])
            for level, by_kind in figures.replicate.items()
            for kind, histogram in by_kind.items()
        ]
        for labels, histogram, _ in calls:
            yield Row("raftka_replicate_seconds", histogram, labels)
        for labels, histogram, _ in calls:
            yield Row("raftka_replicate_max_seconds", histogram.longest(now), labels)
        for labels, _, failures in calls:
            yield Row("raftka_replicate_failures_total", failures, labels)
        appended = [
            ((role, kind.name.lower()), written)
            for role, by_kind in (("leader", figures.appended_as_leader), ("follower", figures.appended_as_follower))
            for kind, written in by_kind.items()
        ]
        for labels, written in appended:
            yield Row("raftka_appended_entries_total", written.entries, labels)
        for labels, written in appended:
            yield Row("raftka_appended_bytes_total", written.bytes, labels)
        for kind, histogram in figures.apply.items():
            yield Row("raftka_apply_seconds", histogram, (kind.name.lower(),))
        for kind, histogram in figures.apply.items():
            yield Row("raftka_apply_max_seconds", histogram.longest(now), (kind.name.lower(),))
        for kind, failures in figures.apply_failures.items():
            yield Row("raftka_apply_failures_total", failures, (kind.name.lower(),))
