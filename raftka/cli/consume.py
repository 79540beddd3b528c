"""`raftka consume`: records to stdout, from partitions that are assigned by hand or by a consumer group."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
from click.exceptions import Exit

from raftka.cli.completion import complete_groups, complete_topics
from raftka.cli.exit_codes import INTERRUPTED, TERMINATED, CommandError
from raftka.cli.interrupts import TerminatedError, sigterm_as_ctrl_c
from raftka.cli.lazy_group import Command
from raftka.cli.options import brokers_option, existing_partitions, given_group, partitions_option
from raftka.cli.param_types import BoundedInt
from raftka.cli.positions import POSITION_HELP, POSITION_METAVAR, Anchor, Position, parse_position, resolve
from raftka.cli.progress_bar import ProgressBar
from raftka.cli.record_format import FORMAT_HELP, record_printer
from raftka.cli.record_sink import RecordSink
from raftka.counted import counted
from raftka.kafka import client as kafka_client
from raftka.kafka import offsets as kafka_offsets
from raftka.kafka.errors import KafkaClientError

if TYPE_CHECKING:
    from raftka.cli.assigned_reader import AssignedReader
    from raftka.cli.group_reader import GroupReader

# kcat's word for where a group has committed, which is where it goes on anyway.
_STORED = "stored"


@click.command("consume", cls=Command)
@click.argument("topic", metavar="TOPIC", shell_complete=complete_topics, help="Topic to read.")
@click.option(
    *("--offset", "-o"),
    default="start",
    metavar=POSITION_METAVAR,
    help=f"Start position in each partition. {POSITION_HELP}. A group starts at its committed offsets (stored); with"
    " --group, only start or end is allowed, for partitions without a committed offset.",
)
@partitions_option
@click.option(
    *("--group", "-g"),
    metavar="GROUP",
    shell_complete=complete_groups,
    callback=given_group,
    help="Read as a member of this consumer group, and commit the offsets of printed records.",
)
@click.option("-n", "--count", type=BoundedInt(1), metavar="N", help="Stop after this many records.")
@click.option(
    *("--exit-at-end", "-e"),
    is_flag=True,
    help="Stop at the end that the partitions have now.",
)
@click.option(
    *("--format", "-f", "output"),
    default="text",
    metavar="text|json|FORMAT",
    help=f"Output format. text: the values; json: an object per line; or a format: {FORMAT_HELP}.",
)
@click.option(
    "--read-committed",
    "is_committed",
    is_flag=True,
    help="Leave out records of aborted transactions, and read no further than the first open one. [default: print the"
    " records of all transactions]",
)
@brokers_option
def consume(
    topic: str,
    offset: str,
    partitions: tuple[int, ...],
    group: str | None,
    count: int | None,
    exit_at_end: bool,
    output: str,
    is_committed: bool,
    brokers: str,
) -> None:
    """Print records until Ctrl-C, SIGTERM, or the limit that -n or -e sets. Records of a partition keep their order.

    A member of a group commits the offsets of printed records, and leaves the group. If a signal stops the
    command before the limit that -n or -e sets, it exits with 130 (Ctrl-C) or 143 (SIGTERM). If the name of a header is
    not UTF-8, the headers of that record cannot be read. Then a warning names the record; its headers are null in JSON,
    empty in %h, and -1 in %H.
    """
    if offset == _STORED and group is None:
        raise click.BadParameter(f"--offset {_STORED}: needs --group, which has committed offsets")
    begin = parse_position("start" if offset == _STORED else offset, "--offset", time.time_ns() // 1_000_000)
    render = record_printer(output, warn=lambda words: sink.warn(words))
    if group is not None and partitions:
        raise click.BadParameter(
            "--partition and --group exclude each other: the group assigns partitions to its members"
        )
    if group is not None and begin.anchor not in {Anchor.START, Anchor.END}:
        raise click.BadParameter(
            f"--offset {offset}: with --group, only start or end is allowed, for partitions without a committed offset"
            " (`raftka group seek` sets committed offsets)"
        )
    chosen = existing_partitions(brokers, topic, partitions)
    # What is printed to a terminal shows by itself how far it is.
    bar = ProgressBar("records", count, is_wanted=not sys.stdout.isatty())
    if bar.is_shown and count is None and exit_at_end and group is None:
        bar = ProgressBar("records", _total(brokers, topic, chosen, begin))
    sink = RecordSink(render, bar)
    is_end_wanted = exit_at_end or count is not None
    with (
        bar,
        kafka_client.one_line_errors(brokers),
        sigterm_as_ctrl_c(),
        _until_signal(sink, is_end_wanted=is_end_wanted),
        _reader(brokers, topic, group, sink, begin, chosen, exit_at_end, is_committed) as reader,
    ):
        reader.run(count, exit_at_end)


@contextmanager
def _until_signal(sink: RecordSink, *, is_end_wanted: bool) -> Iterator[None]:
    """Let Ctrl-C or SIGTERM end what is inside: well, or, where it was to end by itself, as what is not whole."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if not is_end_wanted:
            return
        is_terminated = isinstance(interrupt, TerminatedError)
        name = "SIGTERM" if is_terminated else "Ctrl-C"
        sink.warn(
            f"{name} stopped the command before the limit of -n or -e; it printed {counted(sink.printed, 'record')}"
        )
        raise Exit(TERMINATED if is_terminated else INTERRUPTED) from None


@contextmanager
def _reader(
    brokers: str,
    topic: str,
    group: str | None,
    sink: RecordSink,
    begin: Position,
    partitions: list[int],
    is_end_wanted: bool,
    is_committed: bool,
) -> Iterator["AssignedReader | GroupReader"]:
    """Have a reader inside; one in a group leaves it, or it would keep its partitions until its session times out."""
    # Imported here: `--help` needs no reader.
    from raftka.cli.assigned_reader import AssignedReader
    from raftka.cli.group_reader import GroupReader

    reader: AssignedReader | GroupReader
    if group is None:
        reader = AssignedReader(brokers, topic, sink, is_committed=is_committed)
    else:
        begins_at_end = begin.anchor is Anchor.END
        reader = GroupReader(brokers, topic, group, sink, begins_at_end=begins_at_end, is_committed=is_committed)
    try:
        if isinstance(reader, AssignedReader):
            reader.assign(partitions, begin, is_end_wanted=is_end_wanted)
        yield reader
    finally:
        reader.close()


def _total(brokers: str, topic: str, partitions: list[int], begin: Position) -> int | None:
    """Return how many records there are to read; None where a partition does not tell, as reading will, too."""
    try:
        first = resolve(brokers, begin, {topic: partitions})
        return sum(kafka_offsets.end_offsets(brokers, first).values()) - sum(first.values())
    except (CommandError, KafkaClientError):
        return None
