"""Kafka's own programs beside the brokers, each in one small JVM."""

import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.kafka.jars import class_path_of

_POMS = Path(__file__).parent / "java"
_BUILD = Path(__file__).parents[2] / "build" / "ecosystem"
_JVM = ("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=WARN")
_END_SECONDS = 60.0
_LOG_END = 3_000


def connect_class_path() -> str:
    """Return a class path with the jars of Kafka Connect and MirrorMaker."""
    return class_path_of(_POMS / "connect" / "pom.xml", _BUILD / "connect-jars")


def debezium_class_path() -> str:
    """Return a class path with the jars of Kafka Connect and Debezium; one holds PostgreSQL's programs."""
    return class_path_of(_POMS / "debezium" / "pom.xml", _BUILD / "debezium-jars")


class JavaProcess:
    """A program that reads a file of properties, over all its lives; whoever makes it calls `kill`.

    Args:
        main_class: The program.
        properties: What is in the file.
        folder: For the file, and for what the program says.
        name: Of the file and of the log.
        find_class_path: Finds the jars; Maven may have to fetch them.
    """

    def __init__(
        self,
        main_class: str,
        properties: Mapping[str, object],
        folder: Path,
        name: str,
        find_class_path: Callable[[], str] = connect_class_path,
    ) -> None:
        self._main_class = main_class
        self._find_class_path = find_class_path
        self._name = name
        self._properties = folder / f"{name}.properties"
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8")
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begin a life."""
        command = [*_JVM, "-cp", self._find_class_path(), self._main_class, str(self._properties)]
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def kill(self) -> None:
        """SIGKILL if it runs, and reap."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def end(self) -> None:
        """SIGTERM, and wait for the end."""
        assert self._process is not None
        self.check_runs()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(_END_SECONDS)

    def check_runs(self) -> None:
        assert self._process is not None
        code = self._process.poll()
        assert code is None, f"{self._name} has ended with {code}:{self.log_end()}"

    def log_end(self) -> str:
        """Return the end of the log, for an assertion message."""
        return f"\n{self._name}:\n{self._log.read_text(errors='replace')[-_LOG_END:]}"
