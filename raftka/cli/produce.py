"""`raftka produce`: lines, files or formatted input become records."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from raftka.cli.completion import complete_partitions, complete_topics
from raftka.cli.exit_codes import CommandError
from raftka.cli.input_stream import InputStream
from raftka.cli.interrupts import InputEnd
from raftka.cli.lazy_group import Command
from raftka.cli.options import brokers_option, chosen_partitions
from raftka.cli.param_types import PATH, BoundedFloat, BoundedInt, EnumChoice
from raftka.cli.progress_bar import ProgressBar
from raftka.cli.record_format import record_printer
from raftka.cli.record_input import (
    INPUT_HELP,
    Headers,
    InputError,
    InputRecord,
    ReadRecords,
    parse_header,
    record_reader,
)
from raftka.counted import counted
from raftka.kafka import client as kafka_client

if TYPE_CHECKING:
    from confluent_kafka import Message

    from raftka.cli.record_writer import RecordWriter

_STDIN = Path("-")
_LINGER_MS = 5
# kcat writes a line without it with no key at all: it would lose its place among those of its key, and nobody is told.
_SEPARATOR_HELP = "Separator of key and value in each line; a line without it is an error."
_TOMBSTONE_HELP = "Write empty values as null. A --format then needs no %s."


class Acks(StrEnum):
    """Who has to have a record before it is acknowledged: nobody, the leader, or all who must."""

    NONE = "0"
    LEADER = "1"
    ALL = "all"


class Compression(StrEnum):
    """How batches are packed."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


@click.command("produce", cls=Command)
@click.argument("topic", metavar="TOPIC", shell_complete=complete_topics, help="Topic to write to.")
@click.argument("files", nargs=-1, type=PATH, metavar="[FILE]...", help="Files to read; - is stdin. [default: -]")
@click.option(
    *("--format", "-f", "input_format"),
    default="text",
    metavar="text|json|FORMAT",
    help=f"Input format. {INPUT_HELP}.",
)
@click.option("--key", "-k", metavar="KEY", help="Key of records whose input has none.")
@click.option("--key-separator", "-K", metavar="TEXT", help=_SEPARATOR_HELP)
@click.option(
    *("--header", "-H", "headers"), multiple=True, metavar="NAME=VALUE", help="Header of every record; repeat for more."
)
@click.option("--tombstone", "-Z", is_flag=True, help=_TOMBSTONE_HELP)
@click.option(
    *("--partition", "-p"),
    type=BoundedInt(0),
    metavar="N",
    shell_complete=complete_partitions,
    help="Partition. [default: by key, or any]",
)
@click.option(
    "--acks",
    type=EnumChoice(Acks),
    default=Acks.ALL.value,
    help="When a record counts as written. 0: when it is sent; 1: when the leader has it; all: when a majority has it"
    " on disk.",
)
@click.option(
    "--compression", "-z", type=EnumChoice(Compression), default=Compression.NONE.value, help="Compression codec."
)
@click.option(
    "--timeout",
    type=BoundedFloat(0.1, 3600.0),
    default=30.0,
    metavar="N",
    help="Seconds until an unacknowledged record fails.",
)
@brokers_option
@click.option(
    *("--output", "-o"),
    default="text",
    metavar="text|json|FORMAT",
    help="Output format. text: the number of records; json: the partition and offset of each record; or a format for"
    " each record, as of `raftka consume -f`.",
)
def produce(
    topic: str,
    files: tuple[Path, ...],
    input_format: str,
    key: str | None,
    key_separator: str | None,
    headers: tuple[str, ...],
    tombstone: bool,
    partition: int | None,
    acks: Acks,
    compression: Compression,
    timeout: float,
    brokers: str,
    output: str,
) -> None:
    """Write lines or formatted input as records. Ctrl-C or SIGTERM ends the input.

    The command still writes the records that it has read. A second signal ends it at once.
    """
    _check_keys(key, key_separator)
    # Imported here, for the sake of `--help`.
    from raftka.cli.record_writer import RecordWriter, WriteRequest

    read = record_reader(input_format, key, key_separator, allows_no_value=tombstone)
    report = _reporter(output)
    sources = files or (_STDIN,)
    common = _common_headers(headers)
    _check_sources(sources)
    count = _partition_count(brokers, topic, partition)
    # Somebody who types wants each line written at once; a file is sent in batches.
    linger = 0 if _STDIN in sources and sys.stdin.isatty() else _LINGER_MS
    request = WriteRequest(
        brokers=brokers,
        topic=topic,
        count=count,
        # -1 is librdkafka's PARTITION_UA: by key, or any.
        partition=-1 if partition is None else partition,
        acks=acks.value,
        compression=compression.value,
        timeout=timeout,
        linger_ms=linger,
        headers=common,
    )
    bar = ProgressBar("bytes", _total_bytes(sources), is_wanted=all(path.is_file() for path in sources))
    end = InputEnd()
    with bar, end.listening():
        unit = "records" if "%" in input_format else "lines"
        writer = RecordWriter(request, unit, report, bar.clear, lambda: end.is_urgent)
        bad_input = _copy(_records(sources, read, end, bar), writer, end, bar, tombstone=tombstone)
    if output == "text":
        print(f"{counted(writer.written, 'record')} written to {topic}")
    if bad_input is not None:
        raise bad_input


def _check_keys(key: str | None, separator: str | None) -> None:
    if key is not None and separator is not None:
        raise click.BadParameter("--key and --key-separator exclude each other")
    if separator == "":
        raise click.BadParameter("--key-separator must not be empty")


def _check_sources(sources: Sequence[Path]) -> None:
    for path in sources:
        if path == _STDIN:
            if sys.stdin is None:
                raise CommandError("cannot read stdin: it is closed")
            continue
        if path.is_dir():
            raise CommandError(f"{path}: is a directory; name its files, as in {path / '*'}")
        if not path.exists():
            raise CommandError(f"{path}: no such file")


def _partition_count(brokers: str, topic: str, wanted: int | None) -> int:
    found = kafka_client.read_cluster(brokers).topic(topic)
    if wanted is not None:
        chosen_partitions(topic, found, [wanted])
    return len(found)


def _common_headers(texts: Sequence[str]) -> Headers:
    try:
        return [parse_header(text, "--header") for text in texts]
    except InputError as error:
        raise click.BadParameter(str(error)) from None


def _reporter(output: str) -> Callable[["Message"], None]:
    """Return what is done with each record that is written."""
    if output == "text":
        return lambda _: None
    if output == "json":
        return _print_place
    render = record_printer(output, "--output")

    def write(message: "Message") -> None:
        sys.stdout.buffer.write(render(message))

    return write


def _print_place(message: "Message") -> None:
    place = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": kafka_client.delivered_offset(message),
    }
    print(json.dumps(place, ensure_ascii=False))


def _copy(
    records: Iterator[InputRecord], writer: "RecordWriter", end: InputEnd, bar: ProgressBar, *, tombstone: bool
) -> InputError | None:
    """Write all records, up to input that is no record: that is returned."""
    bad_input = None
    try:
        for record in records:
            writer.write(_emptied(record) if tombstone else record)
    except KeyboardInterrupt:
        bar.clear()
        print(file=sys.stderr)
    except InputError as error:
        bad_input = error
    end.reach()
    writer.finish()
    return bad_input


def _records(sources: Sequence[Path], read: ReadRecords, end: InputEnd, bar: ProgressBar) -> Iterator[InputRecord]:
    """Yield all records of all sources; the bar shows how much of them is read.

    Raises:
        InputError: Input that is no record.
        KeyboardInterrupt: Somebody has ended the input.
    """
    before = 0
    for path in sources:
        with _opened(path, end) as stream:
            for record in read(stream, "" if path == _STDIN else str(path)):
                yield record
                if end.is_reached:
                    raise KeyboardInterrupt
                if bar.is_shown:
                    bar.show(before + stream.tell())
            if bar.is_shown:
                before += stream.tell()


@contextmanager
def _opened(path: Path, end: InputEnd) -> Iterator[InputStream]:
    if path == _STDIN:
        yield InputStream(sys.stdin.buffer, end)
        return
    # A pipe is opened once somebody writes to it.
    with end.call(_open, path) as stream:
        yield InputStream(stream, end)


def _open(path: Path) -> BinaryIO:
    return path.open("rb")


def _emptied(record: InputRecord) -> InputRecord:
    return record if record.value else record._replace(value=None)


def _total_bytes(sources: Sequence[Path]) -> int | None:
    """Return how much there is to read; None where a pipe is among the sources."""
    if any(path == _STDIN or not path.is_file() for path in sources):
        return None
    return sum(path.stat().st_size for path in sources)
