"""`raftka produce`: lines, files or formatted input become records."""

import json
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, BinaryIO

import click

from raftka.cli.completion import complete_partitions, complete_topics
from raftka.cli.exit_codes import CommandError, GivenUpError
from raftka.cli.input_stream import InputStream
from raftka.cli.interrupts import InputEnd
from raftka.cli.lazy_group import Command
from raftka.cli.options import brokers_option, chosen_partitions, given_transactional_id
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

    from raftka.cli.record_writer import RecordWriter, WriteRequest
    from raftka.cli.transaction_writer import TransactionRequest

    _Render = Callable[["Message"], bytes]

_STDIN = Path("-")
_LINGER_MS = 5
# Kafka's default of transaction.timeout.ms.
_TRANSACTION_SECONDS = 60.0
# Reports of records wait for the end of their transaction: so many bytes in memory, more of them in a file.
_REPORT_BYTES_IN_MEMORY = 16 * 2**20
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
@click.option(
    "--transactional",
    is_flag=True,
    help="Write all records in one transaction: readers with read_committed see all of them, or none.",
)
@click.option(
    "--transactional-id",
    callback=given_transactional_id,
    metavar="ID",
    help="Transactional id; implies --transactional. [default: a new one]",
)
@click.option(
    "--transaction-records",
    type=BoundedInt(1),
    metavar="N",
    help="Commit after each N records; implies --transactional. [default: after all]",
)
@click.option(
    "--transaction-timeout",
    type=BoundedFloat(1.0, 2147483.0),
    default=_TRANSACTION_SECONDS,
    metavar="N",
    help="Seconds after which brokers abort a transaction that has not ended.",
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
    transactional: bool,
    transactional_id: str | None,
    transaction_records: int | None,
    transaction_timeout: float,
    brokers: str,
    output: str,
) -> None:
    """Write lines or formatted input as records. Ctrl-C or SIGTERM ends the input.

    The command still writes the records that it has read. A second signal ends it at once. With --transactional, the
    first signal aborts the transaction.
    """
    _check_keys(key, key_separator)
    transaction = _transaction(transactional, transactional_id, transaction_records, transaction_timeout, acks)
    # Imported here, for the sake of `--help`.
    from raftka.cli.record_writer import WriteRequest

    read = record_reader(input_format, key, key_separator, allows_no_value=tombstone)
    render = _renderer(output)
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
        writer = _writer(request, transaction, unit, render, bar, end)
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


def _transaction(
    is_wanted: bool, transactional_id: str | None, records_max: int | None, timeout: float, acks: Acks
) -> "TransactionRequest | None":
    """Return how records are put into transactions; None: they are not."""
    if not is_wanted and transactional_id is None and records_max is None:
        return None
    if acks is not Acks.ALL:
        raise click.BadParameter(f"--acks {acks.value}: transactions need --acks all")
    from raftka.cli.transaction_writer import TransactionRequest

    return TransactionRequest(
        # A name of its own: two commands at once must not end each other's transactions.
        transactional_id=transactional_id or f"raftka-produce-{uuid.uuid4().hex}",
        records_max=records_max,
        timeout=timeout,
    )


def _writer(
    request: "WriteRequest",
    transaction: "TransactionRequest | None",
    unit: str,
    render: "_Render | None",
    bar: ProgressBar,
    end: InputEnd,
) -> "RecordWriter":
    if transaction is None:
        from raftka.cli.record_writer import RecordWriter

        return RecordWriter(request, unit, _reporter(render, _print_bytes), bar.clear, lambda: end.is_urgent)
    from raftka.cli.transaction_writer import TransactionWriter

    reports = _HeldReports()
    report = _reporter(render, reports.add)
    return TransactionWriter(request, transaction, unit, report, reports.end, bar.clear, lambda: end.is_urgent)


class _HeldReports:
    """What is printed of the records of a transaction once it is committed; an abort drops it."""

    def __init__(self) -> None:
        # Open as long as the command runs.
        self._held: IO[bytes] = SpooledTemporaryFile(_REPORT_BYTES_IN_MEMORY)  # noqa: SIM115

    def add(self, report: bytes) -> None:
        """Keep the report of a record that is acknowledged."""
        self._held.write(report)

    def end(self, is_committed: bool) -> None:
        """Print what is kept if the transaction is committed, and keep nothing."""
        self._held.seek(0)
        if is_committed:
            shutil.copyfileobj(self._held, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        self._held.seek(0)
        self._held.truncate()


def _renderer(output: str) -> "_Render | None":
    """Return what makes the report of a record that is written; None: there is no report."""
    if output == "text":
        return None
    return _render_place if output == "json" else record_printer(output, "--output")


def _reporter(render: "_Render | None", write: Callable[[bytes], None]) -> Callable[["Message"], None]:
    """Return what is done with each record that is acknowledged."""
    return (lambda _: None) if render is None else (lambda message: write(render(message)))


def _print_bytes(report: bytes) -> None:
    sys.stdout.buffer.write(report)
    if sys.stdout.isatty():
        sys.stdout.buffer.flush()


def _render_place(message: "Message") -> bytes:
    place = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": kafka_client.delivered_offset(message),
    }
    return json.dumps(place, ensure_ascii=False).encode() + b"\n"


def _copy(
    records: Iterator[InputRecord], writer: "RecordWriter", end: InputEnd, bar: ProgressBar, *, tombstone: bool
) -> InputError | None:
    """Write all records, up to input that is no record: that is returned."""
    try:
        for record in records:
            writer.write(_emptied(record) if tombstone else record)
    except KeyboardInterrupt:
        bar.clear()
        print(file=sys.stderr)
        end.reach()
        undone = writer.cut_short()
        if undone:
            raise GivenUpError(f"interrupted: {undone}") from None
        return None
    except InputError as error:
        end.reach()
        undone = writer.cut_short()
        return InputError(f"{error}; {undone}") if undone else error
    end.reach()
    writer.finish()
    return None


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
