"""The figures of docs/operations/capacity.md are those of benchmarks/results, and what follows from them is computed."""

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations" / "capacity.md").read_text()


def result(benchmark: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "benchmarks" / "results" / f"{benchmark}.json").read_text())["result"]
    return found


def measured(benchmark: str, what: str) -> tuple[float, str]:
    (row,) = [row for row in result(benchmark)["rows"] if row["what"] == what]
    return row["raftka"], row["unit"]


def rounded_like(value: float, shown: str) -> str:
    """Return the value with as many digits behind the point as are shown."""
    _, point, digits = shown.partition(".")
    return f"{value:,.{len(digits) if point else 0}f}"


def test_each_measured_figure_of_the_page_is_that_of_its_benchmark() -> None:
    table = PAGE.partition("## What was measured")[2].partition("## What follows")[0]
    rows = re.findall(r"^\| (.+?) \| ([\d.,]+) (.+?) \| (\w+) \|$", table, re.MULTILINE)
    assert len(rows) == table.count("\n| ") - 2
    for what, shown, unit, benchmark in rows:
        value, measured_unit = measured(benchmark, what)
        assert (shown, unit) == (rounded_like(value, shown), measured_unit), what


def test_the_memory_of_the_soak_is_that_of_its_largest_broker() -> None:
    soak = result("soak")
    largest = max(max(each) for each in soak["rss_megabytes"].values())
    said = " ".join(PAGE.split())
    assert f"had {largest:.0f} MB of resident memory" in said
    assert f"full load ({soak['megabytes_per_second']:.0f} MB/s)" in said


def test_what_follows_from_the_figures_is_what_they_give() -> None:
    def idle(partitions: str, what: str) -> float:
        return measured("footprint", f"worst of three idle brokers, {partitions} partitions: {what}")[0]

    memory = (idle("1,000", "resident memory") - idle("10", "resident memory")) / 990 * 1000
    cpu = (idle("1,000", "CPU of one core") - idle("10", "CPU of one core")) / 990
    assert f"{memory:.0f} KB of memory, {cpu:.3f} % of a core" in PAGE
    produce, _ = measured("produce", "produce 1 KiB, 1 partition, acks=all: CPU of the brokers")
    cached, _ = measured("consume", "consume 1 GB of 1 KiB records from the page cache: CPU of the brokers")
    fresh, _ = measured("consume", "consume 1 GB of 1 KiB records that were just written: CPU of the brokers")
    commits, _ = measured("groups", "commits of one offset, 50 clients with one on its way each")
    percent, _ = measured("groups", "commits of one offset, 50 clients with one on its way each: CPU of the brokers")
    for what, cores in (
        ("100 MB/s produced in large batches, acks=all, three replicas", f"{produce / 10:.1f}"),
        ("100 MB/s read from the page cache", f"{cached / 10:.2f}"),
        ("100 MB/s read as they were just written", f"{fresh / 10:.2f}"),
        ("1,000 offset commits per second", f"{percent / 100 / commits * 1000:.2f}"),
    ):
        assert f"| {what} | {cores} of a core |" in PAGE
