"""The page about planted bugs: what each is, who objected, and how long it took.

The figures lie beside the page, in a file of the same name that ends with .json: each bug's with the commit of its hunt,
so that one bug can be hunted alone.
"""

import os
import platform
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Self

import msgspec

from tests.simulation.known_bugs.by_scenario import BY_SCENARIO
from tests.simulation.known_bugs.hunt import Hunt
from tests.simulation.known_bugs.known_bug import KnownBug
from tests.simulation.known_bugs.table import BUGS, HUNTED
from tests.simulation.rows.table import ROWS

_HEAD = """# Planted bugs

This page lists bugs that are planted on purpose, and which judge detects each. It is for readers who ask whether the
simulation would notice a bug, and for contributors who add a rule.

Generated, not written: `make known-bugs` hunts all bugs, `make known-bugs ARGS="--bugs A,B"` some; each row names the
commit of its hunt. {machines}.

Each bug is a function in `tests/simulation/known_bugs` that breaks one rule in memory. It counts as caught when an
invariant of `tests/simulation/invariants` or an anomaly of the checker ends a run of the campaign's own profile: 60
virtual seconds, Kafka clients on the wire, faults drawn by the seed. A run that ends by an assertion of the product or
by a crash is not counted, and the search goes on with the next seed. Seconds are of all runs up to the objection; with
several tries (disjoint ranges of seeds) they are medians, and `objected` says who did how often. `make test-slow` begins
with the seeds that are pinned, and catches all of them again.

{caught} of {all} bugs were caught in every one of their tries; median over all: {virtual:.0f} virtual seconds,
{cpu:.1f} s of a core.

The other tables:

- [By the rows of the seed RFC](#by-the-rows-of-the-seed-rfc)
- [By written schedules](#by-written-schedules)
"""


class Measured(msgspec.Struct, frozen=True):
    """What the hunts for one bug have come to; seeds and seconds are medians of the tries.

    Attributes:
        commit: What was checked out when the hunt began.
        machine: Its cores, and the version of Python.
        objected: Who has objected, and how often.
        seeds: Runs up to the objection, the last one included.
    """

    commit: str
    machine: str
    tries: int
    objected: dict[str, int]
    seeds: float
    virtual_seconds: float
    cpu_seconds: float

    @classmethod
    def of(cls, tries: Sequence[Hunt], commit: str) -> Self:
        """Sum up the hunts for one bug, at least one."""
        return cls(
            commit=commit,
            machine=f"{os.cpu_count()} cores, Python {platform.python_version()}",
            tries=len(tries),
            objected=Counter(each.objector for each in tries if each.objector is not None),
            seeds=median(each.seeds for each in tries),
            virtual_seconds=round(median(each.virtual_seconds for each in tries), 1),
            cpu_seconds=round(median(each.cpu_seconds for each in tries), 1),
        )

    @property
    def missed(self) -> int:
        """How many tries nobody ended."""
        return self.tries - sum(self.objected.values())


def source_version() -> str:
    """Return the commit that is checked out, with a mark if files of it were changed: newly pinned seeds are one."""
    ran = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return ran.stdout.strip() if ran.returncode == 0 else "(unknown)"


def add_hunts(page: Path, hunts: Iterable[Hunt], commit: str) -> None:
    """Put hunts in the place of those of the same bugs, and write the page; bugs that are gone are forgotten."""
    measured = read_measured(page)
    by_name: dict[str, list[Hunt]] = {}
    for each in hunts:
        by_name.setdefault(each.name, []).append(each)
    measured |= {name: Measured.of(tries, commit) for name, tries in by_name.items()}
    kept = {bug.name: measured[bug.name] for bug in HUNTED if bug.name in measured}
    page.parent.mkdir(parents=True, exist_ok=True)
    _figures(page).write_bytes(msgspec.json.format(msgspec.json.encode(kept, order="sorted"), indent=1) + b"\n")
    page.write_text(page_of(kept))


def read_measured(page: Path) -> dict[str, Measured]:
    """Return the figures that lie beside a page, by the names of the bugs."""
    path = _figures(page)
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Measured]) if path.exists() else {}


def page_of(measured: Mapping[str, Measured]) -> str:
    """Return the page, as Markdown: its tables are those of the registry, its figures the given ones."""
    found = [each for each in measured.values() if each.objected]
    head = _HEAD.format(
        machines="Machines: " + "; ".join(sorted({each.machine for each in measured.values()}) or ["none"]),
        caught=sum(each.missed == 0 for each in measured.values()),
        all=len(HUNTED),
        virtual=median([each.virtual_seconds for each in found] or [0.0]),
        cpu=median([each.cpu_seconds for each in found] or [0.0]),
    )
    return "\n".join([head, *_areas(measured), *_rows(), *_scenarios()])


def _figures(page: Path) -> Path:
    return page.with_suffix(".json")


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


def _areas(measured: Mapping[str, Measured]) -> list[str]:
    lines = []
    for area in dict.fromkeys(bug.area for bug in HUNTED):
        lines += [f"## {area[0].upper()}{area[1:]}", ""]
        lines += [
            "| bug | known from | objected | seeds | virtual s | CPU s | commit |",
            "| --- | --- | --- | --: | --: | --: | --- |",
        ]
        lines += [_row(bug, measured.get(bug.name)) for bug in HUNTED if bug.area == area]
        lines.append("")
    return lines


def _row(bug: KnownBug, found: Measured | None) -> str:
    cells = [f"`{bug.name}`: {_in_one_line(bug.rule)}", bug.source]
    if found is None:
        cells += ["not hunted yet, only pinned", "", "", "", ""]
    else:
        cells += [
            _objected(found),
            f"{found.seeds:g}",
            f"{found.virtual_seconds:.0f}",
            f"{found.cpu_seconds:.1f}",
            found.commit,
        ]
    return f"| {' | '.join(cells)} |"


def _objected(found: Measured) -> str:
    by_count = Counter(found.objected).most_common()
    who = [name if count == found.tries else f"{name} {count}" for name, count in by_count]
    return ", ".join([*who, *([f"**missed {found.missed}**"] if found.missed else [])])


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
