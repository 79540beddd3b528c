"""Rows as lines of Prometheus' text format or of OpenMetrics.

prometheus-client writes each series once: it knows the names, the labels and their quoting. What stands before the
value is kept, and the next scrape adds the value only, which takes a fraction of the time. What a scrape did not use is
dropped at its end, so no series of a deleted topic stays.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from itertools import accumulate
from typing import Any, NamedTuple

from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.utils import floatToGoString

from model.fixed_histogram import BOUNDS, FixedHistogram
from raftka.broker.metric_rows import Row
from raftka.monitoring.catalogue import BY_NAME, Kind

_END_OF_OPEN_METRICS = "# EOF\n"
_BUCKETS = (*(repr(bound) for bound in BOUNDS), "+Inf")
HISTOGRAM_SAMPLES = len(_BUCKETS) + 2


class Format(Enum):
    """How samples are written; the value is the Content-Type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


_value: Callable[[float], str] = floatToGoString
_GENERATE: dict[Format, Any] = {Format.TEXT: generate_latest, Format.OPEN_METRICS: generate_openmetrics}


class _Series(NamedTuple):
    """What is the same in every scrape: the lines above its family, and of each sample what comes before the value."""

    head: str
    starts: tuple[str, ...]


class Exposition:
    """One path's series in one format, from scrape to scrape.

    Attributes:
        end: The last line of an answer.
    """

    def __init__(self, wanted: Format) -> None:
        self.end = _END_OF_OPEN_METRICS if wanted is Format.OPEN_METRICS else ""
        self._generate = _GENERATE[wanted]
        self._known: dict[tuple[str, tuple[str, ...]], _Series] = {}

    def scrape(self) -> "ScrapeLines":
        """Begin a scrape; only one at a time."""
        known, self._known = self._known, {}
        return ScrapeLines(self._generate, known, self._known)


class ScrapeLines:
    """The lines of one scrape; rows of a family follow one another."""

    def __init__(
        self,
        generate: Any,
        known: dict[tuple[str, tuple[str, ...]], _Series],
        used: dict[tuple[str, tuple[str, ...]], _Series],
    ) -> None:
        self._generate = generate
        self._known = known
        self._used = used
        self._family = ""

    def encode(self, rows: Iterable[Row]) -> str:
        """Return the lines of these rows, with the head of each family that begins here."""
        lines: list[str] = []
        for row in rows:
            key = (row.name, row.labels)
            series = self._known.get(key) or self._series(row)
            self._used[key] = series
            if row.name != self._family:
                self._family = row.name
                lines.append(series.head)
            if isinstance(row.value, FixedHistogram):
                for start, value in zip(series.starts, _values(row.value), strict=True):
                    lines.append(f"{start}{_value(value)}\n")
            else:
                lines.append(f"{series.starts[0]}{_value(row.value)}\n")
        return "".join(lines)

    def _series(self, row: Row) -> _Series:
        text = self._generate(_OneFamily(_metric(row))).decode().removesuffix(_END_OF_OPEN_METRICS)
        heads, starts = [], []
        # Only "\n" ends a line: a label may have any other character that Python takes for the end of one.
        for line in text.removesuffix("\n").split("\n"):
            if line.startswith("#"):
                heads.append(f"{line}\n")
            else:
                start, space, _ = line.rpartition(" ")
                starts.append(start + space)
        return _Series("".join(heads), tuple(starts))


def _values(histogram: FixedHistogram) -> Iterator[float]:
    """Return what the samples of a histogram say, in the order of `_metric`."""
    count = 0
    for count in accumulate(histogram.counts):
        yield count
    yield histogram.sum
    yield count


def _metric(row: Row) -> Metric:
    family = BY_NAME[row.name]
    # prometheus-client knows a counter by its name without the suffix.
    known_as = row.name.removesuffix("_total") if family.kind is Kind.COUNTER else row.name
    metric = Metric(known_as, family.help, family.kind.value)
    labels = dict(zip(family.labels, row.labels, strict=True))
    if isinstance(row.value, FixedHistogram):
        for bound in _BUCKETS:
            metric.add_sample(f"{row.name}_bucket", {**labels, "le": bound}, 0)
        metric.add_sample(f"{row.name}_sum", labels, 0)
        metric.add_sample(f"{row.name}_count", labels, 0)
    else:
        metric.add_sample(row.name, labels, 0)
    return metric


class _OneFamily:
    """As much of a registry as prometheus-client reads."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric
