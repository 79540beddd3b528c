"""Sends records, waits for what becomes of each, and says why one failed."""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from raftka.cli.exit_codes import CommandError, GivenUpError
from raftka.cli.progress import WRITE_PATIENCE_SECONDS, Stopwatch, write_problem
from raftka.cli.record_input import RECORD_BYTES_MAX, Headers, InputError, InputRecord, Place
from raftka.kafka import client as kafka_client
from raftka.kafka.errors import NoQuorumError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

_FLUSH_POLL_SECONDS = 0.1
# Well below any sensible max.message.bytes, which is a limit of batches: many short lines must not exceed it together.
_BATCH_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """Where records go, and how.

    Attributes:
        brokers: HOST:PORT,...
        topic: Its name.
        count: How many partitions it has.
        partition: Where the input names none; -1: by key, or any.
        acks: 0, 1 or all.
        compression: A codec's name.
        timeout: Seconds until a record has failed.
        linger_ms: How long a record waits for others to share its batch.
        headers: Of every record, before its own.
        options: More options of librdkafka's producer, with `_` for each dot.
    """

    brokers: str
    topic: str
    count: int
    partition: int
    acks: str
    compression: str
    timeout: float
    linger_ms: int
    headers: Headers
    options: Mapping[str, Any] = field(default_factory=dict)


class RecordWriter:
    """Writes the records of one command; `transaction_writer` writes them in transactions.

    Args:
        request: Where and how.
        unit: What the records are called at the end, as in "3 of the 4 lines".
        on_written: Called with each record that is written, in the order of their acknowledgements.
        before_words: Called before something is said on stderr.
        is_urgent: Asked while it waits; True: nobody wants to wait any longer.
    """

    def __init__(
        self,
        request: WriteRequest,
        unit: str,
        on_written: Callable[["Message"], None],
        before_words: Callable[[], None],
        is_urgent: Callable[[], bool] = lambda: False,
    ) -> None:
        self._request = request
        self._unit = unit
        self._on_written = on_written
        self._before_words = before_words
        self._is_urgent = is_urgent
        self._producer = kafka_client.new_producer(
            request.brokers,
            request.acks,
            linger_ms=request.linger_ms,
            message_timeout_ms=int(request.timeout * 1000),
            message_max_bytes=RECORD_BYTES_MAX,
            batch_size=_BATCH_BYTES,
            compression_type=request.compression,
            **request.options,
        )
        self._acknowledged = 0
        self._sent = 0
        self._error = ""
        self._lost_quorum: NoQuorumError | None = None
        self._idle = Stopwatch(WRITE_PATIENCE_SECONDS)
        self._warning = ""

    @property
    def written(self) -> int:
        """Records that are written, as far as readers are concerned."""
        return self._acknowledged

    def write(self, record: InputRecord) -> None:
        """Send one record; waits while librdkafka's queue is full.

        Raises:
            CommandError: An earlier record has failed, or this one cannot be sent.
            GivenUpError: Nobody wants to wait any longer.
        """
        from confluent_kafka import KafkaException

        partition = self._partition_of(record)
        if not len(self._producer):
            # Nobody can be blamed for the time in which there was nothing to send.
            self._idle.restart()
        arguments: dict[str, Any] = {"timestamp": record.timestamp} if record.timestamp else {}
        headers = [*self._request.headers, *record.headers]
        if headers:
            arguments["headers"] = headers
        report = partial(self._on_delivery, record.place, headers)
        while True:
            try:
                self._producer.produce(
                    self._request.topic,
                    record.value,
                    key=record.key,
                    partition=partition,
                    on_delivery=report,
                    **arguments,
                )
                break
            except BufferError:
                if self._is_urgent():
                    self._settle()
                self._producer.poll(_FLUSH_POLL_SECONDS)
                self._warn_if_idle()
            except KafkaException as error:
                raise InputError(f"{record.place}: {kafka_client.error_text(error.args[0])}") from None
        self._sent += 1
        self._producer.poll(0)
        if self._error:
            self._settle()
        self._warn_if_idle()

    def finish(self) -> None:
        """Wait until each record has an outcome; each has one after the timeout at the latest.

        Raises:
            CommandError: A record has failed.
            GivenUpError: Nobody wants to wait any longer.
            NoQuorumError: Too few brokers answer for any record to be acknowledged.
        """
        self._settle()

    def cut_short(self) -> str:
        """As `finish`, where the input has ended before its time. Return what was undone for that; empty: nothing."""
        self._settle()
        return ""

    def _settle(self) -> None:
        """Wait until each record that was sent has an outcome.

        Raises:
            CommandError: A record has failed.
            GivenUpError: Nobody wants to wait any longer.
            NoQuorumError: Too few brokers answer for any record to be acknowledged.
        """
        while len(self._producer):
            if self._is_urgent():
                raise GivenUpError(f"interrupted: {self._unknown_outcome()}")
            self._producer.flush(_FLUSH_POLL_SECONDS)
            self._warn_if_idle()
        self._check_quorum()
        if self._error:
            raise CommandError(f"{self._error}; {self._failed_outcome()}")

    def _unknown_outcome(self) -> str:
        """Say what is known of records where nobody waits for the rest."""
        return (
            f"brokers have acknowledged {self._acknowledged} of the {self._sent} {self._unit} that were sent; the"
            " others may be written too"
        )

    def _failed_outcome(self) -> str:
        """Say what is written where a record has failed and each of the others has its outcome."""
        return f"{self.written} of the {self._sent} {self._unit} that were sent are written"

    def _partition_of(self, record: InputRecord) -> int:
        if record.partition < 0:
            return self._request.partition
        if record.partition >= self._request.count:
            raise InputError(
                f"{record.place}: partition {record.partition}: topic {self._request.topic} has partitions 0 to"
                f" {self._request.count - 1}"
            )
        return record.partition

    def _warn_if_idle(self) -> None:
        if not self._idle.has_expired:
            return
        self._idle.restart()
        why = self._write_problem(self._partitions())
        self._check_quorum()
        if why and why != self._warning:
            self._before_words()
            print(f"raftka: {why}; still trying", file=sys.stderr)
        self._warning = why

    def _check_quorum(self) -> None:
        if self._lost_quorum is None:
            return
        if self._sent:
            self._before_words()
            print(f"raftka: {self._unknown_outcome()}", file=sys.stderr)
        raise self._lost_quorum

    def _on_delivery(self, place: Place, headers: Headers, error: "KafkaError | None", message: "Message") -> None:
        self._idle.restart()
        if error is not None:
            self._error = self._error or f"{place}: {self._why(error, message)}"
            return
        self._acknowledged += 1
        # librdkafka reports everything of a record but its headers.
        if headers:
            message.set_headers([*headers])
        self._on_written(message)

    def _why(self, error: "KafkaError", message: "Message") -> str:
        size = len(message.value() or b"") + len(message.key() or b"")
        if error.name() == "MSG_SIZE_TOO_LARGE":
            together = "" if size > _BATCH_BYTES else f", alone or with the {self._unit} that are sent along with it"
            return f"{size} bytes is more than the limit of topic {self._request.topic} (max.message.bytes){together}"
        if error.name() == "_MSG_TIMED_OUT":
            cause = self._write_problem(self._partitions(message.partition()))
            return f"{size} bytes not acknowledged in {self._request.timeout:g} s" + (f": {cause}" if cause else "")
        return kafka_client.error_text(error)

    def _write_problem(self, partitions: Iterable[int]) -> str:
        try:
            # First, for it takes the least time: without a quorum nothing else answers.
            kafka_client.check_quorum(self._request.brokers)
            return write_problem(self._request.brokers, self._request.topic, partitions, acks=self._request.acks)
        except NoQuorumError as error:
            # Kept, for librdkafka's callbacks must not raise anything.
            self._lost_quorum = error
            return str(error)

    def _partitions(self, number: int | None = None) -> Iterable[int]:
        """Return the partition of a record; all of them where that is not known."""
        known = self._request.partition if number is None or number < 0 else number
        return range(self._request.count) if known < 0 else [known]
