"""Archive and telemetry, run side by side in one session: a second JVM would cost seconds, and a gigabyte."""

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from raftka.dev.process_identity import ProcessIdentity
from raftka.kafka.errors import KafkaClientError
from raftka.pipeline.archive.folder import ArchiveFolder
from raftka.pipeline.archive.manifest import Manifest, Partition, load_manifest
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.kinds import load_kind
from raftka.pipeline.run_folder import RunFolder
from raftka.pipeline.runner import Runner, StopRequest
from raftka.pipeline.settings import convert
from raftka.pipeline.spark_session import jvm_pid, open_session
from raftka.pipeline.status import State, Status
from raftka.pipeline.story.orders import SCHEMA, TOPIC
from raftka.pipeline.story.waiting import DEADLINE_SECONDS, StoryError
from raftka.pipeline.telemetry.folder import TablesFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEAD_LETTERS = "orders-dead-letters"
_TRIGGER = "5s"
_SETTINGS: dict[str, dict[str, str]] = {
    "archive": {"topics": TOPIC, "json.schema": SCHEMA, "dead.letter.topic": DEAD_LETTERS},
    # Short windows, and little patience with what comes late: the reader of the story waits for the last one.
    "telemetry": {"window": "5s", "watermark": "5s"},
}
_BATCH_SECONDS = 20.0
_END_SECONDS = 30.0


class Pipeline:
    """One of them, in a thread of its own."""

    def __init__(self, name: str, brokers: str, folder: Path) -> None:
        kind = load_kind(name)
        values = {"kind": name, "brokers": brokers, "trigger": _TRIGGER} | _SETTINGS[name]
        self._folder = RunFolder(folder, name)
        self._log = folder / f"{name}.log"
        self._stop = StopRequest()
        self._runner = Runner(name, kind, convert(values, kind.settings, name), self._folder, self._stop, self._say)
        self._thread: threading.Thread | None = None
        self.name = name

    @property
    def output(self) -> Path:
        """What it writes."""
        return self._folder.path / self.name

    def start(self, spark: "SparkSession") -> None:
        """Begin to run."""
        self._thread = threading.Thread(target=self._run, args=(spark,), name=self.name, daemon=True)
        self._thread.start()

    def running(self) -> bool | None:
        """Return True once the query has started; None until then.

        Raises:
            StoryError: It has ended.
        """
        self.check()
        status = self._folder.load()
        return True if status is not None and status.state is State.RUNNING else None

    def check(self) -> None:
        """Raise StoryError if it has ended by itself."""
        if self._thread is not None and not self._thread.is_alive():
            raise StoryError(f"pipeline {self.name} has ended: {self._why()}")

    def ask_to_stop(self) -> None:
        """Let it end after the batch that runs."""
        self._stop.set()

    def ended(self) -> Status:
        """Wait for its end; return its last status.

        Raises:
            StoryError: It did not end, or not well.
        """
        assert self._thread is not None
        self._thread.join(DEADLINE_SECONDS)
        status = self._folder.load()
        if self._thread.is_alive():
            raise StoryError(f"pipeline {self.name} has not stopped within {DEADLINE_SECONDS:.0f} s")
        if status is None or status.state is not State.STOPPED:
            raise StoryError(f"pipeline {self.name} did not stop well: {self._why()}")
        return status

    def join(self, seconds: float) -> None:
        """Wait for its end for a while, however it ends."""
        if self._thread is not None:
            self._thread.join(max(0.0, seconds))

    def _run(self, spark: "SparkSession") -> None:
        from py4j.protocol import Py4JError

        # The status says why it failed, and whoever looks after it raises that.
        with contextlib.suppress(PipelineError, KafkaClientError, Py4JError, OSError):
            self._runner.run(spark)

    def _why(self) -> str:
        status = self._folder.load()
        return (status.error if status is not None else None) or "nobody knows why"

    def _say(self, line: str) -> None:
        with self._log.open("a") as log:
            log.write(line + "\n")


class Pipelines:
    """A session and what runs in it. A context manager, at whose end the JVM is gone."""

    def __init__(self, brokers: str, folder: Path) -> None:
        self._folder = folder
        self.archive = Pipeline("archive", brokers, folder)
        self.telemetry = Pipeline("telemetry", brokers, folder)
        self._jvm: ProcessIdentity | None = None

    def __enter__(self) -> "Pipelines":
        self.spark = open_session("story", {"log.level": "ERROR"}, self._folder / "spark.log")
        pid = jvm_pid(self.spark)
        self._jvm = None if pid is None else ProcessIdentity.of(pid)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for each in self.both:
            each.ask_to_stop()
        # It prints what a batch raises that is cut short here.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        deadline = time.monotonic() + _BATCH_SECONDS
        for each in self.both:
            each.join(deadline - time.monotonic())
        # A thread of its own has a connection of its own: ours may have been interrupted in the middle of an answer.
        ending = threading.Thread(target=self._end, name="end of Spark", daemon=True)
        ending.start()
        ending.join(_END_SECONDS)
        if self._jvm is not None and not self._jvm.wait_gone(_END_SECONDS):
            self._jvm.send_signal(signal.SIGKILL)
            self._jvm.wait_gone(_END_SECONDS)

    @property
    def both(self) -> tuple[Pipeline, Pipeline]:
        """The two."""
        return (self.archive, self.telemetry)

    def start(self) -> None:
        """Begin to run both."""
        for each in self.both:
            each.start(self.spark)

    def running(self) -> bool | None:
        """Return True once both have started; None until then."""
        return True if all(each.running() for each in self.both) else None

    def check(self) -> None:
        """Raise StoryError if one of them has ended by itself."""
        for each in self.both:
            each.check()

    def manifest(self) -> Manifest:
        """Return what the archive holds, by its commit records."""
        return load_manifest(ArchiveFolder.open(self.archive.output))

    def has_archived(self, ends: Mapping[Partition, int]) -> bool | None:
        """Return True once the archive has all offsets below these; None until then."""
        self.archive.check()
        held = self.manifest().ends()
        return True if all(held.get(partition, 0) >= end for partition, end in ends.items()) else None

    def has_told(self, moment: float) -> bool | None:
        """Return True once the windows reach to a moment, in seconds since 1970; None until then."""
        self.telemetry.check()
        records = TablesFolder.open(self.telemetry.output).records()
        return True if records and records[-1].end_ms >= moment * 1_000 else None

    def _end(self) -> None:
        try:
            self.spark.stop()
        finally:
            gateway = self.spark.sparkContext._gateway  # noqa: SLF001
            process = getattr(gateway, "proc", None)
            if process is not None and process.stdin is not None:
                # The JVM ends with the pipe from its Python.
                process.stdin.close()
