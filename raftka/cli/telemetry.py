"""`raftka telemetry`: what the pipeline `telemetry` has written, drawn."""

from datetime import UTC, datetime
from pathlib import Path

import click

from raftka.cli.exit_codes import CommandError
from raftka.cli.lazy_group import CommandGroup
from raftka.cli.options import parse_pairs
from raftka.cli.param_types import PATH, BoundedInt


@click.group("telemetry", cls=CommandGroup)
def app() -> None:
    """Plot the telemetry of replicas."""


@app.command("plot")
@click.option(
    *("--parquet", "path"), type=PATH, required=True, metavar="DIR", help="Tables of the pipeline `telemetry`."
)
@click.option("--out", type=PATH, required=True, metavar="FILE", help="PNG file; an existing one is replaced.")
@click.option("--topic", metavar="TOPIC", help="Topic of the partition.")
@click.option("--partition", type=BoundedInt(0), metavar="N", help="Number of the partition.")
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
    begin: str | None,
    end: str | None,
    session: tuple[str, ...],
) -> None:
    """Plot the lag of each replica, the leader, latency and unavailable times of a partition.

    Without --topic and --partition, plot the partition that was unavailable longest.
    """
    from raftka.pipeline.query_errors import query_error
    from raftka.pipeline.spark_session import open_session, require_spark
    from raftka.pipeline.telemetry.folder import TablesFolder
    from raftka.pipeline.telemetry.plot import draw, require_matplotlib
    from raftka.pipeline.telemetry.plot_data import plot_data

    if partition is not None and topic is None:
        raise click.BadParameter("--partition needs --topic")
    own = {key.removeprefix("spark."): value for key, value in parse_pairs(session, "--spark").items()}
    first, last = _moment(begin, "--begin"), _moment(end, "--end")
    require_matplotlib()
    require_spark()
    folder = TablesFolder.open(path)
    if not out.absolute().parent.is_dir():
        raise CommandError(f"{out}: its folder does not exist")
    from pyspark.errors import PySparkException

    from raftka.pipeline.telemetry.reading import Wanted, read_partition

    spark = open_session("telemetry", own, folder.spark_log)
    try:
        title, rows = read_partition(spark, folder, Wanted(topic, partition, first, last))
    except PySparkException as error:
        raise CommandError(query_error(str(error))) from None
    finally:
        spark.stop()
    data = plot_data(title, rows)
    draw(data, out)
    shaded = ", ".join(f"{span.name} {span.end - span.begin} s" for span in data.shades) or "always led"
    print(f"{out}: {title}, {data.end - data.begin:,} s: {shaded}")


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
