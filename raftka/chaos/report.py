"""One page that shows a run: the verdict on top, then everything along one time axis. It needs no other file."""

import html
import json
import math
from collections import defaultdict
from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path
from typing import Any

from raftka.chaos.charts import Chart, Interval, TimeAxis, legend
from raftka.chaos.history import History
from raftka.chaos.leadership import Reign
from raftka.chaos.run_facts import Judgement

_STYLE = Path(__file__).with_name("report.css")
# Kinds that have no end of their own.
_INSTANT = {"bit-flip", "transferred", "restarted", "no room to start", "ended by itself"}
# The colour and the word of each.
_OUTCOMES = {"valid": ("good", "Valid"), "anomalies": ("bad", "Anomalies"), "invalid": ("unknown", "Proves nothing")}
_PERCENTILES = (("p50", 50.0), ("p99", 99.0), ("max", 100.0))
# Latencies are drawn on a logarithmic axis that begins here.
_LEAST_MS = 0.1


def write_report(path: Path, judgement: Judgement, history: History, reigns: list[Reign], load_ended_ns: int) -> None:
    """Write the page."""
    seconds = max(1.0, (load_ended_ns - history.began_ns) / 1e9)
    intervals = _intervals(history)
    axis = TimeAxis(seconds, _union(each for row in intervals.values() for each in row))
    brokers = judgement.summary["brokers"] or 0
    sections = [
        ("Faults", "what was done to which broker; shaded below", _faults(axis, intervals, brokers)),
        ("Leaders", "of each partition; a number is the epoch that began", _leaders(axis, history, reigns)),
        ("Acknowledged", "operations per second", _rates(axis, history)),
        ("Positions", "high watermark of each partition, and what was acknowledged in all", _positions(axis, history)),
        (
            "Latency",
            "of acknowledged operations, in milliseconds, by the second they ended in",
            _latency(axis, history),
        ),
    ]
    figures = "\n".join(
        f"<section><h2>{title} <small>{words}</small></h2>{drawn}</section>"
        for title, words, drawn in sections
        if drawn
    )
    path.write_text(
        "<!DOCTYPE html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{_outcome(judgement)[1]} - raftka chaos</title>\n'
        f"<style>\n{_STYLE.read_text()}</style></head>\n<body>\n{_head(judgement)}\n{figures}\n{_foot(judgement)}\n"
        "</body></html>\n"
    )


def _outcome(judgement: Judgement) -> tuple[str, str]:
    return _OUTCOMES[judgement.outcome]


def _head(judgement: Judgement) -> str:
    summary = judgement.summary
    colour, word = _outcome(judgement)
    latency = [f"{summary['latency_ms'].get(name, math.nan):,.0f}" for name in ("p50", "p99", "max")]
    tiles = [
        ("acknowledged", f"{summary['acked']:,}"),
        ("per second", f"{summary['acked_per_second']:,.0f}"),
        ("faults", f"{sum(summary['faults'].values()):,}"),
        ("longest outage of a partition", f"{summary['outages']['longest_seconds']:g} s"),
        ("p50 / p99 / max", f"{' / '.join(latency)} ms"),
    ]
    if judgement.losses is not None:
        losses = judgement.losses
        tiles.append(("lost at acks=1 / truncated", f"{losses.lost:,} / {losses.cut:,}"))
    drawn = "".join(f"<div><b>{value}</b><span>{name}</span></div>" for name, value in tiles)
    what = f"{summary['workload']}, acks={summary['acks']}, nemesis {', '.join(summary['nemeses']) or 'none'}"
    text = html.escape("\n".join(judgement.lines))
    return (
        f'<header class="{colour}"><h1>{word}</h1><p>{html.escape(what)}, {summary["seconds"]:g} s,'
        f' seed {summary["seed"]}</p></header>\n<div class="tiles">{drawn}</div>\n'
        f"<details{' open' if colour != 'good' else ''}><summary>The verdict in full</summary>"
        f"<pre>{text}</pre></details>"
    )


def _foot(judgement: Judgement) -> str:
    summary = judgement.summary
    machine = summary["machine"]
    text = html.escape(json.dumps(summary, indent=2, ensure_ascii=False))
    return (
        f"<details><summary>The summary in full</summary><pre>{text}</pre></details>\n"
        f"<footer><code>{html.escape(summary['command'])}</code><br>commit {html.escape(str(summary['commit']))},"
        f" {machine['cores']} cores, {machine['memory_gib']:g} GiB, Linux {machine['kernel']}, Python"
        f" {machine['python']}</footer>"
    )


def _intervals(history: History) -> dict[int, list[Interval]]:
    """Return what was done to each broker."""
    intervals: dict[int, list[Interval]] = defaultdict(list)
    under_way: dict[tuple[int, str], float] = {}
    for fault in history.faults:
        at, name = _seconds(history, fault["inv"]), str(fault["name"])
        for node, kind in [key for key in under_way if name in (f"{key[1]} ends", "healed")]:
            intervals[node].append(Interval(under_way.pop((node, kind)), at, kind, kind, kind))
        if name.endswith(" ends") or name == "healed":
            continue
        for node in fault.get("nodes", []):
            if name in _INSTANT:
                intervals[node].append(Interval(at, at, name, f"{name}: {_told(fault)}"))
            else:
                under_way[node, name] = at
    return intervals


def _union(intervals: Iterable[Interval]) -> tuple[tuple[float, float], ...]:
    """Return the spans in which anything lasts."""
    spans: list[tuple[float, float]] = []
    for each in sorted(intervals, key=lambda each: each.begin):
        if spans and each.begin <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], each.end)
        elif each.end > each.begin:
            spans.append((each.begin, each.end))
    return tuple(spans)


def _faults(axis: TimeAxis, intervals: dict[int, list[Interval]], brokers: int) -> str:
    """A row per broker."""
    if not intervals:
        return ""
    chart = Chart(axis)
    kinds = sorted({each.kind for row in intervals.values() for each in row})
    for node in range(1, brokers + 1):
        # Those that lasted first: an instant on top of them stays visible.
        row = sorted(intervals.get(node, []), key=lambda each: each.begin - each.end)
        chart.row(f"broker {node}", row, kinds)
    return chart.render() + legend(kinds)


def _told(fault: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in fault.items() if name not in ("f", "inv", "name"))


def _leaders(axis: TimeAxis, history: History, reigns: list[Reign]) -> str:
    """A row per partition, coloured by leader."""
    by_partition: dict[str, list[Reign]] = defaultdict(list)
    for reign in reigns:
        by_partition[reign.tp].append(reign)
    if not by_partition:
        return ""
    chart = Chart(axis)
    kinds = [f"broker {node}" for node in sorted({reign.leader for reign in reigns})]
    for tp, several in sorted(by_partition.items()):
        ends = [each.since_ns for each in several[1:]]
        rows = [
            Interval(
                _seconds(history, reign.since_ns),
                axis.seconds if end is None else _seconds(history, end),
                f"broker {reign.leader}",
                f"{tp}: broker {reign.leader} leads in epoch {reign.epoch}",
                str(reign.epoch),
            )
            for reign, end in zip(several, [*ends, None], strict=True)
        ]
        chart.row(tp, rows, kinds)
    return chart.render() + legend(kinds)


def _rates(axis: TimeAxis, history: History) -> str:
    chart = Chart(axis)
    acked = [history.seconds[at].acked if at in history.seconds else 0 for at in range(math.ceil(axis.seconds))]
    chart.lines({"acknowledged": list(enumerate(acked))}, is_filled=True)
    return chart.render()


def _positions(axis: TimeAxis, history: History) -> str:
    lines: dict[str, list[tuple[float, float]]] = defaultdict(list)
    seconds = range(math.ceil(axis.seconds))
    for at in seconds:
        for tp, high_watermark in sorted(history.seconds[at].high_watermarks.items() if at in history.seconds else ()):
            lines[tp].append((at, high_watermark))
    if not lines:
        return ""
    acked = accumulate(history.seconds[at].acked if at in history.seconds else 0 for at in seconds)
    of_one = [(float(at), total / len(lines)) for at, total in zip(seconds, acked, strict=True)]
    named = dict(sorted(lines.items())) | {"acknowledged / partitions": of_one}
    chart = Chart(axis)
    chart.lines(named)
    return chart.render() + legend(list(named))


def _latency(axis: TimeAxis, history: History) -> str:
    chart = Chart(axis)
    lines: dict[str, list[tuple[float, float]]] = {name: [] for name, _ in _PERCENTILES}
    for at in range(math.ceil(axis.seconds)):
        if at in history.seconds and history.seconds[at].latencies.count:
            for name, percent in _PERCENTILES:
                lines[name].append((at, max(_LEAST_MS, history.seconds[at].latencies.percentile(percent))))
    chart.lines(lines, is_logarithmic=True)
    return chart.render() + legend(list(lines))


def _seconds(history: History, instant_ns: int) -> float:
    return (instant_ns - history.began_ns) / 1e9
