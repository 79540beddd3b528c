"""`raftka archive`: what the pipeline `archive` has written, shown, verified, restored and compacted."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raftka.cli.exit_codes import DONE, FAILED, CommandError
from raftka.cli.lazy_group import CommandGroup
from raftka.cli.options import Format, brokers_option, format_option, parse_pairs
from raftka.cli.output import print_json, print_table
from raftka.cli.param_types import PATH, BoundedInt
from raftka.cli.progress_bar import STARTING_SPARK, underway
from raftka.kafka import client as kafka_client

if TYPE_CHECKING:
    from raftka.pipeline.archive.folder import ArchiveFolder

MIB = 1 << 20

path_argument = click.argument("path", type=PATH, metavar="DIR", help="Directory of the archive.")
begin_option = click.option("--begin", type=BoundedInt(0), metavar="OFFSET", help="First offset in every partition.")
end_option = click.option(
    "--end", type=BoundedInt(0), metavar="OFFSET", help="Offset after the last one in every partition."
)
spark_option = click.option(
    *("--spark", "session"),
    multiple=True,
    metavar="KEY=VALUE",
    help="Spark configuration, such as driver.memory=2g; repeat for more.",
)


@click.group("archive", cls=CommandGroup)
def app() -> None:
    """Verify, restore and compact archives of topics."""


@app.command("show")
@path_argument
@format_option
def show(path: Path, output: Format) -> None:
    """Show the contents of an archive from its commit records. Needs no Spark."""
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
@path_argument
@click.option(*("--topic", "topics"), multiple=True, metavar="TOPIC", help="Only this topic; repeat for more.")
@begin_option
@end_option
@click.option(
    *("--read-committed", "is_committed"),
    is_flag=True,
    help="The archive was written with isolation.level = read_committed.",
)
@brokers_option
@spark_option
@format_option
def verify(
    path: Path,
    topics: tuple[str, ...],
    begin: int | None,
    end: int | None,
    is_committed: bool,
    brokers: str,
    session: tuple[str, ...],
    output: Format,
) -> int:
    """Verify that the archive has every offset of the log exactly once, unchanged. Exit code 1 if not.

    Values are compared by their CRC32C, and keys, timestamps and headers in full. A range is not clipped. If both sides
    lack an offset, the log must explain it: control records, aborted transactions or compaction. If the log of a
    compacted topic lacks a record, a later record of its key must explain it.
    """
    kafka_client.check_service(brokers)
    with _spark(path, session) as (spark, folder):
        import msgspec

        from raftka.pipeline.archive.findings import render
        from raftka.pipeline.archive.verification import Wanted
        from raftka.pipeline.archive.verification import verify as verified

        level = "read_committed" if is_committed else "read_uncommitted"
        wanted = Wanted(brokers, topics or None, begin, end, level)
        with underway("comparing the archive with the log"):
            found = verified(spark, folder, wanted)
    if output is Format.JSON:
        print_json({"whole": found.is_whole} | msgspec.to_builtins(found))
    else:
        for line in render(found):
            print(line)
    return DONE if found.is_whole else FAILED


@app.command("restore")
@path_argument
@click.option("--topic", required=True, metavar="TOPIC", help="Archived topic.")
@click.option("--to", required=True, metavar="TOPIC", help="Target topic, empty or new.")
@begin_option
@end_option
@click.option(
    "--partitions",
    type=BoundedInt(1),
    metavar="N",
    help="Partitions of a new target topic. [default: as archived]",
)
@brokers_option
@spark_option
def restore(
    path: Path,
    topic: str,
    to: str,
    begin: int | None,
    end: int | None,
    partitions: int | None,
    brokers: str,
    session: tuple[str, ...],
) -> None:
    """Restore a range of a topic into an empty topic, with the same partitions, order, keys, headers and timestamps."""
    kafka_client.check_service(brokers)
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
@path_argument
@click.option(
    "--target-mib",
    type=BoundedInt(1, 65_536),
    default=128,
    metavar="MIB",
    help="Approximate size of a joined file.",
)
@spark_option
def compact(path: Path, target_mib: int, session: tuple[str, ...]) -> None:
    """Join small files of each topic and day. The pipeline may keep writing."""
    with _spark(path, session) as (spark, folder):
        from raftka.pipeline.archive.compaction import compact as compacted

        with underway("joining small files"):
            done = compacted(spark, folder, target_mib * MIB)
    print(f"{done.files_before:,} files before, {done.files_after:,} now")


@contextmanager
def _spark(path: Path, options: Sequence[str]) -> "Iterator[tuple[Any, ArchiveFolder]]":
    """Open an archive and a session; what Spark raises becomes a line."""
    from raftka.pipeline.archive.folder import ArchiveFolder
    from raftka.pipeline.query_errors import query_error
    from raftka.pipeline.spark_session import open_session, require_spark

    own = parse_pairs(options, "--spark")
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
