"""The double of a schema registry as a process, and the program that works with it by Confluent's client."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from raftka.dev.ports import PortRequest, choose_addresses
from tests.ecosystem.python_environments import FOLDER, python_with
from tests.ecosystem.reporting_program import ReportingProgram
from tests.process.broker_processes import eventually

_ROOT = Path(__file__).parents[2]
_PROGRAM = FOLDER / "avro_records.py"
_START_SECONDS = 90.0
_ANSWER_SECONDS = 5.0
_READ_SECONDS = 150.0


class RegistryProcess:
    """A registry without a local state; whoever makes it calls `kill`.

    Args:
        bootstrap: The brokers.
        folder: For what it says.

    Attributes:
        url: Where it answers.
    """

    def __init__(self, bootstrap: str, folder: Path) -> None:
        (addresses,) = choose_addresses(1, PortRequest(0, 0, 0))
        self.url = f"http://{addresses.admin}"
        self._command = [sys.executable, "-m", "tests.ecosystem.schema_registry_double", bootstrap, addresses.admin]
        self._log = folder / "registry.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begin a life, and wait until it has read its topic."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        eventually(lambda: f"the registry answers:{self.log_end()}", self._answers, _START_SECONDS)

    def kill(self) -> None:
        """SIGKILL if it runs, and reap."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def log_end(self) -> str:
        """Return the end of the log, for an assertion message."""
        return f"\n{self._log.read_text(errors='replace')[-2_000:]}"

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log_end()
        try:
            with urlopen(f"{self.url}/subjects", timeout=_ANSWER_SECONDS):
                return True
        except OSError:
            return False


def avro_writer(bootstrap: str, registry: str, topic: str, folder: Path) -> ReportingProgram:
    """Start the program that registers schemas and writes records."""
    command = [str(python_with("avro")), str(_PROGRAM), "write", bootstrap, registry, topic]
    return ReportingProgram(command, folder / "avro-writer.log")


class Picture:
    """All subjects with their versions, and all records of the topic, as somebody sees them who knows nothing yet.

    Attributes:
        versions: The id and the schema of each subject and version.
        subjects: All subjects, also those that are deleted but not permanently.
        values: How often there is each value of a subject.
        level: The level of compatibility of the subject that has one.
    """

    def __init__(self, reports: list[Any]) -> None:
        self.versions: dict[tuple[str, int], tuple[int, str]] = {}
        self.subjects: set[str] = set()
        self.values: Counter[tuple[str, str]] = Counter()
        self.level = ""
        for each in reports:
            if "id" in each:
                self.versions[each["subject"], each["version"]] = (each["id"], each["schema"])
                self.subjects.add(each["subject"])
            if "deleted" in each:
                self.versions.pop((each["deleted"], 1), None)
                self.subjects.discard(each["deleted"])
            self.subjects.update(each.get("subjects", []))
            values = each.get("values", [each["value"]] if "value" in each else [])
            self.values.update((each["subject"], json.dumps(value)) for value in values)
            self.level = each.get("level", self.level)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Picture) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return id(self)


def read_picture(bootstrap: str, registry: str, topic: str) -> Picture:
    """Return what Confluent's client and deserializer see."""
    command = [str(python_with("avro")), str(_PROGRAM), "read", bootstrap, registry, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_READ_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    return Picture([json.loads(line) for line in done.stdout.splitlines()])
