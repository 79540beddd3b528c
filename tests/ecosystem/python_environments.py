"""Environments for programs below python/ that need packages which Raftka's own environment does not have."""

import hashlib
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "python"
_BUILD = Path(__file__).parents[2] / "build" / "ecosystem"
_INSTALL_SECONDS = 400.0


def python_with(name: str) -> Path:
    """Return the Python of the environment with the requirements of python/NAME.txt, made again if these change."""
    requirements = FOLDER / f"{name}.txt"
    folder = _BUILD / f"{name}-{hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]}"
    python, complete = folder / "bin" / "python", folder / "complete"
    if not complete.exists():
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", "-r", str(requirements)],
        ):
            done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False)
            assert done.returncode == 0, f"{' '.join(command)}: {done.stdout[-1000:]}{done.stderr[-1000:]}"
        complete.touch()
    return python
