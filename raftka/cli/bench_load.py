"""The load of `raftka bench`: threads that write at a rate or as fast as they can, threads that read, and latencies.

A record begins with the moment at which it was to be sent, in nanoseconds of this process's monotonic clock: at a rate
that the cluster does not keep up with, the time for which a record waited for its turn counts, too.
"""

import os
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from raftka.chaos.latencies import LatencyHistogram
from raftka.cli.record_input import RECORD_BYTES_MAX
from raftka.error_text import reason_of
from raftka.kafka import client as kafka_client
from raftka.kafka.errors import KafkaClientError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

# When it was due, and to which run it belongs: a topic may have other records.
_STAMP = struct.Struct(">qI")
RECORD_BYTES_MIN = _STAMP.size
# As much as the Java client's buffer.memory: with more, latencies would be those of our own queue.
_QUEUE_KBYTES = 32 * 1024
_FLUSH_SECONDS = 30.0
_POLL_SECONDS = 0.05
_CONSUMED_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """What is done.

    Attributes:
        brokers: HOST:PORT,...
        topic: Its name.
        ends: Offset from which each partition is read, by number; empty: nobody reads.
        producers: Threads that write.
        consumers: Threads that read, each some of the partitions.
        size: Bytes of a value, at least RECORD_BYTES_MIN.
        rate: Records per second of all producers together; 0: as fast as they can.
        warmup: Seconds before anything counts.
        seconds: Seconds that count.
        producer_options: For librdkafka, spelled with `_` for `.`.
    """

    brokers: str
    topic: str
    ends: dict[int, int]
    producers: int
    consumers: int
    size: int
    rate: float
    warmup: float
    seconds: float
    producer_options: dict[str, Any]


@dataclass(slots=True)
class Tally:
    """What one thread has counted; `failures` is why, and how often."""

    latencies: LatencyHistogram = field(default_factory=LatencyHistogram)
    failures: dict[str, int] = field(default_factory=dict)

    def fail(self, error: "KafkaError") -> None:
        """Count a failure."""
        reason = kafka_client.error_text(error)
        self.failures[reason] = self.failures.get(reason, 0) + 1

    @staticmethod
    def together(tallies: "Sequence[Tally]") -> "Tally":
        """Return the sum."""
        total = Tally()
        for each in tallies:
            total.latencies.update(each.latencies)
            for reason, count in each.failures.items():
                total.failures[reason] = total.failures.get(reason, 0) + count
        return total


class Load:
    """One run; `stop` ends it early."""

    def __init__(self, request: LoadRequest) -> None:
        self._request = request
        self._run = int.from_bytes(os.urandom(4))
        self._stopped = threading.Event()
        self._drained = threading.Event()
        self._abandoned = threading.Event()
        self._progressed = time.monotonic()
        self._lock = threading.Lock()
        # Records that are written and not yet read.
        self._unread = 0
        self._begin = time.monotonic_ns()
        self._first = self._begin + int(request.warmup * 1e9)
        self._last = self._first + int(request.seconds * 1e9)
        self._produced = [Tally() for _ in range(request.producers)]
        self._consumed = [Tally() for _ in range(min(request.consumers, len(request.ends)))]
        self._writers = [self._thread(self._write, index, tally) for index, tally in enumerate(self._produced)]
        self._readers = [self._thread(self._read, index, tally) for index, tally in enumerate(self._consumed)]

    def start(self) -> None:
        """Start the threads."""
        for thread in [*self._readers, *self._writers]:
            thread.start()

    @property
    def seconds_passed(self) -> float:
        """Seconds since the start."""
        return (time.monotonic_ns() - self._begin) / 1e9

    @property
    def seconds_idle(self) -> float:
        """Seconds since the last record was acknowledged or read, or the start."""
        return time.monotonic() - self._progressed

    @property
    def seconds_measured(self) -> float:
        """Seconds that have counted so far, after the warm-up; 0: none."""
        return max(0.0, min(time.monotonic_ns(), self._last) - self._first) / 1e9

    @property
    def is_over(self) -> bool:
        """Whether every producer has ended, and has an outcome for all its records."""
        return not any(thread.is_alive() for thread in self._writers)

    def stop(self) -> None:
        """Let producers send nothing more; to be called at the end as well as before it."""
        self._stopped.set()

    def abandon(self) -> None:
        """Send nothing more, and wait neither for acknowledgements nor for readers: `join` returns what there is."""
        self._abandoned.set()
        self._drained.set()
        self.stop()

    def join(self) -> tuple[Tally, Tally]:
        """Wait until what was written is read, or nothing more comes; return what was produced and consumed."""
        for thread in self._writers:
            thread.join()
        deadline = time.monotonic() + _FLUSH_SECONDS
        while (
            not self._drained.is_set()
            and self._unread > 0
            and any(each.is_alive() for each in self._readers)
            and time.monotonic() < deadline
        ):
            time.sleep(_POLL_SECONDS)
        self._drained.set()
        for thread in self._readers:
            thread.join()
        return Tally.together(self._produced), Tally.together(self._consumed)

    def _thread(self, target: Callable[[int, Tally], None], index: int, tally: Tally) -> threading.Thread:
        def run() -> None:
            try:
                target(index, tally)
            except KafkaClientError as error:
                tally.failures[str(error)] = 1
                self.stop()
            except Exception as error:  # noqa: BLE001 - a thread that dies must not look like one that had nothing to do
                tally.failures[f"{type(error).__name__}: {reason_of(error)}"] = 1
                self.stop()

        # Whoever is interrupted need not wait for them.
        return threading.Thread(target=run, daemon=True)

    def _write(self, _: int, tally: Tally) -> None:
        producer = kafka_client.new_producer(
            self._request.brokers,
            queue_buffering_max_kbytes=max(_QUEUE_KBYTES, 2 * self._request.size // 1024),
            message_max_bytes=RECORD_BYTES_MAX,
            **self._request.producer_options,
        )
        self._send_all(producer, tally)
        deadline = time.monotonic() + _FLUSH_SECONDS
        while len(producer) and time.monotonic() < deadline and not self._abandoned.is_set():
            producer.flush(_POLL_SECONDS)
        if (waiting := len(producer)) and not self._abandoned.is_set():
            tally.failures[f"not acknowledged in {_FLUSH_SECONDS:.0f} s"] = waiting

    def _send_all(self, producer: "Producer", tally: Tally) -> None:
        request = self._request
        # Half of it repeats itself, so that codecs have something to do, and not everything.
        noise = os.urandom((request.size - _STAMP.size + 1) // 2)
        body = (noise + noise)[: request.size - _STAMP.size]
        interval = 1e9 * request.producers / request.rate if request.rate else 0.0
        sent = 0

        def on_delivery(error: "KafkaError | None", message: "Message") -> None:
            if error is not None:
                tally.fail(error)
                return
            self._progressed = time.monotonic()
            self._count(tally, message.value())
            if self._readers:
                with self._lock:
                    self._unread += 1

        while not self._stopped.is_set():
            now = time.monotonic_ns()
            due = self._begin + int(sent * interval) if interval else now
            if due >= self._last:
                return
            if due > now:
                producer.poll((due - now) / 1e9)
                continue
            try:
                producer.produce(request.topic, _STAMP.pack(due, self._run) + body, on_delivery=on_delivery)
            except BufferError:
                producer.poll(_POLL_SECONDS)
                continue
            sent += 1
            producer.poll(0)

    def _read(self, index: int, tally: Tally) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        consumer = kafka_client.new_consumer(self._request.brokers)
        try:
            mine = [number for number in sorted(self._request.ends) if number % len(self._consumed) == index]
            consumer.assign([TopicPartition(self._request.topic, each, self._request.ends[each]) for each in mine])
            while not self._drained.is_set():
                found = consumer.consume(_CONSUMED_AT_ONCE, _POLL_SECONDS)
                read = sum(self._take(tally, message) for message in found)
                if read:
                    self._progressed = time.monotonic()
                    with self._lock:
                        self._unread -= read
        except KafkaException as error:
            tally.fail(error.args[0])
        finally:
            consumer.close()

    def _take(self, tally: Tally, message: "Message") -> bool:
        """Return whether it is a record of this run."""
        error = message.error()
        if error is not None:
            from raftka.cli.assigned_reader import passes_by_itself

            if not passes_by_itself(error):
                tally.fail(error)
            return False
        return self._count(tally, message.value())

    def _count(self, tally: Tally, value: Any) -> bool:
        if value is None or len(value) < _STAMP.size:
            return False
        due, run = _STAMP.unpack_from(value)
        if run == self._run and self._first <= due < self._last:
            tally.latencies.add(time.monotonic_ns() - due)
        return bool(run == self._run)
