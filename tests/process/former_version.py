"""The last version before features, built as a wheel from this repository's history, in an environment of its own."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.needed_tools import NEED_VARIABLE

ROOT = Path(__file__).parents[2]
# The parent of the first commit of model/features.py: it knows no feature, and no format 2 of a data directory.
FORMER_COMMIT = "8603704a3d7b1f0c6ee76cdd2335e6bd245be964"
_SECONDS = 180


def _why_not_there() -> str | None:
    """Return why the former version cannot be built here; None: it can."""
    try:
        found = subprocess.run(
            ["git", "-C", str(ROOT), "cat-file", "-e", f"{FORMER_COMMIT}^{{commit}}"], capture_output=True, check=False
        )
    except FileNotFoundError:
        return "git is not installed, and the former version comes from the history"
    if found.returncode != 0:
        return f"the history does not have commit {FORMER_COMMIT[:7]}: this is a source archive or a shallow clone"
    return None


def build_former_wheel(folder: Path) -> Path:
    """Build the wheel of the former version in `folder`, with its own build script and the tools of this environment."""
    sources = folder / "former"
    sources.mkdir()
    # As zip: what reads tar differs between the versions of Python.
    _run("git", "-C", ROOT, "archive", "--format=zip", "-o", folder / "former.zip", FORMER_COMMIT, cwd=folder)
    with zipfile.ZipFile(folder / "former.zip") as files:
        files.extractall(sources)
    _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder / "dist", sources, cwd=folder)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def install(wheel: Path, home: Path) -> str:
    """Install a wheel into a new environment at `home`; return its Python.

    What it depends on is borrowed from the environment that runs the tests, and not downloaded again. A path named in a
    .pth file is searched, but .pth files found there are not read: the checkout's editable installation stays out.
    """
    _run(sys.executable, "-m", "venv", "--without-pip", home, cwd=home.parent)
    python = home / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index")
    _run(*pip, wheel, cwd=home)
    site_packages = _run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home).strip()
    paths = sysconfig.get_paths()
    borrowed = dict.fromkeys([paths["purelib"], paths["platlib"]])
    Path(site_packages, "borrowed_dependencies.pth").write_text("\n".join(borrowed) + "\n")
    found = _run(python, "-I", "-c", "import raftka; print(raftka.__file__)", cwd=home).strip()
    assert found.startswith(str(home)), f"{found} is not the wheel's"
    return str(python)


def former_python(folder: Path) -> str:
    """Return the Python of an environment below `folder` that has the former version; it is built there.

    Where it cannot be built, the test is skipped, or fails where nothing may be left out.
    """
    reason = _why_not_there()
    if reason is not None and os.environ.get(NEED_VARIABLE):
        pytest.fail(f"{reason}, and {NEED_VARIABLE} is set: fetch the whole history", pytrace=False)
    if reason is not None:
        pytest.skip(reason)
    return install(build_former_wheel(folder), folder / "environment")


def _run(*command: object, cwd: Path) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RAFTKA_"))}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=kept, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout
