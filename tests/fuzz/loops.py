"""Many executions of one target: led by the code that they reach, or at random where atheris is not installed."""

import importlib.util
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.corpus_files import add, file_name, read_corpus, replace
from tests.fuzz.damage import damaged, random_edits
from tests.fuzz.targets import Target

ROOT = Path(__file__).parents[2]
# Inputs of findings: not part of the project until one is made a test.
FOUND = ROOT / "build" / "fuzz"

_MEMORY_BYTES_MAX = 768 * 1024 * 1024
_RUN_SECONDS_MAX = 5
_INPUT_BYTES_MAX = 4096
# For one large input of ours: libFuzzer would cut it.
_LARGE_INPUT_BYTES_MAX = 64 * 1024
_EXECUTIONS = re.compile(r"^stat::number_of_executed_units: +(\d+)", re.MULTILINE)
_STOP_SECONDS = 60
_MINIMISE_SECONDS_MAX = 120


@dataclass(slots=True)
class Outcome:
    """What came of a run.

    Attributes:
        findings: By exception and place, the file with an input that shows it.
    """

    engine: str
    executions: int = 0
    seconds: float = 0.0
    findings: dict[str, Path] = field(default_factory=dict)


class InterruptedRunError(RuntimeError):
    """atheris was stopped, or could not start: the run says nothing."""


def has_atheris() -> bool:
    """Whether the extra `fuzz` is installed."""
    return importlib.util.find_spec("atheris") is not None


def place_of(error: BaseException) -> str:
    """Return what tells one finding from another: the exception and the line that raised it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno} in {frame.name}"


def run_at_random(target: Target, seconds: float, seed: int, now: Callable[[], float] = time.monotonic) -> Outcome:
    """Damage samples and corpus for so long; every class of finding is kept once."""
    inputs = [*target.samples(), *read_corpus(target.name)]
    outcome, rng, begin = Outcome("random"), random.Random(seed), now()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES_MAX + _mapped_bytes(), limits[1]))
    try:
        while (spent := now() - begin) < seconds:
            data = damaged(rng.choice(inputs), random_edits(rng), rng.choice(inputs))
            outcome.executions += 1
            before = now()
            try:
                target(data)
            except Exception as error:  # noqa: BLE001  # whatever it is, it is what is looked for
                _note(outcome, place_of(error), data)
            if now() - before > _RUN_SECONDS_MAX:
                _note(outcome, f"more than {_RUN_SECONDS_MAX} s", data)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    outcome.seconds = spent
    return outcome


def _note(outcome: Outcome, what: str, data: bytes) -> None:
    if what not in outcome.findings:
        FOUND.mkdir(parents=True, exist_ok=True)
        path = FOUND / file_name(data)
        path.write_bytes(data)
        outcome.findings[what] = path


def _mapped_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def run_guided(target: Target, seconds: float) -> Outcome:
    """Let atheris search for so long, from samples and corpus; what reaches new code is added to the corpus.

    What is there stays: it may have taken a longer run to find. The first finding ends the run.

    Raises:
        InterruptedRunError: It ended for another reason; the corpus is as it was.
    """
    with tempfile.TemporaryDirectory() as name:
        known, new, found = _folders(Path(name), "known", "new", "found")
        before = _write_known(target, known)
        begin = time.monotonic()
        ended, said = _libfuzzer(
            target,
            seconds,
            *(f"-max_total_time={int(seconds)}", _size_max(target), f"-timeout={_RUN_SECONDS_MAX}"),
            *(f"-rss_limit_mb={_MEMORY_BYTES_MAX >> 20}", f"-artifact_prefix={found}/", "-print_final_stats=1"),
            *(str(new), str(known)),
        )
        outcome = Outcome("atheris", seconds=time.monotonic() - begin)
        outcome.executions = sum(map(int, _EXECUTIONS.findall(said)))
        for path in sorted(found.iterdir()):
            _note(outcome, path.name.partition("-")[0], path.read_bytes())
        if ended and not outcome.findings:
            raise InterruptedRunError(f"atheris ended with {ended}: {said[-1000:]}")
        if outcome.findings:
            print(said[-4000:])
        else:
            # Into `known` goes what reaches code that nothing there does.
            _libfuzzer(target, seconds, "-merge=1", _size_max(target), str(known), str(new))
            add(target.name, {path.read_bytes() for path in known.iterdir()} - before)
    return outcome


def minimise(target: Target) -> int:
    """Let atheris choose, of samples and corpus, the smallest inputs that reach the same code; return how many stay.

    Raises:
        InterruptedRunError: It was stopped; the corpus is as it was.
    """
    with tempfile.TemporaryDirectory() as name:
        known, merged = _folders(Path(name), "known", "merged")
        _write_known(target, known)
        merge = ("-set_cover_merge=1", _size_max(target), str(merged), str(known))
        ended, said = _libfuzzer(target, _MINIMISE_SECONDS_MAX, *merge)
        chosen = {path.read_bytes() for path in merged.iterdir()}
        if ended or not chosen:
            raise InterruptedRunError(f"atheris ended with {ended}: {said[-1000:]}")
        return replace(target.name, chosen - set(target.samples()))


def _folders(root: Path, *names: str) -> list[Path]:
    folders = [root / name for name in names]
    for folder in folders:
        folder.mkdir()
    return folders


def _write_known(target: Target, folder: Path) -> set[bytes]:
    known = {*target.samples(), *read_corpus(target.name)}
    for data in known:
        (folder / file_name(data)).write_bytes(data)
    return known


def _size_max(target: Target) -> str:
    largest = max(map(len, target.samples()))
    return f"-max_len={_LARGE_INPUT_BYTES_MAX if largest > _INPUT_BYTES_MAX else _INPUT_BYTES_MAX}"


def _libfuzzer(target: Target, seconds: float, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "tests.fuzz.guided", target.name, *arguments]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, errors="replace", timeout=seconds * 2 + _STOP_SECONDS
    )
    return done.returncode, done.stdout + done.stderr
