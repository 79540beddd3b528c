"""The table of README's "How fast": a choice of the rows of benchmarks/results, with the same figures as their table.

`python -m benchmarks.table` (`make bench-table`) writes it, between its markers.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.figures import FigureError, line, number

BEGIN = "<!-- figures of benchmarks/results, written by `make bench-table`: begin -->"
END = "<!-- figures of benchmarks/results: end -->"
_HEADER = ["", "Raftka", "Apache Kafka 4.3 in the same run"]


class Shown(NamedTuple):
    """One line of the table.

    Attributes:
        label: What the reader sees in the first column.
        rows: The `what` of one or more rows of the results; a pattern ends with `*` and stands for a range of values.
        words: A form of the cell, one `{}` for each of the rows; empty: the values, with `, ` between them.
        peer_note: Follows the values of Kafka.
    """

    label: str
    rows: tuple[str, ...]
    words: str = ""
    peer_note: str = ""


_FAILOVER = "to the first new record acknowledged"
_IDLE = "worst of three idle brokers"
SHOWN = (
    Shown(
        "produce 1 KiB, 1 partition, acks=all (Raftka on two disks, Kafka in page caches)",
        ("produce 1 KiB, 1 partition, acks=all",),
    ),
    Shown("produce 1 KiB, 1 partition, acks=1", ("produce 1 KiB, 1 partition, acks=1",)),
    Shown("produce 100 B, 1 partition, acks=all", ("produce 100 B, 1 partition, acks=all",)),
    Shown("CPU of the three brokers, eight ways to produce", (r"produce .*: CPU of the brokers*",)),
    Shown(
        "Kafka's ProducerPerformance, batches of 16 KiB: acks=all, acks=1",
        (
            "ProducerPerformance, 1 KiB, 1 partition, its defaults (acks=all)",
            "ProducerPerformance, 1 KiB, 1 partition, its defaults, acks=1",
        ),
    ),
    Shown(
        "one record in flight, acknowledged when it is on disk, median",
        ("1 KiB, one in flight, acks=all: p50 of raftka",),
        peer_note=" (`flush.messages=1`)",
    ),
    Shown(
        "the same, acknowledged when it is in page caches (`write.caching`)",
        ("1 KiB, one in flight, acks=all: p50 of raftka, write.caching",),
    ),
    Shown(
        "1,000 records/s, acks=all: median, 99th percentile",
        ("1,000/s of 1 KiB without linger, acks=all: p50", "1,000/s of 1 KiB without linger, acks=all: p99"),
    ),
    Shown(
        "consume from the page cache, from the disk",
        ("consume 1 GB of 1 KiB records from the page cache", "consume 1 GB of 1 KiB records with dropped caches"),
    ),
    Shown(
        "consume records that were just written, from the beginning",
        ("consume 1 GB of 1 KiB records that were just written",),
    ),
    Shown(
        "`raftka dev` to the first record acknowledged at acks=all, median",
        ("`raftka dev`, three brokers: exec to the first record acknowledged at acks=all, median of 10",),
    ),
    Shown(
        "leader killed, to the next record acknowledged",
        (f"failover after SIGKILL: {_FAILOVER}, median of 20", f"failover after SIGKILL: {_FAILOVER}, worst of 20"),
        "{} median, {} worst of 20",
    ),
    Shown(
        "leader frozen or cut off, to the next record acknowledged, median",
        (f"failover after SIGSTOP: {_FAILOVER}, median of 20", f"failover after cut links: {_FAILOVER}, median of 20"),
    ),
    Shown(
        "the largest idle broker, 10 partitions",
        (f"{_IDLE}, 10 partitions: resident memory", f"{_IDLE}, 10 partitions: CPU of one core"),
        "{}, {} of a core",
    ),
    Shown(
        "the largest idle broker, 1,000 partitions",
        (f"{_IDLE}, 1,000 partitions: resident memory", f"{_IDLE}, 1,000 partitions: CPU of one core"),
        "{}, {} of a core",
    ),
)


def render(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return the table.

    Raises:
        FigureError: A row that README shows is in no result, or has no value.
    """
    rows = {found["what"]: found for document in documents for found in document["result"]["rows"]}
    lines = [line(_HEADER), line(["---"] * len(_HEADER))]
    for shown in SHOWN:
        own = _cell(shown, rows, "raftka")
        lines.append(line([shown.label, own, _peer_cell(shown, rows)]))
    return "\n".join(lines)


def _peer_cell(shown: Shown, rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return Kafka's values; empty if one of the rows was measured without it."""
    found = [each for pattern in shown.rows for each in _rows(pattern, rows)]
    if not all("peer" in each for each in found):
        return ""
    return _cell(shown, rows, "peer") + shown.peer_note


def _cell(shown: Shown, rows: Mapping[str, Mapping[str, Any]], side: str) -> str:
    values = [_value(_rows(pattern, rows), side) for pattern in shown.rows]
    return shown.words.format(*values) if shown.words else ", ".join(values)


def _rows(pattern: str, rows: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    is_wanted: Callable[[str], Any] = pattern.__eq__
    if pattern.endswith("*"):
        is_wanted = re.compile(pattern[:-1]).fullmatch
    found = [row for what, row in rows.items() if is_wanted(what)]
    if not found or any(row["raftka"] is None for row in found):
        raise FigureError(f"README shows {pattern!r}, of which there is no value in the results")
    return found


def _value(found: Sequence[Mapping[str, Any]], side: str) -> str:
    """Return the value of one row, or the smallest and the largest of several."""
    values, unit = sorted(each[side] for each in found), found[0]["unit"]
    if len(values) == 1:
        return number(values[0], unit)
    return f"{number(values[0], '')} to {number(values[-1], unit)}"
