"""Where a client's own tests come from: fetched once below build/, checked against a hash, and never changed.

kafka-python has its tests in its sdist, which pip downloads and checks. aiokafka's sdist has none, so git fetches the
commit of the release. The modules in that commit are compared with those of the installed package.
"""

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import distribution, version
from pathlib import Path

_BUILD = Path(__file__).parents[3] / "build" / "clients" / "own-suites"
_FETCH_SECONDS = 300.0

KAFKA_PYTHON = "3.0.12"
_KAFKA_PYTHON_SHA256 = "4ccda3616b9aa5c353d74a97f2770d6cd1b950890d77ab0e8890e09a48eeed65"

AIOKAFKA = "0.14.0"
_AIOKAFKA_COMMIT = "672947afe85c91b7d953f0259e69837a711d3246"
_AIOKAFKA_REPOSITORY = "https://github.com/aio-libs/aiokafka"


class SourceError(Exception):
    """The tests of a client could not be had, or are not those of the installed version."""


def kafka_python_source() -> Path:
    """Return the folder with `test/` and `pyproject.toml` of the pinned kafka-python.

    Raises:
        SourceError: Another version is installed, or pip could not get the sdist with this hash.
    """
    _check_installed("kafka-python", KAFKA_PYTHON)
    folder = _BUILD / f"kafka-python-{_KAFKA_PYTHON_SHA256[:12]}"
    if not folder.exists():
        with tempfile.TemporaryDirectory() as scratch:
            _unpack(
                _downloaded_sdist(Path(scratch)), f"kafka_python-{KAFKA_PYTHON}/", ("pyproject.toml", "test"), folder
            )
    return folder


def aiokafka_source() -> Path:
    """Return the folder with `tests/` and `pyproject.toml` of the pinned aiokafka.

    Raises:
        SourceError: Another version is installed, git could not fetch the commit, or the commit has other modules than
            the installed package.
    """
    _check_installed("aiokafka", AIOKAFKA)
    folder = _BUILD / f"aiokafka-{_AIOKAFKA_COMMIT[:12]}"
    if not folder.exists():
        with tempfile.TemporaryDirectory() as scratch:
            git = ["git", "-C", scratch]
            _output(["git", "init", "-q", "--bare", scratch])
            _output([*git, "fetch", "-q", "--depth", "1", _AIOKAFKA_REPOSITORY, _AIOKAFKA_COMMIT])
            _check_same_modules(_output([*git, "ls-tree", "-r", _AIOKAFKA_COMMIT, "aiokafka"]).decode())
            archive = _output([*git, "archive", "--format=tar", _AIOKAFKA_COMMIT, "pyproject.toml", "tests"])
        _unpack(archive, "", ("pyproject.toml", "tests"), folder)
    return folder


def _check_installed(package: str, pinned: str) -> None:
    installed = version(package)
    if installed != pinned:
        raise SourceError(f"{package} {installed} is installed, and the tests are those of {pinned}: change both")


def _downloaded_sdist(folder: Path) -> bytes:
    """Let pip check the hash, so that nothing of an sdist with another one is run."""
    wanted = folder / "wanted.txt"
    wanted.write_text(f"kafka-python=={KAFKA_PYTHON} --hash=sha256:{_KAFKA_PYTHON_SHA256}\n")
    options = ["-q", "--require-hashes", "--no-deps", "--no-binary", "kafka-python", "-d", str(folder)]
    _output([sys.executable, "-m", "pip", "download", *options, "-r", str(wanted)])
    (sdist,) = folder.glob("*.tar.gz")
    return sdist.read_bytes()


def _check_same_modules(listing: str) -> None:
    """Compare each Python module in the output of `git ls-tree -r` with the installed file."""
    package = distribution("aiokafka")
    compared = 0
    for line in listing.splitlines():
        what, path = line.split("\t")
        if not path.endswith(".py"):
            continue
        installed = Path(str(package.locate_file(path)))
        content = installed.read_bytes() if installed.is_file() else b""
        # git's name for a file's content.
        named = hashlib.sha1(b"blob %d\0%b" % (len(content), content), usedforsecurity=False).hexdigest()
        if named != what.split()[2]:
            raise SourceError(f"{path} of commit {_AIOKAFKA_COMMIT} is not that of the installed aiokafka {AIOKAFKA}")
        compared += 1
    if compared == 0:
        raise SourceError(f"commit {_AIOKAFKA_COMMIT} has no module of aiokafka")


def _unpack(archive: bytes, prefix: str, wanted: tuple[str, ...], folder: Path) -> None:
    """Put the files of a tar archive into a new folder: those with a wanted name, and those in a wanted folder.

    The client's package stays out: beside the tests it would hide the installed one.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    # A folder with the final name is whole.
    scratch = Path(tempfile.mkdtemp(dir=folder.parent))
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar.getmembers():
            name = member.name.removeprefix(prefix)
            content = tar.extractfile(member)
            if content is None or name.split("/")[0] not in wanted:
                continue
            path = scratch / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.read())
    try:
        scratch.rename(folder)
    except OSError:
        # Another process was faster.
        shutil.rmtree(scratch)


def _output(command: list[str]) -> bytes:
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(command, capture_output=True, timeout=_FETCH_SECONDS, check=False, env=environment)
    except subprocess.TimeoutExpired as error:
        raise SourceError(f"{' '.join(command)} took more than {_FETCH_SECONDS:.0f} s") from error
    if done.returncode != 0:
        raise SourceError(f"{' '.join(command)}: {done.stderr.decode(errors='replace').strip()[-500:]}")
    return done.stdout
