"""`raftka telemetry`: what the pipeline `telemetry` has written, drawn."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from raftka.cli.exit_codes import CommandError
from raftka.cli.options import parse_pairs

app = typer.Typer(help="Draw what brokers tell of their replicas.", no_args_is_help=True)

MomentOption = Annotated[str | None, typer.Option(metavar="TIME", help="As 2026-11-22T10:15:00, in UTC.")]


@app.callback()
def _telemetry() -> None:
    """Draw what brokers tell of their replicas."""


@app.command("plot")
def plot(
    path: Annotated[Path, typer.Option("--parquet", metavar="DIR", help="The tables of the pipeline `telemetry`.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="A PNG file; it is replaced.")],
    topic: Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="Of this topic.")] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", metavar="N", min=0, help="This partition of the topic.")
    ] = None,
    begin: MomentOption = None,
    end: MomentOption = None,
    session: Annotated[
        list[str] | None,
        typer.Option("--spark", metavar="KEY=VALUE", help="Configuration of the session, as driver.memory=2g; repeat."),
    ] = None,
) -> None:
    """Draw a partition: lag by replica, who led, latency, and when it was not available.

    Without --topic and --partition it is the one that was longest not available.
    """
    from raftka.pipeline.query_errors import query_error
    from raftka.pipeline.spark_session import open_session, require_spark
    from raftka.pipeline.telemetry.folder import TablesFolder
    from raftka.pipeline.telemetry.plot import draw, require_matplotlib
    from raftka.pipeline.telemetry.plot_data import plot_data

    if partition is not None and topic is None:
        raise typer.BadParameter("--partition needs --topic")
    own = {key.removeprefix("spark."): value for key, value in parse_pairs(session or [], "--spark").items()}
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
        typer.BadParameter: It is no time.
    """
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{flag} {text}: is no time as 2026-11-22T10:15:00") from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
