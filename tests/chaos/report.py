"""`python -m tests.chaos.report DIR`: docs/verification/chaos.md from the summaries of the runs below a folder.

The matrix takes hours, so the page may be made of runs from several days: the summary of each run's last one
lies beside the page, in chaos.json. A summary names commit and machine.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tests.chaos.matrix import FOREIGN, NAMES

PAGE = Path(__file__).parents[2] / "docs" / "verification" / "chaos.md"
_HEAD = """\
# Real brokers under real faults

This page shows how real brokers kept their promises while faults were injected. It is for readers who judge the
evidence, and for operators who ask how long an outage lasts.

Made by `make chaos` (`python -m tests.chaos`) from the summaries of its runs; not to be edited. What the runs do is in
[testing.md](../testing.md); what the verdicts mean in [history-format.md](../history-format.md). The machine may have had
other work beside a run: verdicts do not depend on that, latencies and outages do. Transactions are those of librdkafka,
which speaks the older version of their protocol (EndTxn below 5); clients that speak the newer one are tested on
[another page](../compatibility.md).
"""

_COLUMNS = (
    *("run", "outcome", "minutes", "operations", "per second", "acknowledged", "p50 / p99 / max ms", "longest outage"),
    *("faults", "elections", "commit"),
)


def render(summaries: dict[str, dict[str, Any]]) -> str:
    """Return the page for summaries by name of run."""
    lines = [_HEAD]
    lines += [
        f"{'; or '.join(dict.fromkeys(_where(each) for each in summaries.values()))}; brokers and clients share it.",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        f"| --- | --- {'| ---: ' * (len(_COLUMNS) - 2)}|",
    ]
    lines += [_row(name, summary) for name, summary in summaries.items()]
    total = sum(each["acked"] for name, each in summaries.items() if each["workload"] == "log" and name != FOREIGN)
    lines += ["", f"In all, {total:,} records were sent and acknowledged one by one.", ""]
    # A table: these are lists of counts and no sentences.
    lines += ["| run | what happened in it |", "| --- | --- |"]
    lines += [f"| {name} | {_details(summary)} |" for name, summary in summaries.items()]
    lines += ["", "Again:", "", *(f"    {_again(name, summary)}" for name, summary in summaries.items())]
    return "\n".join(lines) + "\n"


def _where(summary: dict[str, Any]) -> str:
    machine = summary["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in summary["versions"].items())
    kind = f"{machine['cores']} cores, {machine['memory_gib']:g} GiB, Linux {machine['kernel']}, Python {machine['python']}"
    return f"{versions} on {kind}"


def _again(name: str, summary: dict[str, Any]) -> str:
    # The addresses of a foreign cluster are of no use to anybody.
    command: str = f"python -m tests.chaos {name} --out DIR" if name == FOREIGN else summary["command"]
    return command


def _row(name: str, summary: dict[str, Any]) -> str:
    latency = summary["latency_ms"]
    cells = [
        name,
        summary["outcome"],
        f"{summary['seconds'] / 60:.1f}",
        f"{summary['operations_per_second'] * summary['seconds']:,.0f}",
        f"{summary['operations_per_second']:,.0f}",
        f"{summary['acked']:,}",
        " / ".join(f"{latency[each]:,.0f}" for each in ("p50", "p99", "max")) if latency else "-",
        f"{summary['outages']['longest_seconds']:g} s",
        f"{sum(summary['faults'].values()):,}",
        f"{summary['elections']:,}",
        summary["commit"],
    ]
    return f"| {' | '.join(cells)} |"


def _details(summary: dict[str, Any]) -> str:
    parts = [", ".join(f"{number} {name}" for name, number in summary["faults"].items()) or "no faults"]
    parts += [
        f"{word}: " + ", ".join(f"{name} {number}" for name, number in summary[word].items())
        for word in ("anomalies", "allowed")
        if summary[word]
    ]
    if summary["losses"] is not None:
        losses = summary["losses"]
        parts.append(
            f"{losses['lost']:,} of {losses['acked']:,} records acknowledged by a leader alone were lost,"
            f" {losses['explained']:,} of them in ranges that the brokers' logs report as truncated"
        )
    parts += [f"broker {each['node']} ended by itself ({each['exit_code']})" for each in summary["deaths"]]
    return "; ".join([*parts, *summary["problems"]])


def write_page(folder: Path, page: Path = PAGE) -> None:
    """Write the page from `NAME/summary.json` of every run below a folder, and from what is kept of the others."""
    paths = {name: folder / name / "summary.json" for name in NAMES}
    found = {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}
    if not found:
        raise SystemExit(f"there is no run in {folder}")
    kept_in = page.with_suffix(".json")
    kept = json.loads(kept_in.read_text()) if kept_in.exists() else {}
    summaries = {name: (kept | found)[name] for name in NAMES if name in kept or name in found}
    page.parent.mkdir(exist_ok=True)
    kept_in.write_text(json.dumps(summaries, indent=1) + "\n")
    page.write_text(render(summaries))


if __name__ == "__main__":
    write_page(Path(sys.argv[1]))
