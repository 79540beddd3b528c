"""Runs one pipeline: name, checkpoint, trigger, progress, and an end between two batches."""

import logging
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING, Any

import msgspec

from raftka.dev.process_identity import ProcessIdentity
from raftka.error_text import reason_of
from raftka.kafka.errors import KafkaClientError
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.kinds import Kind
from raftka.pipeline.progress import Progress
from raftka.pipeline.progress_outputs import (
    ProgressOutput,
    ProgressTopic,
    Prometheus,
    Terminal,
    complain,
    print_line,
)
from raftka.pipeline.query_errors import is_jvm_ending, query_error
from raftka.pipeline.run import PipelineRun
from raftka.pipeline.run_folder import RunFolder, check_checkpoint
from raftka.pipeline.settings import PipelineSettings
from raftka.pipeline.spark_session import jvm_pid, open_session, require_spark, spark_errors
from raftka.pipeline.status import State, Status
from raftka.pipeline.topic_identity import TopicIdentity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

_POLL_SECONDS = 0.5
_IDENTITY_SECONDS = 10.0
_LISTENER_SECONDS = 30.0
_JVM_ENDING_SECONDS = 10.0
_SECURED = ("security.", "sasl.", "ssl.")


@dataclass(slots=True)
class StopRequest:
    """Whether somebody wants the run to end, and whether now: nobody waits for a batch then."""

    is_set: bool = False
    is_hurried: bool = False

    def set(self) -> None:
        """Ask for the end."""
        self.is_set = True


class Runner:
    """One run, from its lock to its last status. `run` returns when the query has ended, and raises if it failed."""

    def __init__(
        self,
        name: str,
        kind: Kind,
        settings: PipelineSettings,
        folder: RunFolder,
        stop: StopRequest,
        out: Callable[[str], None] = print_line,
    ) -> None:
        self._name = name
        self._kind = kind
        self._settings = settings
        self._folder = folder
        self._stop = stop
        self._out = out
        self._jvm: ProcessIdentity | None = None
        # The listener's thread and ours write the status.
        self._status_lock = threading.Lock()
        me = ProcessIdentity.of(os.getpid())
        assert me is not None
        self._status = Status(
            name=name,
            kind=settings.kind,
            version=settings.version,
            state=State.STARTING,
            pid=me.pid,
            started=me.started,
            since=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def run(self, session: "SparkSession | None" = None) -> Status:
        """Run the pipeline in a session, or in one of its own, which ends with it.

        Raises:
            PipelineError: It cannot start, or the query failed.
            KafkaClientError: The brokers do not answer.
        """
        require_spark()
        with self._folder.locked():
            self._note(state=State.STARTING)
            if secured := [key for key in self._settings.kafka if key.startswith(_SECURED)]:
                complain(
                    f"kafka.{secured[0]} applies to Spark's clients only: Raftka looks up topics and their ids over"
                    f" plaintext connections to {self._settings.brokers}"
                )
            try:
                identity = TopicIdentity(self._settings, self._folder.topics_path(self._settings.version))
                identity.check()
                if session is not None:
                    self._run_in(session, identity)
                else:
                    with self._own_session() as spark:
                        self._run_in(spark, identity)
            except BaseException as error:  # noqa: BLE001 - raised again, in words
                told = self._told(error)
                is_plain = isinstance(told, (PipelineError, KafkaClientError)) or self._stop.is_hurried
                self._note(state=State.FAILED, error=str(told) if is_plain else f"{type(told).__name__}: {told}")
                raise told from None
            self._note(state=State.STOPPED if self._stop.is_set else State.DONE)
        return self._status

    @contextmanager
    def _own_session(self) -> "Iterator[SparkSession]":
        self._out(f"starting Spark, which writes to {self._folder.spark_log}")
        spark = open_session(self._name, self._settings.spark, self._folder.spark_log)
        pid = jvm_pid(spark)
        jvm = None if pid is None else ProcessIdentity.of(pid)
        if jvm is not None:
            self._note(jvm_pid=jvm.pid, jvm_started=jvm.started)
        self._jvm = jvm
        try:
            yield spark
        finally:
            # A JVM that is gone cannot be asked to stop, and says less than what has happened before.
            with suppress(*spark_errors()), warnings.catch_warnings(action="ignore"):
                spark.stop()

    def _told(self, error: BaseException) -> BaseException:
        """Return what is told of an error: why, in a line, wherever that is known."""
        if self._stop.is_hurried:
            return KeyboardInterrupt("a second signal: the batch was interrupted, and is repeated by the next start")
        is_of_spark = isinstance(error, spark_errors())
        if self._jvm is not None and (is_of_spark or isinstance(error, PipelineError)):
            # A JVM that is being ended closes its connections first.
            seconds = _JVM_ENDING_SECONDS if is_jvm_ending(error) else 0.0
            if self._jvm.wait_gone(seconds):
                return PipelineError(
                    f"Spark's JVM (pid {self._jvm.pid}) has ended: it was killed, or ran out of memory, and"
                    f" {self._folder.spark_log} has its last lines; the next start repeats the batch"
                )
        if is_of_spark and not isinstance(error, OSError):
            return PipelineError(query_error(reason_of(error)))
        return error

    def _run_in(self, spark: "SparkSession", identity: TopicIdentity) -> None:
        from raftka.pipeline.listener import ProgressListener

        checkpoint = self._folder.checkpoint(self._settings.version)
        check_checkpoint(checkpoint)
        with ExitStack() as stack:
            outputs = self._outputs(stack)
            listener = ProgressListener(self._name, outputs, self._on_batch, complain)
            run = PipelineRun(self._name, self._settings, spark, self._folder.path, checkpoint)
            stack.enter_context(run.resources)
            writer = self._kind.build(run).queryName(self._name)
            writer = writer.option("checkpointLocation", str(checkpoint))
            seconds = self._settings.trigger_seconds
            if seconds is None:
                writer = writer.trigger(availableNow=True)
            else:
                writer = writer.trigger(processingTime=f"{round(seconds * 1_000)} milliseconds")
            spark.streams.addListener(listener)
            stack.callback(spark.streams.removeListener, listener)
            query: StreamingQuery = writer.start()
            try:
                self._note(state=State.RUNNING)
                self._watch(query, identity)
            finally:
                if query.isActive:
                    with interrupting():
                        query.stop()
                # Its last progress is on its way until then.
                listener.has_ended.wait(_LISTENER_SECONDS)

    def _outputs(self, stack: ExitStack) -> list[ProgressOutput]:
        outputs: list[ProgressOutput] = [Terminal(self._out)]
        if self._settings.metrics_port is not None:
            served = Prometheus(self._name, self._settings.metrics_port)
            self._out(f"metrics: http://127.0.0.1:{served.port}/metrics")
            outputs.append(served)
        if self._settings.progress_topic is not None:
            outputs.append(ProgressTopic(self._settings.brokers, self._settings.progress_topic, complain))
        for output in outputs:
            stack.callback(output.close)
        return outputs

    def _watch(self, query: "StreamingQuery", identity: TopicIdentity) -> None:
        from pyspark.errors import PySparkException

        next_check = time.monotonic() + _IDENTITY_SECONDS
        try:
            while not query.awaitTermination(_POLL_SECONDS):
                if self._stop.is_set:
                    self._note(state=State.STOPPING)
                    self._wait_for_batch(query)
                    with interrupting():
                        query.stop()
                    return
                if time.monotonic() >= next_check:
                    self._check_identity(identity)
                    next_check = time.monotonic() + _IDENTITY_SECONDS
        except PySparkException as error:
            # A topic that is gone, or is another one now, explains more than what Spark says of its offsets.
            self._check_identity(identity)
            raise PipelineError(query_error(reason_of(error))) from None

    def _wait_for_batch(self, query: "StreamingQuery") -> None:
        """Wait until the batch that runs is complete, or for as long as a stop may take."""
        completed = self._status.batches
        deadline = time.monotonic() + self._settings.stop_seconds
        while query.isActive and query.status["isTriggerActive"] and self._status.batches == completed:
            if time.monotonic() >= deadline:
                complain(
                    f"the batch took longer than stop.seconds = {self._settings.stop_seconds:g}: the run interrupts it,"
                    " and repeated by the next start"
                )
                return
            time.sleep(_POLL_SECONDS / 5)

    def _check_identity(self, identity: TopicIdentity) -> None:
        try:
            identity.check()
        except KafkaClientError as error:
            # Spark's own clients wait for the brokers, and so do we.
            complain(f"the topics cannot be looked up: {error}")

    def _on_batch(self, progress: Progress) -> None:
        self._note(last=progress, rows=self._status.rows + progress.rows, batches=self._status.batches + 1)

    def _note(self, **changes: Any) -> None:
        with self._status_lock:
            self._status = msgspec.structs.replace(self._status, **changes)
            self._folder.save(self._status)


@contextmanager
def interrupting() -> Iterator[None]:
    """Keep py4j from printing what a batch of ours raises when it is cut short.

    Spark begins the next batch as soon as one is complete, so even a stop between two may meet one. That costs
    nothing: what it read is read again by the next start.
    """

    def drop(_: logging.LogRecord) -> bool:
        return False

    # A filter of our own and not a level: another pipeline in this process may stop at the same time.
    logger = logging.getLogger("py4j.clientserver")
    logger.addFilter(drop)
    try:
        yield
    finally:
        logger.removeFilter(drop)


@contextmanager
def stop_on_signals(stop: StopRequest) -> Iterator[None]:
    """Let SIGTERM and Ctrl-C ask for the end of the run; a second one interrupts it."""

    def on_signal(number: int, _: FrameType | None) -> None:
        if stop.is_hurried:
            # What is being ended already must not be cut short once more.
            return
        if stop.is_set:
            stop.is_hurried = True
            raise KeyboardInterrupt
        stop.set()

    # Whoever starts us with Ctrl-C ignored, as nohup does, means it.
    wanted = [each for each in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(each) is not signal.SIG_IGN]
    before = {number: signal.signal(number, on_signal) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
