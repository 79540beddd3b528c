"""What one batch came to, out of the JSON in which Spark reports it."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

_MS = 1_000


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """One batch.

    Attributes:
        query: Name of the query, which is the pipeline's.
        batch: Its number; a batch that is repeated keeps it.
        timestamp: When it started, ISO 8601.
        rows: Records read.
        seconds: How long all of it took.
        phases: Milliseconds by Spark's name of what took them.
        behind: Offsets between where the batch ends and where the topics ended when it was planned.
        state_rows: Rows that stateful operators hold.
        watermark: ISO 8601; None where the query has none.
        end: Where the batch ends, by topic and partition.
        late: Rows that a stateful operator left out because they came behind the watermark.
        observed: What the query itself has counted in the batch (`DataFrame.observe`), by name.
    """

    query: str
    batch: int
    timestamp: str
    rows: int
    seconds: float
    phases: dict[str, int]
    behind: int
    state_rows: int
    watermark: str | None
    end: dict[str, dict[str, int]]
    late: int = 0
    observed: dict[str, int] = {}

    @property
    def rows_per_second(self) -> float:
        """Records read per second of the batch."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0


def parse_progress(text: str) -> Progress:
    """Return what Spark's JSON of a batch says.

    Raises:
        ValueError: It is no such JSON.
    """
    found = json.loads(text)
    try:
        end: dict[str, dict[str, int]] = {}
        behind = 0
        for source in found.get("sources", []):
            read, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
            behind += _distance(read, latest)
            for topic, partitions in read.items():
                end.setdefault(topic, {}).update(partitions)
        phases = {name: int(value) for name, value in found.get("durationMs", {}).items()}
        return Progress(
            query=found.get("name") or "",
            batch=int(found["batchId"]),
            timestamp=found["timestamp"],
            rows=int(found["numInputRows"]),
            seconds=phases.get("triggerExecution", int(found.get("batchDuration", 0))) / _MS,
            phases=phases,
            behind=behind,
            state_rows=_sum(found, "numRowsTotal"),
            watermark=found.get("eventTime", {}).get("watermark"),
            end=end,
            late=_sum(found, "numRowsDroppedByWatermark"),
            observed={
                name: int(value)
                for counts in found.get("observedMetrics", {}).values()
                for name, value in counts.items()
                if isinstance(value, int)
            },
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a progress report of a query: {error!r}") from None


def _sum(found: Mapping[str, Any], key: str) -> int:
    return sum(int(each.get(key, 0)) for each in found.get("stateOperators", []))


def _offsets(value: Any) -> dict[str, dict[str, int]]:
    """Return offsets by topic and partition; a source that is no Kafka has none."""
    if isinstance(value, str):
        value = json.loads(value)
    if not isinstance(value, Mapping):
        return {}
    return {
        topic: {partition: int(offset) for partition, offset in partitions.items()}
        for topic, partitions in value.items()
        if isinstance(partitions, Mapping)
    }


def _distance(read: Mapping[str, Mapping[str, int]], latest: Mapping[str, Mapping[str, int]]) -> int:
    return sum(
        max(0, offset - read.get(topic, {}).get(partition, 0))
        for topic, partitions in latest.items()
        for partition, offset in partitions.items()
    )


def render_progress(progress: Progress) -> str:
    """Return a line for the terminal."""
    line = f"batch {progress.batch}: {progress.rows:,} records in {progress.seconds:.1f} s"
    if progress.rows:
        line += f" ({progress.rows_per_second:,.0f}/s)"
    line += f", {progress.behind:,} behind"
    if progress.state_rows:
        line += f", {progress.state_rows:,} rows of state"
    if progress.late:
        line += f", {progress.late:,} too late"
    for name, count in progress.observed.items():
        if count:
            line += f", {count:,} {name.replace('_', ' ')}"
    if progress.watermark is not None:
        line += f", watermark {progress.watermark}"
    return line
