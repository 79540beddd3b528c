"""`raftka telemetry`: what the pipeline `telemetry` has written, drawn."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from raftka.cli.exit_codes import CommandError
from raftka.cli.lazy_group import CommandGroup
from raftka.cli.options import parse_pairs
from raftka.cli.param_types import PATH, BoundedInt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from raftka.pipeline.telemetry.charts_data import WantedScope
    from raftka.pipeline.telemetry.folder import TablesFolder
    from raftka.pipeline.telemetry.reading import Wanted


@click.group("telemetry", cls=CommandGroup)
def app() -> None:
    """Plot the telemetry of replicas."""


@app.command("plot")
@click.option(
    *("--parquet", "path"), type=PATH, required=True, metavar="DIR", help="Tables of the pipeline `telemetry`."
)
@click.option("--out", type=PATH, required=True, metavar="FILE", help="PNG file; an existing one is replaced.")
@click.option("--topic", metavar="TOPIC", help="Draw the replication of this topic, or with --partition a partition.")
@click.option("--partition", type=BoundedInt(0), metavar="N", help="Number of the partition.")
@click.option("--broker", type=BoundedInt(0), metavar="N", help="Draw the replication of this broker.")
@click.option("--cluster", is_flag=True, help="Draw the replication of the whole cluster.")
@click.option("--begin", metavar="TIME", help="Time such as 2026-11-22T10:15:00, UTC if it has no zone.")
@click.option("--end", metavar="TIME", help="Time such as 2026-11-22T10:15:00, UTC if it has no zone.")
@click.option(
    *("--spark", "session"),
    multiple=True,
    metavar="KEY=VALUE",
    help="Spark configuration, such as driver.memory=2g; repeat for more.",
)
def plot(
    path: Path,
    out: Path,
    topic: str | None,
    partition: int | None,
    broker: int | None,
    cluster: bool,
    begin: str | None,
    end: str | None,
    session: tuple[str, ...],
) -> None:
    """Plot a partition, or the replication of a topic, a broker or the cluster.

    A partition (--topic with --partition): the lag of each replica, the leader, latency and unavailable times. Without
    any of these options, plot the partition that was unavailable longest.

    --topic alone, --broker or --cluster: how long logs are and what of them is not applied, calls of replicate and
    applies with their durations and failures by kind of entry, and the smallest set in sync beside
    min.insync.replicas, of partitions with several replicas.
    """
    from raftka.pipeline.spark_session import require_spark
    from raftka.pipeline.telemetry.charts_data import WantedScope
    from raftka.pipeline.telemetry.folder import TablesFolder
    from raftka.pipeline.telemetry.plot import require_matplotlib

    if partition is not None and topic is None:
        raise click.BadParameter("--partition needs --topic")
    if (topic is not None) + (broker is not None) + cluster > 1:
        raise click.BadParameter("--topic, --broker and --cluster: choose one of them")
    own = {key.removeprefix("spark."): value for key, value in parse_pairs(session, "--spark").items()}
    first, last = _moment(begin, "--begin"), _moment(end, "--end")
    require_matplotlib()
    require_spark()
    folder = TablesFolder.open(path)
    if not out.absolute().parent.is_dir():
        raise CommandError(f"{out}: its folder does not exist")
    from raftka.pipeline.telemetry.reading import Wanted

    with _session(own, folder) as spark:
        if cluster or broker is not None or (topic is not None and partition is None):
            said = _plot_replication(spark, folder, out, WantedScope(topic, broker, first, last))
        else:
            said = _plot_partition(spark, folder, out, Wanted(topic, partition, first, last))
    print(f"{out}: {said}")


@contextmanager
def _session(own: dict[str, str], folder: "TablesFolder") -> Iterator["SparkSession"]:
    from pyspark.errors import PySparkException

    from raftka.pipeline.query_errors import query_error
    from raftka.pipeline.spark_session import open_session

    spark = open_session("telemetry", own, folder.spark_log)
    try:
        yield spark
    except PySparkException as error:
        raise CommandError(query_error(str(error))) from None
    finally:
        spark.stop()


def _plot_partition(spark: "SparkSession", folder: "TablesFolder", out: Path, wanted: "Wanted") -> str:
    from raftka.pipeline.telemetry.plot import draw
    from raftka.pipeline.telemetry.plot_data import plot_data
    from raftka.pipeline.telemetry.reading import read_partition

    title, rows = read_partition(spark, folder, wanted)
    data = plot_data(title, rows)
    draw(data, out)
    shaded = ", ".join(f"{span.name} {span.end - span.begin} s" for span in data.shades) or "always led"
    return f"{title}, {data.end - data.begin:,} s: {shaded}"


def _plot_replication(spark: "SparkSession", folder: "TablesFolder", out: Path, wanted: "WantedScope") -> str:
    from raftka.pipeline.telemetry.charts import draw_charts
    from raftka.pipeline.telemetry.charts_data import charts_data
    from raftka.pipeline.telemetry.reading import read_replication

    rows = read_replication(spark, folder, wanted)
    data = charts_data(wanted.title, rows)
    draw_charts(data, out)
    calls = sum(each.n for row in rows for each in row.calls)
    failed = sum(each.failed for row in rows for each in row.calls)
    smallest = min((row.in_sync_min for row in rows if row.in_sync_min is not None), default=None)
    in_sync = "" if smallest is None else f", smallest set in sync {smallest}"
    lacking = max((row.out_of_sync_max for row in rows if row.out_of_sync_max is not None), default=None)
    in_sync += "" if lacking is None else f", at most {lacking} of a partition out of sync"
    return f"{wanted.title}, {data.end - data.begin:,} s: {calls:,} calls, {failed:,} failed{in_sync}"


def _moment(text: str | None, flag: str) -> float | None:
    """Return seconds since 1970; a time without a zone is in UTC.

    Raises:
        click.BadParameter: It is no time.
    """
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{flag} {text}: must be a time such as 2026-11-22T10:15:00") from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
