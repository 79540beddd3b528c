"""What a campaign has come to, as the page docs/verification/campaign.md."""

import os
import platform
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from tests.simulation.probes import SOMETIMES
from tests.simulation.run import RunResult
from tests.simulation.sources import sources

_ROOT = Path(__file__).parents[2]
_HASH_SEEDS = ("1", "2", "3")
_CLIENTS = ("send", "poll", "latest", "cas", "read")
_GIB = 1024**3
_RUNS_THAT_HIT_ALL = 400


class CampaignReport:
    """Collects results. `differing`: seeds whose trace depends on PYTHONHASHSEED; `bug`: what was planted."""

    def __init__(self, seeds: range, seconds: float, jobs: int, bug: str | None = None) -> None:
        self.totals: Counter[str] = Counter()
        self.failed: dict[int, str] = {}
        self.runs = 0
        self.compared: list[int] = []
        self.differing: list[int] = []
        self._seeds = seeds
        self._seconds = seconds
        self._jobs = jobs
        self._bug = bug
        self._began = time.monotonic()
        self._sources = sources()
        self._hits: Counter[str] = Counter()
        self._faults = 0
        self._cpu_seconds = 0.0
        self._digests: dict[int, str] = {}

    def add(self, result: RunResult) -> None:
        """Take one run."""
        self.runs += 1
        self.totals.update(result.counts)
        self._hits.update(name for name in SOMETIMES if result.counts[name])
        self._faults += len(result.faults)
        self._cpu_seconds += result.cpu_seconds
        self._digests[result.seed] = result.digest
        if result.error is not None:
            self.failed[result.seed] = result.error.splitlines()[0]

    @property
    def _virtual_seconds(self) -> float:
        return self.runs * self._seconds

    @property
    def _operations(self) -> int:
        begun = [f"client {f} {outcome}" for f in _CLIENTS for outcome in ("ok", "fail", "info")]
        return sum(self.totals[name] for name in begun)

    @property
    def missed(self) -> list[str]:
        """Probes that no run has hit."""
        return [name for name in SOMETIMES if not self._hits[name]]

    @property
    def is_blind(self) -> bool:
        """Whether it has missed a probe, and had enough runs to be expected to hit them all."""
        return bool(self.missed) and self.runs >= _RUNS_THAT_HIT_ALL

    def compare_hash_seeds(self) -> None:
        """Run every hundredth seed again, in fresh processes with other string hashes; the traces must be the same."""
        for seed in self._seeds[::100]:
            self.compared.append(seed)
            digests = {_digest(seed, self._seconds, hash_seed, self._bug) for hash_seed in _HASH_SEEDS}
            if digests != {self._digests[seed]}:
                self.differing.append(seed)

    def summary(self) -> str:
        """One line."""
        planted = "" if self._bug is None else f"with {self._bug} planted: "
        return (
            f"{planted}{self.runs - len(self.failed)} of {self.runs} runs of {self._seconds:g} virtual seconds passed,"
            f" {len(self.missed)} probes missed, {self._virtual_seconds / self._cpu_seconds:.0f} virtual s per s of a core"
        )

    def page(self) -> str:
        """Return the page."""
        command = f"python -m tests.simulation --seeds {self._seeds[0]}..{self._seeds[-1]} --jobs {self._jobs} --report"
        planted = [] if self._bug is None else [f"**A bug was planted: `{self._bug}`.**", ""]
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / _GIB
        hours = self._virtual_seconds / 3600
        kernel = ".".join(platform.release().split(".")[:2])
        wall = (time.monotonic() - self._began) / 60
        lines = [
            "# The simulation campaign",
            "",
            *planted,
            "Made by `make sim-campaign SEEDS=a..b REPORT=docs/verification/campaign.md`; not to be edited. What a run is",
            "stands in [testing.md](../testing.md), what it can prove in RFC 0008.",
            "",
            f"Commit {self._sources}. `{command} FILE`, {wall:.0f} minutes on a shared machine of {os.cpu_count()} cores,",
            f"{memory:.0f} GiB, {platform.system()} {kernel}, Python {platform.python_version()}.",
            "",
            "| what | measured | asked for |",
            "| --- | ---: | ---: |",
            f"| runs of {self._seconds:g} virtual seconds | {self.runs:,} ({hours:.1f} h) | 5,000 |",
            f"| violations | {len(self.failed)} | 0 |",
            f"| probes hit | {len(SOMETIMES) - len(self.missed)} of {len(SOMETIMES)} | all of at least 40 |",
            f"| virtual seconds per second of one core | {self._virtual_seconds / self._cpu_seconds:.1f} | 50 |",
            f"| client operations per virtual second | {self._operations / self._virtual_seconds:.1f} | 10 |",
            f"| faults per virtual second | {self._faults / self._virtual_seconds:.2f} | 0.1 |",
            (
                f"| seeds with one trace under PYTHONHASHSEED {', '.join(_HASH_SEEDS)} |"
                f" {len(self.compared) - len(self.differing)} of {len(self.compared)} | 1 % of the seeds |"
            ),
            "",
        ]
        lines += [f"- seed {seed} failed: {error}" for seed, error in sorted(self.failed.items())]
        lines += ["", "## Probes", "", "| what must be seen | runs | times |", "| --- | ---: | ---: |"]
        lines += [f"| {name} | {self._hits[name]:,} | {self.totals[name]:,} |" for name in SOMETIMES]
        lines += ["", "## All counts", "", "| what | times |", "| --- | ---: |"]
        lines += [f"| {name} | {count:,} |" for name, count in sorted(self.totals.items())]
        return "\n".join(lines) + "\n"


def _digest(seed: int, seconds: float, hash_seed: str, bug: str | None) -> str:
    planted = [] if bug is None else ["--bug", bug]
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--seed", str(seed), "--seconds", f"{seconds:g}", *planted],
        capture_output=True,
        text=True,
        cwd=_ROOT,
        env={"PYTHONHASHSEED": hash_seed, "PATH": os.environ.get("PATH", "")},
        timeout=300,
        check=False,
    )
    line = next((line for line in done.stdout.splitlines() if line.startswith("trace ")), "trace none")
    return line.split()[1]
