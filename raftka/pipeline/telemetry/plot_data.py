"""What of a partition's seconds is drawn: lines, spans and shades; no Spark and no drawing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from raftka.pipeline.errors import PipelineError

LEVELS = ("quorum_ack", "leader_ack")
PERCENTILES = ("p50", "p99")
# Of these states nobody can say that the partition was well.
SHADED = ("leaderless", "stalled", "silent")
# Of these it is proven that it served nobody.
UNAVAILABLE = ("leaderless", "stalled")
COMMIT = "commit"
# A picture is some thousand points wide.
SECONDS_MAX = 6 * 3600

T = TypeVar("T")


class Second(NamedTuple):
    """A row of the table of seconds, as far as it is drawn.

    Attributes:
        at: Seconds since 1970.
        lags: Records that a replica lacks, by broker; empty where the leader did not report.
        commit_lag: Records that are not committed yet.
        latency_us: By column, as quorum_ack_p99; only what was measured.
    """

    at: int
    state: str
    leader: int | None
    term: int | None
    lags: Mapping[int, int]
    commit_lag: int | None
    latency_us: Mapping[str, int]


class Span(NamedTuple):
    """Seconds from `begin` to before `end` in which something was the same."""

    name: str
    begin: int
    end: int


@dataclass(slots=True)
class PlotData:
    """A partition's picture.

    Attributes:
        title: Which partition it is.
        begin: The first second.
        end: Behind the last.
        lags: Points (second, records) of each broker by its id, and of `COMMIT`; None breaks the line.
        leaders: Who led, by spans with the broker's id for a name; and its term.
        latency_ms: Points of each level and percentile.
        shades: Spans in which the partition was in a state of `SHADED`.
    """

    title: str
    begin: int
    end: int
    lags: dict[str, list[tuple[int, int | None]]] = field(default_factory=dict)
    leaders: list[tuple[Span, int]] = field(default_factory=list)
    latency_ms: dict[str, list[tuple[int, float | None]]] = field(default_factory=dict)
    shades: list[Span] = field(default_factory=list)

    @property
    def brokers(self) -> list[str]:
        """Ids of all brokers that led or followed, in order."""
        found = {name for name in self.lags if name != COMMIT} | {span.name for span, _ in self.leaders}
        return sorted(found, key=int)


def span_of(title: str, times: Sequence[int]) -> tuple[int, int]:
    """Return the first of these seconds and the one behind the last; they are in order.

    Raises:
        PipelineError: There are none, or more than a picture can show.
    """
    if not times:
        raise PipelineError(f"there is nothing to draw of {title}")
    begin, end = times[0], times[-1] + 1
    if end - begin > SECONDS_MAX:
        raise PipelineError(
            f"{title} has {end - begin:,} seconds from its first to its last, and a picture shows {SECONDS_MAX:,}:"
            " choose them with --begin and --end"
        )
    return begin, end


def plot_data(title: str, rows: Iterable[Second]) -> PlotData:
    """Return what is drawn of a partition.

    Raises:
        PipelineError: There is nothing, or more than a picture can show.
    """
    seconds = sorted(rows, key=lambda second: second.at)
    begin, end = span_of(title, [second.at for second in seconds])
    data = PlotData(title, begin, end)
    for name in sorted({broker for second in seconds for broker in second.lags}):
        data.lags[str(name)] = _line(seconds, [second.lags.get(name) for second in seconds])
    data.lags[COMMIT] = _line(seconds, [second.commit_lag for second in seconds])
    for level in LEVELS:
        for percentile in PERCENTILES:
            column = f"{level}_{percentile}"
            points = _line(seconds, [_ms(second.latency_us.get(column)) for second in seconds])
            if any(value is not None for _, value in points):
                data.latency_ms[f"{level} {percentile}"] = points
    for span in _spans(seconds, lambda second: None if second.leader is None else f"{second.leader} {second.term}"):
        leader, _, term = span.name.partition(" ")
        data.leaders.append((span._replace(name=leader), int(term)))
    data.shades = _spans(seconds, lambda second: second.state if second.state in SHADED else None)
    return data


def _ms(microseconds: int | None) -> float | None:
    return None if microseconds is None else microseconds / 1_000


def _line(seconds: Sequence[Second], values: Sequence[T | None]) -> list[tuple[int, T | None]]:
    """Return a point for each second; a second that is not there breaks the line once.

    A second whose leader was not heard, and led all the same, has no point: the line goes on over it.
    """
    points: list[tuple[int, T | None]] = []
    before: int | None = None
    for second, value in zip(seconds, values, strict=True):
        if before is not None and before + 1 < second.at:
            points.append((before + 1, None))
        if second.leader is None or second.commit_lag is not None:
            points.append((second.at, value))
        before = second.at
    return points


def _spans(seconds: Sequence[Second], of: Callable[[Second], str | None]) -> list[Span]:
    """Return the longest spans of seconds that follow on each other and have the same name."""
    found: list[Span] = []
    for second in seconds:
        name = of(second)
        if name is None:
            continue
        if found and found[-1].name == name and found[-1].end == second.at:
            found[-1] = found[-1]._replace(end=second.at + 1)
        else:
            found.append(Span(name, second.at, second.at + 1))
    return found
