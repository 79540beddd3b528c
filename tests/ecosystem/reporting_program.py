"""A program that goes on until its standard input ends, and prints what it has done: one JSON document a line."""

import json
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.process.broker_processes import eventually

_END_SECONDS = 120.0
_LOG_END = 3_000


class ReportingProgram:
    """It starts at once; whoever makes it calls `close`.

    Args:
        command: The program with its arguments.
        log: Where its standard error goes.

    Attributes:
        reports: What it has printed.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.reports: list[Any] = []
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._thread = threading.Thread(target=self._read, name="reports", daemon=True)
        self._thread.start()

    def wait_more(self, count: int, seconds: float) -> None:
        """Wait until it has reported so much more."""
        before = len(self.reports)

        def has_more() -> bool:
            code = self._process.poll()
            assert code is None, f"the program has ended with {code}:{self.log_end()}"
            return len(self.reports) >= before + count

        eventually(lambda: f"{len(self.reports) - before} of {count} reports{self.log_end()}", has_more, seconds)

    def end(self) -> list[Any]:
        """Let it finish what it is at, and return all reports."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = self._process.wait(_END_SECONDS)
        self._thread.join(_END_SECONDS)
        assert code == 0, f"the program has ended with {code}:{self.log_end()}"
        return self.reports

    def close(self) -> None:
        """SIGKILL if it runs, and reap."""
        self._process.kill()
        self._process.wait()
        self._thread.join(_END_SECONDS)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def log_end(self) -> str:
        """Return the end of the log, for an assertion message."""
        return f"\n{self._log.read_text(errors='replace')[-_LOG_END:]}"

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # A killed program leaves a part of a line.
            if line.endswith("\n"):
                self.reports.append(json.loads(line))
