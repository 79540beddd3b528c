"""The page docs/verification/campaign.md, made of parts that may have been run one after the other.

The parts lie beside the page, in a file of the same name that ends with .json.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from tests.simulation.campaign.campaign_part import HASH_SEEDS, CampaignPart
from tests.simulation.world.probes import SOMETIMES

_CLIENTS = ("send", "poll", "latest", "cas", "read")
_HEAD = """# The simulation campaign

This page sums up all runs of the simulator for a release. It is for readers who ask how much was tested, and for
contributors who look for what no run has met.

- [Parts](#parts): the seeds, commits and machines
- [Probes](#probes): what runs must have met, and how often they did
- [All counts](#all-counts)

Made by `make sim-campaign SEEDS=a..b REPORT=docs/verification/campaign.md`, which adds a part, or puts it in the place
of those that it overlaps; not to be edited. What a run is stands in [testing.md](../testing.md), what it can prove in
RFC 0006. Machines are shared with others, which the rate of a core tells.
"""


def add_part(page: Path, part: CampaignPart) -> None:
    """Add a part to the page, in the place of all that have a seed of it."""
    path = page.with_suffix(".json")
    before = msgspec.json.decode(path.read_bytes(), type=list[CampaignPart]) if path.exists() else []
    kept = [each for each in before if each.last < part.first or part.last < each.first]
    parts = sorted([*kept, part], key=lambda each: each.first)
    page.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(parts), indent=1) + b"\n")
    page.write_text(page_of(parts))


def page_of(parts: Sequence[CampaignPart]) -> str:
    """Return the page of all parts, one at least."""
    totals = _sum(part.totals for part in parts)
    hits = _sum(part.hits for part in parts)
    lines = [*_HEAD.splitlines(), "", *_measured(parts, totals, hits), ""]
    lines += [_failure(part, seed) for part in parts for seed in sorted(part.failed)]
    lines += ["", "## Parts", "", "| seeds | commit | minutes, processes | virtual s per s of a core | machine |"]
    lines += ["| --- | --- | ---: | ---: | --- |", *map(_row, parts)]
    lines += ["", "## Probes", "", "| what must be seen | runs | times |", "| --- | ---: | ---: |"]
    lines += [f"| {name} | {hits[name]:,} | {totals[name]:,} |" for name in SOMETIMES]
    lines += ["", "## All counts", "", "| what | times |", "| --- | ---: |"]
    lines += [f"| {name} | {count:,} |" for name, count in sorted(totals.items())]
    return "\n".join(lines) + "\n"


def _measured(parts: Sequence[CampaignPart], totals: Counter[str], hits: Counter[str]) -> list[str]:
    virtual = sum(part.virtual_seconds for part in parts)
    seconds = " and ".join(sorted({f"{part.seconds:g}" for part in parts}))
    compared = sum(len(part.compared) for part in parts)
    same = compared - sum(len(part.differing) for part in parts)
    operations = sum(totals[f"client {f} {outcome}"] for f in _CLIENTS for outcome in ("ok", "fail", "info"))
    probes = f"{sum(hits[name] > 0 for name in SOMETIMES)} of {len(SOMETIMES)}"
    return [
        "| what | measured | asked for |",
        "| --- | ---: | ---: |",
        f"| valid runs of {seconds} virtual seconds | {sum(part.valid_runs for part in parts):,} | 5,000 |",
        f"| runs that prove too little, and do not count | {sum(len(part.invalid) for part in parts)} | |",
        f"| virtual hours of all runs | {virtual / 3600:.1f} | |",
        f"| violations | {sum(len(part.violated) for part in parts)} | 0 |",
        f"| probes hit | {probes} | all of at least 40 |",
        f"| virtual seconds per second of one core | {virtual / sum(part.cpu_seconds for part in parts):.1f} | 50 |",
        f"| client operations per virtual second | {operations / virtual:.1f} | 10 |",
        f"| faults per virtual second | {sum(part.faults for part in parts) / virtual:.2f} | 0.1 |",
        f"| seeds with one trace under PYTHONHASHSEED {', '.join(HASH_SEEDS)} | {same} of {compared} | 1 % of the seeds |",
    ]


def _failure(part: CampaignPart, seed: int) -> str:
    what = "does not count" if seed in part.invalid else "failed"
    return f"- seed {seed} {what}: {part.failed[seed]}"


def _row(part: CampaignPart) -> str:
    rate = part.virtual_seconds / part.cpu_seconds
    seeds = f"{part.first}..{part.last}"
    return f"| {seeds} | {part.sources} | {part.minutes:.0f}, {part.jobs} | {rate:.1f} | {part.machine} |"


def _sum(counts: Iterable[dict[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return total
