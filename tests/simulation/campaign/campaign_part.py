"""What many runs have come to, as it is kept beside the page of the campaign."""

import os
import platform
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec

from tests.simulation.campaign.run import InvalidRunError, RunResult
from tests.simulation.campaign.sources import sources
from tests.simulation.world.probes import SOMETIMES

HASH_SEEDS = ("1", "2", "3")

_ROOT = Path(__file__).parents[3]
_GIB = 1024**3
_RUNS_THAT_HIT_ALL = 400


class CampaignPart(msgspec.Struct):
    """A range of seeds that was run at one commit on one machine.

    Attributes:
        sources: The commit; a plus sign says that the sources differed from it.
        first: The first seed, and `last` the last one.
        seconds: Virtual seconds of each run.
        minutes: By the clock on the wall.
        cpu_seconds: Of all runs together, on one core.
        failed: The first line of the error, by seed; of runs that are not valid, too.
        totals: What happened how often.
        hits: In how many runs each probe was hit.
        compared: Seeds that were run again with other string hashes; `differing` are those with another trace.
    """

    first: int
    last: int
    seconds: float
    jobs: int
    sources: str = msgspec.field(default_factory=sources)
    machine: str = msgspec.field(default_factory=lambda: _machine())
    minutes: float = 0.0
    cpu_seconds: float = 0.0
    runs: int = 0
    faults: int = 0
    failed: dict[int, str] = {}
    totals: dict[str, int] = {}
    hits: dict[str, int] = {}
    compared: list[int] = []
    differing: list[int] = []

    @property
    def invalid(self) -> set[int]:
        """Those of `failed` that broke nothing, but in which too little happened to prove anything."""
        return {seed for seed, error in self.failed.items() if error.startswith(f"{InvalidRunError.__name__}:")}

    @property
    def valid_runs(self) -> int:
        """How many runs count."""
        return self.runs - len(self.invalid)

    @property
    def violated(self) -> set[int]:
        """The seeds of the runs that have found something."""
        return set(self.failed) - self.invalid

    @property
    def virtual_seconds(self) -> float:
        """Of all runs together."""
        return self.runs * self.seconds


class CampaignRecorder:
    """Collects the results of one part. `bug`: what was planted."""

    def __init__(self, seeds: range, seconds: float, jobs: int, bug: str | None = None) -> None:
        self.part = CampaignPart(seeds[0], seeds[-1], seconds, jobs)
        self._bug = bug
        self._began = time.monotonic()
        self._digests: dict[int, str] = {}

    def add(self, result: RunResult) -> None:
        """Take one run."""
        part = self.part
        part.runs += 1
        part.faults += len(result.faults)
        part.cpu_seconds += result.cpu_seconds
        part.minutes = (time.monotonic() - self._began) / 60
        part.totals = dict(Counter(part.totals) + result.counts)
        part.hits = dict(Counter(part.hits) + Counter(name for name in SOMETIMES if result.counts[name]))
        self._digests[result.seed] = result.digest
        if result.error is not None:
            part.failed[result.seed] = result.error.splitlines()[0]

    @property
    def missed(self) -> list[str]:
        """Probes that no run of this part has hit."""
        return [name for name in SOMETIMES if name not in self.part.hits]

    @property
    def is_blind(self) -> bool:
        """Whether it has missed a probe, and had enough runs to be expected to hit them all."""
        return bool(self.missed) and self.part.runs >= _RUNS_THAT_HIT_ALL

    def compare_hash_seeds(self) -> None:
        """Run every hundredth seed again, in fresh processes with other string hashes; the traces must be the same."""
        part = self.part
        for seed in range(part.first, part.last + 1, 100):
            part.compared.append(seed)
            digests = {_digest(seed, part.seconds, hash_seed) for hash_seed in HASH_SEEDS}
            if digests != {self._digests[seed]}:
                part.differing.append(seed)

    def summary(self) -> str:
        """One line."""
        part = self.part
        planted = "" if self._bug is None else f"with {self._bug} planted: "
        return (
            f"{planted}{part.runs - len(part.failed)} of {part.runs} runs of {part.seconds:g} virtual seconds passed,"
            f" {len(part.invalid)} were not valid, {len(self.missed)} probes missed,"
            f" {part.virtual_seconds / part.cpu_seconds:.0f} virtual s per s of a core"
        )


def _machine() -> str:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / _GIB
    kernel = ".".join(platform.release().split(".")[:2])
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {kernel}, Python {platform.python_version()}"


def _digest(seed: int, seconds: float, hash_seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--seed", str(seed), "--seconds", f"{seconds:g}"],
        capture_output=True,
        text=True,
        cwd=_ROOT,
        env={"PYTHONHASHSEED": hash_seed, "PATH": os.environ.get("PATH", "")},
        timeout=300,
        check=False,
    )
    line = next((line for line in done.stdout.splitlines() if line.startswith("trace ")), "trace none")
    return line.split()[1]
