"""Clients with transactions, on librdkafka: each appends to partitions and reads them, a transaction at a time.

The operations are those of Jepsen's workload. What a transaction did is one line of the history, with its outcome:

    ok     its commit was answered
    fail   it was aborted, or its commit was never asked for
    info   its commit was asked for, and nobody knows what became of it
"""

import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from raftka.chaos.history import History, now_ns
from raftka.chaos.interruption import join_thread
from raftka.chaos.load import Topics, padded, stripped, tp_of
from raftka.chaos.pacing import Pacer
from raftka.kafka.client import error_text, fatal_errors, new_consumer, new_producer, silent_logger

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

# Brokers abort what a client leaves open for so long.
TRANSACTION_SECONDS = 15.0
_RECORD_SECONDS = 10.0
# How long somebody asks for the end of a transaction before nobody knows it.
_END_SECONDS = 30.0
_STEP_SECONDS = 1.0
_IDLE_SECONDS = 0.05
_RETRY_SECONDS = 0.5
_OPERATIONS_MAX = 4
_APPENDS_SHARE = 0.6
_ABORTED_SHARE = 0.1
_LEFT_SHARE = 0.03
_POLL_RECORDS = 500
_POLL_SECONDS = 0.2
_FINAL_POLL_SECONDS = 1.0

Operation = list[Any]


class _EndedError(Exception):
    """The producer can do nothing more; a new one is needed."""


class Transactor:
    """One process with a producer and a reader, in a thread of its own.

    Some transactions are aborted, and a few are left open by a producer that is replaced: its successor, or a time-out,
    ends them.

    Args:
        bootstrap: HOST:PORT,... of the brokers.
        history: Where transactions are written down.
        rng: Of this process.
        pacer: Of all of them.
        topics: Their partitions are the keys.
        transactional_id: Two processes with the same one fence each other.
    """

    def __init__(
        self,
        bootstrap: str,
        history: History,
        rng: random.Random,
        pacer: Pacer,
        topics: Topics,
        transactional_id: str,
    ) -> None:
        self._bootstrap = bootstrap
        self._history = history
        self._rng = rng
        self._pacer = pacer
        self._topics = topics
        self._transactional_id = transactional_id
        self._process = history.process()
        self._number = 0
        self._producer: Producer | None = None
        self._reader = KeyReader(bootstrap)
        self._positions: dict[tuple[str, int], int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"transactor-{self._process}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Begin no transaction more; `join` waits for the one that is under way."""
        self._stop.set()

    def join(self, gives_up: threading.Event) -> None:
        """Wait until it has ended."""
        join_thread(self._thread, 2 * _END_SECONDS + _RECORD_SECONDS, gives_up)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                if wait := self._pacer.take():
                    self._stop.wait(min(wait, _IDLE_SECONDS))
                    continue
                self._work()
        finally:
            self._reader.close()

    def _work(self) -> None:
        try:
            producer = self._producer or self._begin()
            self._transaction(producer)
        except _EndedError:
            self._producer = None
            self._stop.wait(_RETRY_SECONDS)

    def _begin(self) -> "Producer":
        """Return a producer that has fenced the one before it.

        Raises:
            _EndedError: The coordinator has not let it begin in time.
        """
        from confluent_kafka import KafkaException

        producer = new_producer(
            self._bootstrap,
            "all",
            linger_ms=0,
            request_timeout_ms=5_000,
            topic_metadata_refresh_interval_ms=2_000,
            transactional_id=self._transactional_id,
            transaction_timeout_ms=int(TRANSACTION_SECONDS * 1000),
            message_timeout_ms=int(_RECORD_SECONDS * 1000),
            logger=silent_logger(),
        )
        try:
            self._ask(producer.init_transactions)
        except KafkaException as error:
            raise _EndedError(_words(error)) from error
        self._producer = producer
        return producer

    def _transaction(self, producer: "Producer") -> None:
        """Do one transaction, and write down what became of it.

        Raises:
            _EndedError: A new producer is needed.
        """
        from confluent_kafka import KafkaException

        line = self._history.begin("txn", self._process, ops=[], asked=None, err=None)
        operations: list[Operation] = []
        end = partial(self._history.end, line)
        try:
            with fatal_errors():
                producer.begin_transaction()
                self._operate(producer, operations)
                # Reports of records are served in it; those that fail let the commit fail.
                producer.flush(_RECORD_SECONDS + _STEP_SECONDS)
            if self._rng.random() < _LEFT_SHARE:
                end("fail", ops=operations, err="left open")
                raise _EndedError("left open")
            if self._rng.random() < _ABORTED_SHARE:
                self._ask(producer.abort_transaction)
                end("fail", ops=operations)
                return
        except KafkaException as error:
            # Its commit was never asked for.
            end("fail", ops=operations, err=_words(error))
            raise _EndedError(_words(error)) from error
        self._commit(producer, operations, end)

    def _operate(self, producer: "Producer", operations: list[Operation]) -> None:
        for _ in range(self._rng.randint(1, _OPERATIONS_MAX)):
            key = self._rng.choice(self._topics.all)
            if self._rng.random() < _APPENDS_SHARE:
                operations.append(self._append(producer, *key))
            else:
                operations.append(self._read(*key))

    def _append(self, producer: "Producer", topic: str, partition: int) -> Operation:
        self._number += 1
        value = f"{self._process}.{self._number}"
        operation: Operation = ["append", tp_of(topic, partition), value, None]

        def on_delivery(error: Any, message: "Message") -> None:
            offset = message.offset()
            if error is None and offset is not None and offset >= 0:
                operation[3] = offset

        producer.produce(topic, padded(value), partition=partition, on_delivery=on_delivery)
        producer.poll(0)
        return operation

    def _read(self, topic: str, partition: int) -> Operation:
        records = self._reader.read(topic, partition, self._positions.get((topic, partition), 0))
        if records:
            self._positions[topic, partition] = records[-1][0] + 1
        return ["read", tp_of(topic, partition), [list(each) for each in records]]

    def _commit(self, producer: "Producer", operations: list[Operation], end: Callable[..., None]) -> None:
        from confluent_kafka import KafkaException

        asked = now_ns()
        try:
            self._ask(producer.commit_transaction)
        except KafkaException as error:
            failed: KafkaError = error.args[0]
            if not failed.txn_requires_abort():
                end("info", ops=operations, asked=asked, err=_words(error))
                raise _EndedError(_words(error)) from error
            try:
                self._ask(producer.abort_transaction)
            except KafkaException as second:
                end("info", ops=operations, asked=asked, err=_words(error))
                raise _EndedError(_words(second)) from second
            end("fail", ops=operations, asked=asked, err=_words(error))
            return
        end("ok", ops=operations, asked=asked)

    def _ask(self, call: Callable[[float], None]) -> None:
        """Let librdkafka do something that it goes on with after a time-out, for a bounded time.

        Raises:
            KafkaException: It cannot, or not in time.
        """
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + _END_SECONDS
        while True:
            try:
                with fatal_errors():
                    call(_STEP_SECONDS)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() >= deadline:
                    raise


class KeyReader:
    """Reads partitions at read_committed, one at a time.

    Whoever reads a partition on is not sent back to its last record: the consumer stands behind aborted records that it
    has passed over and tells nobody of, and they may take longer than one poll.
    """

    def __init__(self, bootstrap: str) -> None:
        options = {"fetch_wait_max_ms": 100, "topic_metadata_refresh_interval_ms": 2_000, "check_crcs": True}
        self._consumer: Consumer = new_consumer(
            bootstrap, isolation_level="read_committed", enable_partition_eof=True, **options
        )
        # What the consumer reads, and from where its next record counts: topic, partition, offset.
        self._goes_on_at: tuple[str, int, int] | None = None

    def read(self, topic: str, partition: int, position: int) -> list[tuple[int, str]]:
        """Return what one poll finds from an offset on: offsets and values."""
        return self._poll(topic, partition, position, _POLL_SECONDS)[0]

    def read_all(self, topic: str, partition: int, end: int, is_given_up: Callable[[], bool]) -> list[tuple[int, str]]:
        """Return everything below an offset that readers at read_committed can get to."""
        found: list[tuple[int, str]] = []
        position = reached = 0
        while reached < end and not is_given_up():
            records, behind = self._poll(topic, partition, position, _FINAL_POLL_SECONDS)
            found += records
            position = found[-1][0] + 1 if found else 0
            reached = max(reached, position, behind)
        return found

    def close(self) -> None:
        """Read no more."""
        self._consumer.close()

    def _poll(self, topic: str, partition: int, position: int, seconds: float) -> tuple[list[tuple[int, str]], int]:
        """Return the records of one poll, and the end of the partition if the poll has come to it; else 0."""
        from confluent_kafka import TopicPartition

        if self._goes_on_at != (topic, partition, position):
            self._consumer.assign([TopicPartition(topic, partition, position)])
        records: list[tuple[int, str]] = []
        deadline = time.monotonic() + seconds
        while len(records) < _POLL_RECORDS and (left := deadline - time.monotonic()) > 0:
            message = self._consumer.poll(left)
            if message is None:
                break
            error = message.error()
            if error is None:
                records.append((message.offset() or 0, stripped(message.value() or b"")))
            elif error.name() == "_PARTITION_EOF":
                # librdkafka tells of an end once: who asks again later is to hear of it again.
                self._goes_on_at = None
                return records, message.offset() or 0
        self._goes_on_at = (topic, partition, records[-1][0] + 1 if records else position)
        return records, 0


def _words(error: "KafkaException") -> str:
    return error_text(error.args[0])
