"""`raftka produce`: lines from stdin become records."""

import sys
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from raftka import kafka_client
from raftka.cli.exit_codes import CommandError
from raftka.cli.options import DEFAULT_BROKERS, BrokersOption, Format, FormatOption
from raftka.cli.output import print_json_line

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

_FLUSH_POLL_SECONDS = 0.1


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
    writer = _Writer(brokers, topic, acks, partition, timeout, output)
    try:
        for record_key, value in _records(key, key_separator):
            writer.write(record_key, value)
    except KeyboardInterrupt:
        print(file=sys.stderr)
    except _LineError:
        # What came before the bad line is written all the same, and counted.
        writer.finish()
        raise
    writer.finish()


def _records(key: str | None, separator: str | None) -> Iterator[tuple[bytes | None, bytes]]:
    """Yield (key, value) of each line of stdin, as bytes: nothing is decoded."""
    fixed = None if key is None else key.encode()
    for number, line in enumerate(sys.stdin.buffer, 1):
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        if separator is None:
            yield fixed, text
            continue
        before, found, after = text.partition(separator.encode())
        if not found:
            raise _LineError(f"line {number} has no {separator!r} between key and value")
        yield before, after


class _Writer:
    """Sends records and waits for what became of them."""

    def __init__(
        self, brokers: str, topic: str, acks: Acks, partition: int | None, timeout: float, output: Format
    ) -> None:
        # Somebody who types wants each line written at once; a file is sent in batches.
        linger = 0 if sys.stdin.isatty() else 5
        self._producer = kafka_client.new_producer(
            brokers, acks.value, linger_ms=linger, message_timeout_ms=int(timeout * 1000)
        )
        self._topic = topic
        # -1 is librdkafka's PARTITION_UA: by key, or any.
        self._partition = -1 if partition is None else partition
        self._output = output
        self._sent = 0
        self._delivered = 0
        self._error = ""

    def write(self, key: bytes | None, value: bytes) -> None:
        """Send one record; waits while librdkafka's queue is full.

        Raises:
            CommandError: An earlier record has failed.
        """
        while True:
            try:
                self._producer.produce(
                    self._topic, value, key=key, partition=self._partition, on_delivery=self._on_delivery
                )
                break
            except BufferError:
                self._producer.poll(_FLUSH_POLL_SECONDS)
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
        if self._error:
            raise CommandError(f"{self._sent - self._delivered} of {self._sent} records failed: {self._error}")
        if self._output is Format.TEXT:
            print(f"{self._delivered} record{'' if self._delivered == 1 else 's'} written to {self._topic}")

    def _on_delivery(self, error: "KafkaError | None", message: "Message") -> None:
        if error is not None:
            self._error = self._error or kafka_client.error_text(error)
            return
        self._delivered += 1
        if self._output is Format.JSON:
            offset = kafka_client.delivered_offset(message)
            print_json_line({"topic": message.topic(), "partition": message.partition(), "offset": offset})
