"""Summaries of samples, and the JSON files that keep them."""

import json
import math
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def quantile(samples: Sequence[float], share: float) -> float:
    """Return the smallest sample that at least `share` (0 to 1) of all samples do not exceed."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summarize(samples: Sequence[float], digits: int = 3) -> dict[str, float]:
    """Return median, p90 and max."""
    return {
        "median": round(quantile(samples, 0.5), digits),
        "p90": round(quantile(samples, 0.9), digits),
        "max": round(max(samples), digits),
    }


def write_result(folder: Path, name: str, document: dict[str, Any]) -> Path:
    """Write NAME.json into a folder and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(document, indent=2) + "\n")
    return path


def source_version(*results: str) -> str:
    """Return the commit that is measured, with a mark when files of it were changed; "unknown" outside of git.

    Results do not count: the run before this one has written some.

    Args:
        results: Where they are, from the root of the checkout; those of the benchmarks if nothing is said.
    """
    try:
        commit = _git("rev-parse", "--short", "HEAD")
        ignored = [f":!{path}" for path in results or ("benchmarks/results",)]
        changes = _git("status", "--porcelain", "--untracked-files=no", "--", ".", *ignored)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return f"{commit}-dirty" if changes else commit


def _git(*arguments: str) -> str:
    found = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=10, check=True)
    return found.stdout.strip()
