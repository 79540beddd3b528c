"""`raftka archive`: what the pipeline `archive` has written, shown, verified, restored and compacted."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raftka.cli.exit_codes import DONE, FAILED, CommandError
from raftka.cli.options import DEFAULT_BROKERS, BrokersOption, Format, FormatOption, parse_pairs
from raftka.cli.output import print_json, print_table
from raftka.cli.progress_bar import STARTING_SPARK, underway

if TYPE_CHECKING:
    from raftka.pipeline.archive.folder import ArchiveFolder

app = typer.Typer(help="Verify, restore and compact archives of topics.", no_args_is_help=True)

PathArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The archive's folder.")]
TopicsOption = Annotated[
    list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Only this topic; repeat for more.")
]
BeginOption = Annotated[
    int | None, typer.Option("--begin", metavar="OFFSET", min=0, help="First offset, of every partition.")
]
EndOption = Annotated[int | None, typer.Option("--end", metavar="OFFSET", min=0, help="The offset behind the last.")]
SparkOption = Annotated[
    list[str] | None,
    typer.Option("--spark", metavar="KEY=VALUE", help="Configuration of the session, as driver.memory=2g; repeat."),
]
MIB = 1 << 20


@app.command("show")
def show(path: PathArgument, output: FormatOption = Format.TEXT) -> None:
    """Show what an archive holds, by its commit records; needs no Spark."""
    from raftka.pipeline.archive.folder import ArchiveFolder
    from raftka.pipeline.archive.manifest import load_manifest

    manifest = load_manifest(ArchiveFolder.open(path))
    rows: list[dict[str, Any]] = []
    for (topic, partition), ranges in sorted(manifest.ranges.items()):
        files = sum(partition in file.partitions for file in manifest.files_of(topic))
        rows.append(
            {
                "topic": topic,
                "partition": partition,
                "begin": ranges[0].begin,
                "end": ranges[-1].end,
                "records": manifest.rows((topic, partition)),
                "files": files,
            }
        )
    if output is Format.JSON:
        print_json(rows)
    elif rows:
        print_table([key.upper() for key in rows[0]], [list(row.values()) for row in rows])
    else:
        print("nothing is archived yet")


@app.command("verify")
def verify(
    path: PathArgument,
    topics: TopicsOption = None,
    begin: BeginOption = None,
    end: EndOption = None,
    is_committed: Annotated[
        bool, typer.Option("--read-committed", help="The archive was written with isolation.level = read_committed.")
    ] = False,
    brokers: BrokersOption = DEFAULT_BROKERS,
    session: SparkOption = None,
    output: FormatOption = Format.TEXT,
) -> int:
    """Prove that every offset is there once, as it is in the log: exit code 1 if it is not so.

    The value is compared by its CRC32C; key, timestamp and headers are compared, too. A range is not clipped. Offsets
    that neither side has need a cause in the log: control records, aborted transactions, compaction.
    """
    with _spark(path, session) as (spark, folder):
        import msgspec

        from raftka.pipeline.archive.findings import render
        from raftka.pipeline.archive.verification import Wanted
        from raftka.pipeline.archive.verification import verify as verified

        level = "read_committed" if is_committed else "read_uncommitted"
        wanted = Wanted(brokers, tuple(topics) if topics else None, begin, end, level)
        with underway("comparing the archive with the log"):
            found = verified(spark, folder, wanted)
    if output is Format.JSON:
        print_json({"whole": found.is_whole} | msgspec.to_builtins(found))
    else:
        for line in render(found):
            print(line)
    return DONE if found.is_whole else FAILED


@app.command("restore")
def restore(
    path: PathArgument,
    topic: Annotated[str, typer.Option("--topic", metavar="TOPIC", help="Which topic of the archive.")],
    to: Annotated[str, typer.Option("--to", metavar="TOPIC", help="Where to: an empty topic, or a new one.")],
    begin: BeginOption = None,
    end: EndOption = None,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", metavar="N", min=1, help="Of a new topic. [default: those of the archived one]"),
    ] = None,
    brokers: BrokersOption = DEFAULT_BROKERS,
    session: SparkOption = None,
) -> None:
    """Write a range of an archived topic into an empty topic: same partitions, order, keys, headers, timestamps."""
    with _spark(path, session) as (spark, folder):
        from raftka.pipeline.archive.restoring import Restore
        from raftka.pipeline.archive.restoring import restore as restored

        with underway(f"writing records of {topic} into {to}"):
            done = restored(spark, folder, Restore(brokers, topic, to, begin or 0, end, partitions))
    for partition, records in done.records.items():
        print(f"{to}-{partition}: {records:,} records")
    for partition, holes in done.never_read.items():
        for hole in holes:
            print(f"{topic}-{partition}: offsets {hole.begin} to {hole.end - 1} were never archived")
    if done.is_new_topic:
        print(f"topic {to} is new, and keeps its records forever (retention.ms = -1)")


@app.command("compact")
def compact(
    path: PathArgument,
    target_mib: Annotated[
        int, typer.Option("--target-mib", metavar="MIB", min=1, max=65_536, help="Size of a joined file, about.")
    ] = 128,
    session: SparkOption = None,
) -> None:
    """Join small files of each topic and day. The pipeline may go on writing."""
    with _spark(path, session) as (spark, folder):
        from raftka.pipeline.archive.compaction import compact as compacted

        with underway("joining small files"):
            done = compacted(spark, folder, target_mib * MIB)
    print(f"{done.files_before:,} files before, {done.files_after:,} now")


@contextmanager
def _spark(path: Path, options: list[str] | None) -> "Iterator[tuple[Any, ArchiveFolder]]":
    """Open an archive and a session; what Spark raises becomes a line."""
    from raftka.pipeline.archive.folder import ArchiveFolder
    from raftka.pipeline.query_errors import query_error
    from raftka.pipeline.spark_session import open_session, require_spark

    own = parse_pairs(options or [], "--spark")
    require_spark()
    folder = ArchiveFolder.open(path)
    from raftka.pipeline.archive.reading import spark_errors

    with underway(STARTING_SPARK):
        session = open_session(
            "archive", {key.removeprefix("spark."): value for key, value in own.items()}, folder.spark_log
        )
    try:
        yield session, folder
    except spark_errors() as error:
        raise CommandError(query_error(str(error))) from None
    finally:
        session.stop()
