"""Applications of frameworks in Python, each in an environment of its own: they want older libraries than Raftka has."""

import shutil
import subprocess
from pathlib import Path

from tests.ecosystem.python_environments import FOLDER, python_with
from tests.process.broker_processes import eventually

_START_SECONDS = 60.0
_LOG_END = 3_000


class SumsApplication:
    """An instance that reads numbers and writes the running sum of each key; whoever makes it calls `kill`.

    Args:
        framework: Which program below python/.
        bootstrap: The brokers.
        group: Of the application.
        topics: What it reads and what it writes.
        folder: For its state and what it says.
        replicas: Of the topics that it makes.
    """

    def __init__(
        self, framework: str, bootstrap: str, group: str, topics: tuple[str, str], folder: Path, replicas: int
    ) -> None:
        self._state = folder / framework
        self._log = folder / f"{framework}.log"
        program = str(FOLDER / f"{framework}_sums.py")
        words = [bootstrap, group, *topics, str(self._state), str(replicas)]
        self._command = [str(python_with(framework)), program, *words]
        self._process: subprocess.Popen[bytes] | None = None
        # Where the log of this life begins.
        self._begins = 0

    def start(self) -> None:
        """Begin a life without a state, as on another machine: the changelog has it."""
        shutil.rmtree(self._state, ignore_errors=True)
        with self._log.open("ab") as output:
            self._begins = output.tell()
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def kill(self) -> None:
        """SIGKILL if it runs, and reap."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def check_runs(self) -> None:
        assert self._process is not None
        code = self._process.poll()
        assert code is None, f"it has ended with {code}:{self.log_end()}"

    def wait_says(self, text: str) -> None:
        """Wait until its log has the text, said in this life."""

        def has_said() -> bool:
            self.check_runs()
            return text.encode() in self._log.read_bytes()[self._begins :]

        eventually(lambda: f"it says {text!r}:{self.log_end()}", has_said, _START_SECONDS)

    def log_end(self) -> str:
        """Return the end of the log, for an assertion message."""
        return f"\n{self._log.read_text(errors='replace')[-_LOG_END:]}"
