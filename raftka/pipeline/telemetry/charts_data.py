"""What of a topic's, a broker's or the cluster's replication is drawn: panels of lines; no Spark and no drawing.

The panels are what Rama shows of its replication: rows R41 to R46 of the seeds, and R9, the kinds of entries.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from raftka.pipeline.telemetry.plot_data import PERCENTILES, span_of

# Statistics of logs, by the ends of their columns' names, with the names of their panels.
LOGS = {"entries": "log entries", "unapplied": "entries not applied"}
ROLES = {"leader": "leaders", "follower": "followers in sync"}
LOG_COLUMNS = tuple(f"{role}_{stat}_{end}" for stat in LOGS for role in ROLES for end in ("avg", "max"))


class WantedScope(NamedTuple):
    """Whose replication is drawn, from when until when: of a topic, or of a broker, or neither: of the cluster."""

    topic: str | None = None
    broker: int | None = None
    begin: float | None = None
    end: float | None = None

    @property
    def scope(self) -> str:
        """The scope of the table's rows."""
        if self.topic is not None:
            return "topic"
        return "cluster" if self.broker is None else "broker"

    @property
    def title(self) -> str:
        """What people call it."""
        if self.topic is not None:
            return f"topic {self.topic}"
        return "the cluster" if self.broker is None else f"broker {self.broker}"


class Measured(NamedTuple):
    """Calls or applies of one second; durations only where one ended well."""

    name: str
    n: int
    failed: int
    p50_us: int | None
    p99_us: int | None


class ReplicationSecond(NamedTuple):
    """A row of the table of replication, as far as it is drawn.

    Attributes:
        at: Seconds since 1970.
        logs: By `LOG_COLUMNS`; None where no replica has said it.
        written: Entries by role and kind, as `leader data`.
        calls: By level and kind, as `quorum_ack data`.
        applies: By kind.
        min_in_sync: The largest min.insync.replicas of partitions with several replicas; None: the scope has none.
        in_sync_min: The smallest set in sync of these.
        out_of_sync_max: The most replicas that one of these lacks in it; 0: all are in sync.
    """

    at: int
    logs: Mapping[str, float | None]
    written: Mapping[str, int]
    calls: Sequence[Measured]
    applies: Sequence[Measured]
    min_in_sync: int | None
    in_sync_min: int | None
    out_of_sync_max: int | None


Points = list[tuple[int, float | None]]


@dataclass(slots=True)
class Panel:
    """One chart.

    Attributes:
        rows: Which rows of the seeds it is.
        label: What its axis says.
        lines: Points (second, value) by name; None breaks the line.
        is_duration: Its axis is logarithmic.
        empty: What is written where there is no line.
    """

    rows: str
    label: str
    lines: dict[str, Points]
    is_duration: bool = False
    empty: str = "nothing"


@dataclass(slots=True)
class Charts:
    """All panels of one scope; `end` is the second behind the last."""

    title: str
    begin: int
    end: int
    panels: list[Panel]


def charts_data(title: str, rows: Iterable[ReplicationSecond]) -> Charts:
    """Return what is drawn of a scope.

    Raises:
        PipelineError: There is nothing, or more than a picture can show.
    """
    seconds = sorted(rows, key=lambda second: second.at)
    begin, end = span_of(title, [second.at for second in seconds])
    panels = [_logs(seconds, stat, label) for stat, label in LOGS.items()]
    panels += [
        Panel("R9", "entries written a second", _counts(seconds, lambda second: second.written)),
        Panel("R42", "replicate, ms", _durations(seconds, lambda second: second.calls), is_duration=True),
        Panel("R43", "calls a second", _counts(seconds, lambda second: {each.name: each.n for each in second.calls})),
        Panel("R44", "failures a second", _counts(seconds, _failures), empty="no failures"),
        Panel("R45", "apply, ms", _durations(seconds, lambda second: second.applies), is_duration=True),
        Panel("R46", "replicas in sync", _in_sync(seconds), empty="no partition with several replicas"),
    ]
    return Charts(title, begin, end, panels)


def _logs(seconds: Sequence[ReplicationSecond], stat: str, label: str) -> Panel:
    lines = {
        f"{name}, {end}": _line(seconds, [second.logs.get(f"{role}_{stat}_{end}") for second in seconds])
        for role, name in ROLES.items()
        for end in ("avg", "max")
    }
    return Panel("R41", label, _known(lines))


def _in_sync(seconds: Sequence[ReplicationSecond]) -> dict[str, Points]:
    return _known(
        {
            "smallest set": _line(seconds, [second.in_sync_min for second in seconds]),
            "min.insync.replicas": _line(seconds, [second.min_in_sync for second in seconds]),
            # Sets of different sizes may all be whole, and this line is 0 then.
            "most out of sync": _line(seconds, [second.out_of_sync_max for second in seconds]),
        }
    )


def _failures(second: ReplicationSecond) -> dict[str, int]:
    failed = {each.name: each.failed for each in second.calls}
    failed |= {f"apply {each.name}": each.failed for each in second.applies}
    return {name: count for name, count in failed.items() if count}


def _counts(
    seconds: Sequence[ReplicationSecond], of: Callable[[ReplicationSecond], Mapping[str, int]]
) -> dict[str, Points]:
    """Return a line for each name that ever counts; in a second that does not have it the count is 0."""
    counts = [of(second) for second in seconds]
    names = sorted({name for each in counts for name, count in each.items() if count})
    return {name: _line(seconds, [each.get(name, 0) for each in counts]) for name in names}


def _durations(
    seconds: Sequence[ReplicationSecond], of: Callable[[ReplicationSecond], Sequence[Measured]]
) -> dict[str, Points]:
    """Return a line for each name and percentile; a second in which nothing ended well has no value."""
    lines: dict[str, Points] = {}
    by_name = [{each.name: each for each in of(second)} for second in seconds]
    for name in sorted({name for each in by_name for name in each}):
        for percentile in PERCENTILES:
            values = [getattr(each.get(name), f"{percentile}_us", None) for each in by_name]
            lines[f"{name} {percentile}"] = _line(seconds, [None if us is None else us / 1_000 for us in values])
    return _known(lines)


def _line(seconds: Sequence[ReplicationSecond], values: Sequence[float | None]) -> Points:
    """Return a point for each second; seconds that are not there break the line once."""
    points: Points = []
    for second, value in zip(seconds, values, strict=True):
        if points and points[-1][0] + 1 < second.at:
            points.append((points[-1][0] + 1, None))
        points.append((second.at, value))
    return points


def _known(lines: dict[str, Points]) -> dict[str, Points]:
    return {name: points for name, points in lines.items() if any(value is not None for _, value in points)}
