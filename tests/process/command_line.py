"""`raftka` as a person runs it, for tests: commands as processes, and a detached dev cluster known by its folder."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RAFTKA = [sys.executable, "-c", "from raftka.cli.main import main; main()"]
FREE_PORTS = ["--port", "0", "--admin-port", "0", "--rpc-port", "0"]
SECONDS = 90.0

# `raftka` below, with a cluster's address given.
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("RAFTKA_")}


def raftka(*arguments: str, stdin: str = "", code: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run one command to its end; its exit code must be `code`, and never is there a traceback."""
    done = subprocess.run(
        [*RAFTKA, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=environment() | variables,
    )
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done


@contextmanager
def started(
    command: Sequence[str], *, stdin: int = subprocess.DEVNULL, **variables: str
) -> "Iterator[subprocess.Popen[str]]":
    """Yield a process that the test ends; if the test fails first, it is killed."""
    process = subprocess.Popen(
        command,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment() | variables,
    )
    with process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def read_until(process: "subprocess.Popen[str]", beginning: str) -> list[str]:
    """Return the lines of a process's output up to the first that begins so."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith(beginning):
            return lines
    raise AssertionError(f"ended without a line {beginning!r}: {''.join(lines)}")


@dataclass(frozen=True)
class DevFolder:
    """A detached dev cluster, known by nothing but its folder."""

    path: Path

    def dev(self, *arguments: str, code: int = 0) -> str:
        return raftka("dev", *arguments, "--data-dir", str(self.path), code=code).stdout

    def status(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.dev("status", "--format", "json"))
        return found

    @property
    def bootstrap(self) -> str:
        return ",".join(each["kafka"] for each in self.status())

    def client(self, *arguments: str, stdin: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
        return raftka(*arguments, stdin=stdin, code=code, RAFTKA_BROKERS=self.bootstrap)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """As `client`, however it ends."""
        variables = environment() | {"RAFTKA_BROKERS": self.bootstrap}
        return subprocess.run([*RAFTKA, *arguments], capture_output=True, text=True, timeout=SECONDS, env=variables)

    def is_healthy(self) -> bool:
        return self._passes("cluster", "health", "--brokers", self.bootstrap)

    def is_well(self) -> bool:
        """Whether the doctor finds no problem of the cluster, whichever of the brokers it asks."""
        brokers = self.bootstrap.split(",")
        return all(self._passes("doctor", "cluster", "--brokers", each) for each in brokers)

    def _passes(self, *arguments: str) -> bool:
        done = subprocess.run([*RAFTKA, *arguments], capture_output=True, timeout=SECONDS, env=environment())
        return done.returncode == 0


def start_detached(path: Path, nodes: int, **options: object) -> DevFolder:
    """Start a cluster of `raftka dev`; `options` are configuration keys of its brokers, with "_" for "."."""
    folder = DevFolder(path)
    chosen = [word for key, value in options.items() for word in ("-c", f"{key.replace('_', '.')}={value}")]
    folder.dev("-n", str(nodes), *FREE_PORTS, *chosen, "--detach")
    return folder


@contextmanager
def dev_with_transactions(path: Path) -> Iterator[DevFolder]:
    """Run one broker that keeps all transactional ids in one partition."""
    folder = start_detached(path, 1, **{"transaction.state.log.num.partitions": 1})
    try:
        yield folder
    finally:
        folder.dev("stop")
