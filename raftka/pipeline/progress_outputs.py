"""Where progress goes: the terminal, Prometheus, a topic. None of them can end a query."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from raftka.error_text import short_reason_of
from raftka.kafka import client as kafka_client
from raftka.kafka.errors import KafkaClientError
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.progress import Progress, render_progress

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_WAITING_MAX = 1_000
_FLUSH_SECONDS = 10.0


class ProgressOutput(Protocol):
    """Takes the progress of batches, in order."""

    def take(self, progress: Progress) -> None:
        """Note one batch."""

    def close(self) -> None:
        """Pass on what waits, for a bounded time."""


class Terminal:
    """A line per batch that had records, and per batch that was the first without."""

    def __init__(self, out: Callable[[str], None]) -> None:
        self._out = out
        self._was_idle = False

    def take(self, progress: Progress) -> None:
        """Print one batch."""
        is_idle = progress.rows == 0
        if not (is_idle and self._was_idle):
            self._out(render_progress(progress))
        self._was_idle = is_idle

    def close(self) -> None:
        """Nothing waits."""


class Prometheus:
    """Metrics of one pipeline, served on loopback.

    Attributes:
        port: Where.
    """

    def __init__(self, pipeline: str, port: int) -> None:
        """Serve.

        Raises:
            PipelineError: The port is taken.
        """
        from prometheus_client import CollectorRegistry, start_http_server

        self.registry = CollectorRegistry()
        self._metrics = PipelineMetrics(pipeline, self.registry)
        try:
            self._server, self._thread = start_http_server(port, addr="127.0.0.1", registry=self.registry)
        except OSError as error:
            raise PipelineError(f"metrics.port = {port}: {short_reason_of(error)}") from None
        self.port = int(self._server.server_address[1])

    def take(self, progress: Progress) -> None:
        """Count one batch."""
        self._metrics.take(progress)

    def close(self) -> None:
        """Serve no longer."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_FLUSH_SECONDS)


class PipelineMetrics:
    """The metrics themselves."""

    def __init__(self, pipeline: str, registry: "CollectorRegistry") -> None:
        from prometheus_client import Counter, Gauge

        def counter(name: str, what: str, *more: str) -> Any:
            return Counter(f"raftka_pipeline_{name}", what, ["pipeline", *more], registry=registry)

        def gauge(name: str, what: str) -> Any:
            return Gauge(f"raftka_pipeline_{name}", what, ["pipeline"], registry=registry).labels(pipeline)

        self._pipeline = pipeline
        self._batches = counter("batches", "Batches that are complete.").labels(pipeline)
        self._rows = counter("rows", "Records that were read.").labels(pipeline)
        self._phases = counter("phase_seconds", "Seconds by what took them.", "phase")
        self._late = counter("late_rows", "Rows that came behind the watermark and were left out.").labels(pipeline)
        self._observed = counter("observed", "What the query itself counts, by name.", "what")
        self._behind = gauge("offsets_behind", "Offsets between the batch and the ends of the topics.")
        self._state_rows = gauge("state_rows", "Rows that stateful operators hold.")
        self._batch = gauge("batch", "Number of the newest batch.")
        self._watermark = gauge("watermark_seconds", "The watermark, in seconds since 1970; 0 where there is none.")

    def take(self, progress: Progress) -> None:
        """Count one batch."""
        self._batches.inc()
        self._rows.inc(progress.rows)
        for phase, milliseconds in progress.phases.items():
            self._phases.labels(self._pipeline, phase).inc(milliseconds / 1_000)
        self._late.inc(progress.late)
        for name, count in progress.observed.items():
            self._observed.labels(self._pipeline, name).inc(count)
        self._behind.set(progress.behind)
        self._state_rows.set(progress.state_rows)
        self._batch.set(progress.batch)
        self._watermark.set(watermark_seconds(progress.watermark))


def watermark_seconds(watermark: str | None) -> float:
    """Return a watermark in seconds since 1970."""
    from datetime import datetime

    return 0.0 if watermark is None else datetime.fromisoformat(watermark).timestamp()


class ProgressTopic:
    """Progress as JSON in a topic, by name of the pipeline; it is made if it does not exist."""

    def __init__(self, brokers: str, topic: str, complain: Callable[[str], None]) -> None:
        """Make the topic.

        Raises:
            KafkaClientError: It neither exists nor can be made.
        """
        self._topic = topic
        self._complain = complain
        self._is_failing = False
        ensure_topic(brokers, topic)
        self._producer = kafka_client.new_producer(
            brokers, "all", queue_buffering_max_messages=_WAITING_MAX, message_timeout_ms=60_000, linger_ms=50
        )

    def take(self, progress: Progress) -> None:
        """Send one batch's progress."""
        try:
            self._producer.produce(
                self._topic, msgspec.json.encode(progress), progress.query, on_delivery=self._on_delivery
            )
        except BufferError:
            self._note_failure("too many wait for the topic")
        self._producer.poll(0)

    def close(self) -> None:
        """Wait for what is under way."""
        if left := self._producer.flush(_FLUSH_SECONDS):
            self._note_failure(f"{left} progress records were not acknowledged in time")

    def _on_delivery(self, error: Any, _: Any) -> None:
        if error is not None:
            self._note_failure(kafka_client.error_text(error))
        else:
            self._is_failing = False

    def _note_failure(self, why: str) -> None:
        # Once, until it works again: a line per batch would say no more.
        if not self._is_failing:
            self._complain(f"progress does not reach topic {self._topic}: {why}")
        self._is_failing = True


def ensure_topic(brokers: str, topic: str) -> None:
    """Make a topic of one partition unless it exists.

    Raises:
        KafkaClientError: It neither exists nor can be made.
    """
    if topic in kafka_client.read_cluster(brokers).topics:
        return
    try:
        kafka_client.create_topic(brokers, topic, 1, None)
    except KafkaClientError:
        # Somebody else may have been quicker.
        if topic not in kafka_client.read_cluster(brokers).topics:
            raise


def print_line(text: str) -> None:
    """Print at once, also into a file."""
    print(text, flush=True)


def complain(text: str) -> None:
    """Print on stderr."""
    print(f"raftka: {text}", file=sys.stderr, flush=True)
