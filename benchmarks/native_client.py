"""The measuring clients (native/*.c): compiled on first use, run as processes, their JSON line and samples read back.

Written in C because a Python loop is at its limit with a million small records a second, where the brokers are not.
They are linked with the librdkafka that confluent-kafka carries, so every script measures with the same client.
"""

import array
import importlib.util
import json
import math
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.cluster import BenchmarkError
from benchmarks.report import ROOT

_SOURCES = ROOT / "benchmarks" / "native"
_PROGRAMS = ROOT / "build" / "benchmarks" / "native"
_HEADER = Path("/usr/include/librdkafka/rdkafka.h")
_FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"]
_GRACE_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class ClientRun:
    """What a client told at its end.

    Attributes:
        numbers: Its JSON line.
        samples: Seconds of each record in the window, in the order of sending; empty where it was not asked for any.
        unanswered: Records of the window that have no sample.
    """

    numbers: dict[str, Any]
    samples: list[float]
    unanswered: int


def program(name: str) -> Path:
    """Compile native/NAME.c unless that was done since it changed; return the program.

    Raises:
        BenchmarkError: Something that is needed for it is missing; says what to install.
    """
    library = _library()
    made = _PROGRAMS / name
    inputs = [_SOURCES / f"{name}.c", _SOURCES / "client.h", library]
    if made.exists() and made.stat().st_mtime > max(each.stat().st_mtime for each in inputs):
        return made
    if shutil.which("gcc") is None or not _HEADER.exists():
        raise BenchmarkError("the client is compiled: apt-get install gcc libc6-dev librdkafka-dev")
    _PROGRAMS.mkdir(parents=True, exist_ok=True)
    link = [str(library), f"-Wl,-rpath,{library.parent}", "-Wl,--allow-shlib-undefined", "-lpthread", "-lm"]
    command = ["gcc", *_FLAGS, "-o", str(made), str(_SOURCES / f"{name}.c"), *link]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode != 0:
        raise BenchmarkError(f"{name}.c does not compile:\n{found.stderr}")
    return made


def _library() -> Path:
    package = importlib.util.find_spec("confluent_kafka")
    if package is not None and package.origin is not None:
        # Wheels keep the libraries they carry in a folder beside the package.
        carried = Path(package.origin).parents[1] / "confluent_kafka.libs"
        for path in sorted(carried.glob("librdkafka-*.so*")):
            return path
    raise BenchmarkError("confluent-kafka's wheel with its librdkafka is not installed (pip install -e '.[dev]')")


@dataclass(slots=True)
class ClientProcess:
    """A client that runs."""

    process: "subprocess.Popen[str]"
    samples_path: Path

    def finish(self, began: Callable[[], None] = lambda: None, ended: Callable[[], None] = lambda: None) -> ClientRun:
        """Wait for its end; `began` and `ended` are called at the edges of the window it measures.

        Raises:
            BenchmarkError: It failed; with its own words.
        """
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        last = ""
        for line in self.process.stdout:
            last = line.strip()
            if last == "began":
                began()
            elif last == "ended":
                ended()
        words = self.process.stderr.read().strip()
        if self.process.wait(_GRACE_SECONDS) != 0 or not last.startswith("{"):
            raise BenchmarkError(f"the client ended with {self.process.returncode}: {words[-300:] or 'no word'}")
        samples = array.array("d")
        if self.samples_path.exists():
            samples.frombytes(self.samples_path.read_bytes())
        answered = [each for each in samples if not math.isnan(each)]
        return ClientRun(json.loads(last), answered, len(samples) - len(answered))


@contextmanager
def started(name: str, options: Mapping[str, object]) -> Iterator[ClientProcess]:
    """Start a client; it is killed if it still runs at the end.

    Args:
        name: producer or consumer.
        options: Its arguments, as native/NAME.c describes them; `conf` is a mapping of librdkafka settings.
    """
    settings = options.get("conf", {})
    assert isinstance(settings, Mapping)
    arguments = [f"{key}={value}" for key, value in options.items() if key != "conf"]
    arguments += [f"conf.{key}={value}" for key, value in settings.items()]
    with tempfile.TemporaryDirectory() as folder:
        samples = Path(folder) / "samples"
        command = [str(program(name)), *arguments, f"samples={samples}"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            yield ClientProcess(process, samples)
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()


def run(
    name: str,
    options: Mapping[str, object],
    began: Callable[[], None] = lambda: None,
    ended: Callable[[], None] = lambda: None,
) -> ClientRun:
    """Start a client and wait for its end (`started`, `ClientProcess.finish`)."""
    with started(name, options) as client:
        return client.finish(began, ended)
