"""The page about planted bugs: what each is, who objected, and how long it took."""

import os
import platform
import subprocess
from collections import Counter
from collections.abc import Sequence
from statistics import median

from tests.simulation.known_bugs.by_scenario import BY_SCENARIO
from tests.simulation.known_bugs.hunt import Hunt
from tests.simulation.known_bugs.known_bug import KnownBug
from tests.simulation.known_bugs.table import BUGS
from tests.simulation.rows.table import ROWS

_HEAD = """# Planted bugs

This page lists bugs that are planted on purpose, and which judge detects each. It is for readers who ask whether the
simulation would notice a bug, and for contributors who add a rule.

Generated, not written: `{command}`, at commit {commit}, on {machine}.

Each bug is a function in `tests/simulation/known_bugs` that breaks one rule in memory. It counts as caught when an
invariant of `tests/simulation/invariants` or an anomaly of the checker ends a run of the campaign's own profile: {seconds}
virtual seconds, Kafka clients on the wire, faults drawn by the seed. A run that ends by an assertion of the product or
by a crash is not counted, and the search goes on with the next seed. Seconds are of all runs up to the objection; with
several tries (disjoint ranges of seeds) they are medians, and `objected` says who did how often.

{caught} of {all} bugs were caught in every one of {tries} tries; median over all of them: {virtual:.0f} virtual seconds,
{cpu:.1f} s of a core.

The other tables:

- [By the rows of the seed RFC](#by-the-rows-of-the-seed-rfc)
- [By written schedules](#by-written-schedules)
"""


_BEGIN = "<!-- written from the registry, without a hunt, by `make known-bugs ARGS=--tables` -->"


def source_version() -> str:
    """Return the commit that is checked out, with a mark if files of it were changed: newly pinned seeds are one."""
    ran = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return f"`{ran.stdout.strip()}`" if ran.returncode == 0 else "(unknown)"


def render(bugs: Sequence[KnownBug], hunts: Sequence[Hunt], command: str, commit: str) -> str:
    """Return the page, as Markdown; `commit` is what `source_version` said before the hunt."""
    by_name = {bug.name: [each for each in hunts if each.name == bug.name] for bug in bugs}
    ended = [each for each in hunts if each.seed is not None]
    head = _HEAD.format(
        command=command,
        commit=commit,
        machine=f"{os.cpu_count()} cores, Python {platform.python_version()}",
        seconds=60,
        caught=sum(all(each.seed is not None for each in tries) for tries in by_name.values()),
        all=len(bugs),
        tries=max(map(len, by_name.values()), default=0),
        virtual=median([each.virtual_seconds for each in ended] or [0.0]),
        cpu=median([each.cpu_seconds for each in ended] or [0.0]),
    )
    return "\n".join([head, *_areas(bugs, by_name), _tables()])


def with_current_tables(page: str) -> str:
    """Return the page with the tables that need no hunt as the registry has them now; ValueError: it has no such part."""
    hunted, begin, _ = page.partition(_BEGIN)
    if not begin:
        raise ValueError(f"the page lacks the line {_BEGIN}")
    return hunted + _tables()


def _tables() -> str:
    return "\n".join([_BEGIN, "", *_rows(), *_scenarios()])


def _rows() -> list[str]:
    """Return the table of bugs without objectors; `tests/simulation/rows` proves that each is noticed."""
    lines = ["## By the rows of the seed RFC", ""]
    lines += [
        "These switch off one mechanism of the seed RFC. The proof of each row named here must fail with the bug",
        "([the seed RFC, row by row](../seed-rows.md)); random search does not look for them.",
        "",
    ]
    lines += ["| bug | known from | rows |", "| --- | --- | --- |"]
    for bug in (each for each in BUGS if not each.objectors):
        numbers = ", ".join(row.number for row in ROWS if bug in row.bugs)
        lines.append(f"| `{bug.name}`: {_in_one_line(bug.rule)} | {bug.source} | {numbers} |")
    return [*lines, ""]


def _areas(bugs: Sequence[KnownBug], by_name: dict[str, list[Hunt]]) -> list[str]:
    lines = []
    for area in dict.fromkeys(bug.area for bug in bugs):
        lines += [f"## {area[0].upper()}{area[1:]}", ""]
        lines += [
            "| bug | known from | objected | seeds | virtual s | CPU s |",
            "| --- | --- | --- | --: | --: | --: |",
        ]
        lines += [_row(bug, by_name[bug.name]) for bug in bugs if bug.area == area]
        lines.append("")
    return lines


def _row(bug: KnownBug, tries: Sequence[Hunt]) -> str:
    objected = Counter(each.objector for each in tries if each.objector is not None)
    missed = sum(each.seed is None for each in tries)
    who = ", ".join(name if count == len(tries) else f"{name} {count}" for name, count in objected.most_common())
    if missed:
        who = ", ".join(filter(None, [who, f"**missed {missed}**"]))
    cells = [
        f"`{bug.name}`: {_in_one_line(bug.rule)}",
        bug.source,
        who,
        f"{median(each.seeds for each in tries):g}",
        f"{median(each.virtual_seconds for each in tries):.0f}",
        f"{median(each.cpu_seconds for each in tries):.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def _scenarios() -> list[str]:
    lines = ["## By written schedules", ""]
    lines += [
        "These need an order of events that the drawn faults hardly ever bring about; a written schedule shows each.",
        "",
    ]
    lines += ["| bug | known from | shown by |", "| --- | --- | --- |"]
    lines += [f"| {each.bug} | {each.source} | `{each.test}` |" for each in BY_SCENARIO]
    return [*lines, ""]


def _in_one_line(text: str) -> str:
    return " ".join(text.split())
