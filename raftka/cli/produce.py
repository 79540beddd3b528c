"""`raftka produce`: lines from stdin become records."""

import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from raftka import kafka_client
from raftka.cli.exit_codes import CommandError
from raftka.cli.options import DEFAULT_BROKERS, BrokersOption, Format, FormatOption
from raftka.cli.output import print_json_line
from raftka.cli.progress import Stopwatch, write_problem

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

_FLUSH_POLL_SECONDS = 0.1
# The most that librdkafka takes: what is too large for a topic is for its brokers to say.
_RECORD_BYTES_MAX = 1_000_000_000
# Well below any sensible max.message.bytes, which is a limit of batches: many short lines must not exceed it together.
_BATCH_BYTES = 16 * 1024


class Acks(StrEnum):
    """Who has to have a record before it is acknowledged: nobody, the leader, or all who must."""

    NONE = "0"
    LEADER = "1"
    ALL = "all"


class _LineError(CommandError):
    """A line that is no record."""


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where to write.")],
    acks: Annotated[
        Acks, typer.Option(help="0: nobody answers; 1: the leader has it; all: a majority has it on disk.")
    ] = Acks.ALL,
    key: Annotated[str | None, typer.Option(help="Key of every record.")] = None,
    key_separator: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What stands between key and value in each line.")
    ] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Partition; default: by key, or any.")] = None,
    timeout: Annotated[float, typer.Option(min=0.1, max=3600.0, help="Seconds until a record has failed.")] = 30.0,
    brokers: BrokersOption = DEFAULT_BROKERS,
    output: FormatOption = Format.TEXT,
) -> None:
    """Write each line of stdin as a record; Ctrl-C ends the input. Prints the offsets with --format json."""
    if key is not None and key_separator is not None:
        raise typer.BadParameter("--key and --key-separator exclude each other")
    if key_separator == "":
        raise typer.BadParameter("--key-separator must not be empty")
    count = len(kafka_client.read_cluster(brokers).topic(topic))
    if partition is not None and partition >= count:
        raise CommandError(f"topic {topic} has partitions 0 to {count - 1}")
    writer = _Writer(brokers, topic, count, acks, partition, timeout, output)
    try:
        for line, record_key, value in _records(key, key_separator):
            writer.write(line, record_key, value)
    except KeyboardInterrupt:
        print(file=sys.stderr)
    except _LineError:
        # What came before the bad line is written all the same, and counted.
        writer.finish()
        raise
    writer.finish()


def _records(key: str | None, separator: str | None) -> Iterator[tuple[int, bytes | None, bytes]]:
    """Yield (number of the line, key, value) of each line of stdin, the last two as bytes: nothing is decoded."""
    fixed = None if key is None else key.encode()
    for number, line in enumerate(iter(partial(sys.stdin.buffer.readline, _RECORD_BYTES_MAX), b""), 1):
        if len(line) == _RECORD_BYTES_MAX:
            raise _LineError(f"line {number}: {len(line)} bytes or more are more than any record may have")
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        if separator is None:
            yield number, fixed, text
            continue
        before, found, after = text.partition(separator.encode())
        if not found:
            raise _LineError(f"line {number} has no {separator!r} between key and value")
        yield number, before, after


class _Writer:
    """Sends records and waits for what became of them."""

    def __init__(
        self,
        brokers: str,
        topic: str,
        count: int,
        acks: Acks,
        partition: int | None,
        timeout: float,
        output: Format,
    ) -> None:
        # Somebody who types wants each line written at once; a file is sent in batches.
        linger = 0 if sys.stdin.isatty() else 5
        self._producer = kafka_client.new_producer(
            brokers,
            acks.value,
            linger_ms=linger,
            message_timeout_ms=int(timeout * 1000),
            message_max_bytes=_RECORD_BYTES_MAX,
            batch_size=_BATCH_BYTES,
        )
        self._acks = acks.value
        self._brokers = brokers
        self._topic = topic
        # -1 is librdkafka's PARTITION_UA: by key, or any.
        self._partition = -1 if partition is None else partition
        self._count = count
        self._timeout = timeout
        self._output = output
        self._sent = 0
        self._delivered = 0
        self._error = ""
        self._idle = Stopwatch()
        self._warning = ""

    def write(self, line: int, key: bytes | None, value: bytes) -> None:
        """Send one record; waits while librdkafka's queue is full.

        Raises:
            CommandError: An earlier record has failed, or this one cannot be sent.
        """
        from confluent_kafka import KafkaException

        if not len(self._producer):
            # Nobody can be blamed for the time in which there was nothing to send.
            self._idle.restart()
        report = partial(self._on_delivery, line)
        while True:
            try:
                self._producer.produce(self._topic, value, key=key, partition=self._partition, on_delivery=report)
                break
            except BufferError:
                self._producer.poll(_FLUSH_POLL_SECONDS)
                self._warn_if_idle()
            except KafkaException as error:
                raise _LineError(f"line {line}: {kafka_client.error_text(error.args[0])}") from None
        self._sent += 1
        self._producer.poll(0)
        if self._error:
            self.finish()

    def finish(self) -> None:
        """Wait until each record has an outcome; each has one after the timeout at the latest.

        Raises:
            CommandError: A record has failed.
        """
        while len(self._producer):
            self._producer.flush(_FLUSH_POLL_SECONDS)
            self._warn_if_idle()
        if self._error:
            raise CommandError(f"{self._error}; {self._delivered} of the {self._sent} lines that were sent are written")
        if self._output is Format.TEXT:
            print(f"{self._delivered} record{'' if self._delivered == 1 else 's'} written to {self._topic}")

    def _warn_if_idle(self) -> None:
        if not self._idle.has_expired:
            return
        self._idle.restart()
        why = write_problem(self._brokers, self._topic, self._partitions(), acks=self._acks)
        if why and why != self._warning:
            print(f"raftka: {why}; still trying", file=sys.stderr)
        self._warning = why

    def _on_delivery(self, line: int, error: "KafkaError | None", message: "Message") -> None:
        self._idle.restart()
        if error is not None:
            self._error = self._error or f"line {line}: {self._why(error, message)}"
            return
        self._delivered += 1
        if self._output is Format.JSON:
            offset = kafka_client.delivered_offset(message)
            print_json_line({"topic": message.topic(), "partition": message.partition(), "offset": offset})

    def _why(self, error: "KafkaError", message: "Message") -> str:
        size = len(message.value() or b"") + len(message.key() or b"")
        if error.name() == "MSG_SIZE_TOO_LARGE":
            together = "" if size > _BATCH_BYTES else ", alone or with the lines that are sent along with it"
            return f"{size} bytes is more than the limit of topic {self._topic} (max.message.bytes){together}"
        if error.name() == "_MSG_TIMED_OUT":
            cause = write_problem(self._brokers, self._topic, self._partitions(message.partition()), acks=self._acks)
            return f"{size} bytes not acknowledged in {self._timeout:g} s" + (f": {cause}" if cause else "")
        return kafka_client.error_text(error)

    def _partitions(self, number: int | None = None) -> Iterable[int]:
        """Return the partition of a record; all of them where that is not known."""
        known = self._partition if number is None or number < 0 else number
        return range(self._count) if known < 0 else [known]
