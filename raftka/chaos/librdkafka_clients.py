"""Producers and consumers on librdkafka, the client that most programs use: a thread each.

librdkafka tries again by itself and does not say what an attempt before the last one may have done, so every error of
a delivery is `info` here. Neither does it tell leader epochs, nor which high watermark came with which poll.
"""

import random
import threading
from typing import TYPE_CHECKING, Any

from raftka.chaos.history import History, now_ns
from raftka.chaos.interruption import join_thread
from raftka.chaos.keyed_records import OutgoingRecord, RecordMaker, name_of
from raftka.chaos.load import DELIVERY_SECONDS, Acks, Topics, padded, tp_of
from raftka.chaos.pacing import Pacer
from raftka.kafka.client import error_text, new_consumer, new_producer

if TYPE_CHECKING:
    from confluent_kafka import Message

# Records of one producer under way at a time; each is a process of the history.
_SLOTS = 400
_IDLE_SECONDS = 0.01
_FLUSH_SECONDS = 3 * DELIVERY_SECONDS
_POLL_RECORDS = 5_000
_POLL_SECONDS = 0.2
_FINAL_POLL_SECONDS = 1.0


def numbered(producer: int, number: int) -> OutgoingRecord:
    """Return the record of a producer's number: no client on the wire sends its value."""
    value = f"r{producer}.{number}"
    return OutgoingRecord(value, padded(value))


class LibrdkafkaProducer:
    """One producer that sends from a thread of its own; every record is a process's only operation at that time.

    `record_of` makes the records: a producer's records of different numbers, and those of different producers, differ.
    """

    def __init__(
        self,
        bootstrap: str,
        history: History,
        rng: random.Random,
        pacer: Pacer,
        topics: Topics,
        acks: Acks,
        *,
        is_idempotent: bool,
        record_of: RecordMaker = numbered,
    ) -> None:
        options: dict[str, Any] = {
            "linger_ms": 0,
            "request_timeout_ms": 5_000,
            "topic_metadata_refresh_interval_ms": 2_000,
        }
        if is_idempotent:
            # Its default. librdkafka promises nothing once it has given up a record of any partition by itself: it goes
            # on in a new epoch, and what it sends again in that is no retry to the broker (its issue #4953).
            options |= {"enable_idempotence": True, "message_timeout_ms": 300_000}
        else:
            options |= {"retries": 0, "message_timeout_ms": int(DELIVERY_SECONDS * 1000)}
        self._producer = new_producer(bootstrap, acks, **options)
        self._history = history
        self._rng = rng
        self._pacer = pacer
        self._topics = topics
        self._record_of = record_of
        self._fields = {"acks": acks, "idem": is_idempotent, "off": None, "epoch": None, "err": None}
        self._free = [history.process() for _ in range(_SLOTS)]
        self._name = self._free[0]
        self._number = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"producer-{self._name}", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> None:
        """Send no more; `join` waits for what is under way."""
        self._stop.set()

    def join(self, gives_up: threading.Event) -> None:
        """Wait until every record has been answered or given up."""
        join_thread(self._thread, _FLUSH_SECONDS + DELIVERY_SECONDS, gives_up)

    def _run(self) -> None:
        while not self._stop.is_set():
            wait = self._pacer.take() if self._free else _IDLE_SECONDS
            if wait:
                self._producer.poll(min(wait, _IDLE_SECONDS))
            else:
                self._send_one(*self._rng.choice(self._topics.all))
                self._producer.poll(0)
        self._producer.flush(_FLUSH_SECONDS)

    def _send_one(self, topic: str, partition: int) -> None:
        self._number += 1
        record = self._record_of(self._name, self._number)
        proc = self._free.pop()
        line = self._history.begin("send", proc, tp=tp_of(topic, partition), **record.fields, **self._fields)

        def on_delivery(error: Any, message: "Message") -> None:
            if error is None:
                offset = message.offset()
                self._history.end(line, "ok", off=offset if offset is not None and offset >= 0 else None)
            else:
                self._history.end(line, "info", err=error_text(error))
            self._free.append(proc)

        headers: list[tuple[str, str | bytes | None]] = list(record.headers)
        self._producer.produce(
            topic, record.value, record.key, partition, on_delivery=on_delivery, headers=headers or None
        )


class LibrdkafkaConsumer:
    """One process that reads every partition from its beginning, from a thread of its own."""

    def __init__(self, bootstrap: str, history: History, topics: Topics) -> None:
        self._bootstrap = bootstrap
        self._history = history
        self._topics = topics
        self._process = history.process()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"consumer-{self._process}", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """Read no more."""
        self._stop.set()

    def join(self, gives_up: threading.Event) -> None:
        """Wait until it does not."""
        join_thread(self._thread, DELIVERY_SECONDS, gives_up)

    def _run(self) -> None:
        self._history.note("assign", proc=self._process, tps=[tp_of(*each) for each in self._topics.all])
        while not self._stop.is_set():
            # Whatever takes a position away begins anew, with a seek that the history knows of.
            self._read(None, is_ended=self._stop.is_set)

    def read_all(self, ends: dict[tuple[str, int], int], stop: threading.Event) -> None:
        """Read every partition from its beginning to its end once more: the final polls; `stop` gives up."""
        wanted = {tp_of(*each): end for each, end in ends.items() if end > 0}
        while wanted and not stop.is_set():
            self._read(wanted, is_ended=lambda: not wanted or stop.is_set())

    def _read(self, wanted: dict[str, int] | None, is_ended: Any) -> None:
        """Read from the beginning until it is ended, or a position is lost."""
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        options = {"fetch_wait_max_ms": 100, "topic_metadata_refresh_interval_ms": 2_000, "check_crcs": True}
        consumer = new_consumer(self._bootstrap, **options)
        try:
            for topic, partition in self._topics.all:
                self._history.note("seek", proc=self._process, tp=tp_of(topic, partition), off=0)
            consumer.assign([TopicPartition(*each, OFFSET_BEGINNING) for each in self._topics.all])
            while not is_ended():
                if not self._poll(consumer, wanted):
                    return
                if wanted is None:
                    self._stop.wait(_POLL_SECONDS)
        finally:
            consumer.close()

    def _poll(self, consumer: Any, wanted: dict[str, int] | None) -> bool:
        inv = now_ns()
        found: dict[str, list[tuple[int, str]]] = {}
        is_lost = False
        for message in consumer.consume(_POLL_RECORDS, _POLL_SECONDS if wanted is None else _FINAL_POLL_SECONDS):
            if message.error() is None:
                tp = tp_of(message.topic(), message.partition())
                name = name_of(message.key(), message.value(), tuple(message.headers() or ()))
                found.setdefault(tp, []).append((message.offset(), name))
            else:
                is_lost |= message.error().name() == "_AUTO_OFFSET_RESET"
        if found:
            self._history.polled(self._process, inv, list(found.items()), final=wanted is not None)
        for tp, records in found.items():
            if wanted is not None and records[-1][0] + 1 >= wanted.get(tp, 0):
                wanted.pop(tp, None)
        return not is_lost
