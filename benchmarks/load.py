"""librdkafka as a client: values that do not compress, delivery reports that are counted."""

import os
import threading
import time
from functools import partial
from itertools import cycle
from typing import Any

from confluent_kafka import KafkaError, Message

from benchmarks.cluster import DEADLINE_SECONDS, TOPIC, BenchmarkError
from raftka.kafka.client import client_config, new_producer

VALUE_BYTES = 1024
_VALUES = 1024
_BURST = 200
_QUEUE_MAX = 20_000


def random_values() -> list[bytes]:
    """Return values of 1 KiB that no codec makes smaller."""
    data = os.urandom(VALUE_BYTES * _VALUES)
    return [data[start : start + VALUE_BYTES] for start in range(0, len(data), VALUE_BYTES)]


class CountingProducer:
    """Sends as fast as it can, or at a given rate, from a thread; counts what was acknowledged.

    Attributes:
        acked: Records that were acknowledged.
        errors: Words of each delivery report that was an error.
        first_answer: Time (perf_counter) of the first acknowledgement of a record that was sent after `watch_from`.
    """

    def __init__(self, bootstrap: str, acks: str, rate: float | None = None, **options: Any) -> None:
        self.acked = 0
        self.errors: list[str] = []
        self.first_answer: float | None = None
        self._watched_since = float("inf")
        self._rate = rate
        self._values = cycle(random_values())
        # librdkafka's own defaults are what is measured, but for what a script asks for.
        self._producer = new_producer(bootstrap, acks, queue_buffering_max_messages=10 * _QUEUE_MAX, **options)
        self._halt = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def __enter__(self) -> "CountingProducer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._halt.set()
        self._thread.join(DEADLINE_SECONDS)
        if self._producer.flush(DEADLINE_SECONDS):
            raise BenchmarkError("records were never answered")

    def watch_from(self, moment: float) -> None:
        """Note in `first_answer` when the first record that is sent after `moment` (perf_counter) is acknowledged."""
        # In this order: an older record that is answered in between is not taken for a newer one.
        self._watched_since = moment
        self.first_answer = None

    def _run(self) -> None:
        if self._rate is None:
            self._flood()
        else:
            self._run_at(self._rate)

    def _flood(self) -> None:
        producer, values = self._producer, self._values
        while not self._halt.is_set():
            if len(producer) >= _QUEUE_MAX:
                producer.poll(0.01)
                continue
            for _ in range(_BURST):
                producer.produce(TOPIC, next(values), on_delivery=self._count)
            producer.poll(0)

    def _run_at(self, rate: float) -> None:
        due = time.perf_counter()
        while not self._halt.is_set():
            sent_at = time.perf_counter()
            if len(self._producer) < _QUEUE_MAX:
                self._producer.produce(TOPIC, next(self._values), on_delivery=partial(self._note_first, sent_at))
            due = max(due + 1 / rate, sent_at)
            while (left := due - time.perf_counter()) > 0:
                self._producer.poll(left)

    def _note_first(self, sent_at: float, error: KafkaError | None, message: Message) -> None:
        self._count(error, message)
        if error is None and self.first_answer is None and sent_at > self._watched_since:
            self.first_answer = time.perf_counter()

    def _count(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.acked += 1
        else:
            self.errors.append(str(error))


def latencies(bootstrap: str, acks: str, warm_up: int, count: int) -> list[float]:
    """Return the latencies (ms) of `count` records, each sent after the answer to the one before.

    Raises:
        BenchmarkError: A record was refused or not answered.
    """
    values = cycle(random_values())
    outcomes: list[KafkaError | None] = []
    producer = new_producer(bootstrap, acks, linger_ms=0)

    def note(error: KafkaError | None, _: Message) -> None:
        outcomes.append(error)

    samples = []
    for number in range(warm_up + count):
        outcomes.clear()
        sent_at = time.perf_counter()
        producer.produce(TOPIC, next(values), partition=0, on_delivery=note)
        while not outcomes:
            producer.poll(1.0)
            if time.perf_counter() - sent_at > DEADLINE_SECONDS:
                raise BenchmarkError(f"a record at acks={acks} was not answered")
        answered_at = time.perf_counter()
        if outcomes[0] is not None:
            raise BenchmarkError(f"a record at acks={acks} was refused: {outcomes[0]}")
        if number >= warm_up:
            samples.append(1000 * (answered_at - sent_at))
    return samples


def client_facts() -> dict[str, Any]:
    """Return the client's version and what of its configuration differs from librdkafka's defaults."""
    import confluent_kafka

    config = client_config("")
    return {
        "librdkafka": confluent_kafka.libversion()[0],
        "configuration": {name: config[name] for name in sorted(config) if name.startswith("reconnect")},
    }
