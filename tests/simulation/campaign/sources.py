"""Which sources a run is made of: it is a function of them and of its seed."""

import subprocess
from pathlib import Path

_ROOT = Path(__file__).parents[3]


def sources() -> str:
    """Return the commit, with a plus sign if the sources differ from it; "without git" where there is none.

    Pages do not count: a campaign of several parts writes its own page after each.
    """
    try:
        commit = _git("rev-parse", "--short=12", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)docs")
        return f"{commit}+" if changed else commit
    except (OSError, subprocess.SubprocessError):
        return "without git"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()
