"""What must be so at the end: each returns a line that says what it is, or raises."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from raftka.check.errors import HistoryError
from raftka.check.levels import Level
from raftka.check.render import render as verdict_lines
from raftka.pipeline.archive.findings import render as archive_lines
from raftka.pipeline.archive.folder import ArchiveFolder
from raftka.pipeline.archive.verification import Wanted as Range
from raftka.pipeline.archive.verification import verify
from raftka.pipeline.audit.cluster import OnSpark
from raftka.pipeline.audit.logs import audit_log
from raftka.pipeline.audit.parts import HistoryFile
from raftka.pipeline.story.letters import broken_orders, compared, read_letters
from raftka.pipeline.story.orders import TOPIC
from raftka.pipeline.story.outage import Outage, during, unavailable
from raftka.pipeline.story.waiting import StoryError
from raftka.pipeline.telemetry.folder import TablesFolder
from raftka.pipeline.telemetry.plot import draw
from raftka.pipeline.telemetry.plot_data import plot_data
from raftka.pipeline.telemetry.reading import Wanted as Part
from raftka.pipeline.telemetry.reading import read_partition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def verified(spark: "SparkSession", brokers: str, archive: Path, orders: int) -> str:
    """Prove the archive against the log.

    Raises:
        StoryError: It is not whole, or not what the log has.
        PipelineError: It cannot be read.
        KafkaClientError: The brokers do not answer.
    """
    found = verify(spark, ArchiveFolder.open(archive), Range(brokers, (TOPIC,)))
    proven = sum(each.proven for each in found.partitions)
    lines = archive_lines(found)
    if not found.is_whole or proven != orders:
        raise StoryError("\n  ".join([f"{orders:,} orders are in the log", *lines]))
    return lines[-1]


def letters_counted(spark: "SparkSession", brokers: str, topic: str, history: Path) -> str:
    """Compare the dead letters with the orders that are no JSON.

    Raises:
        StoryError: One is missing, or there is one for an order that is JSON.
    """
    return compared(broken_orders(history), read_letters(spark, brokers, topic))


def plotted(spark: "SparkSession", tables: Path, outage: Outage, span: tuple[float, float], out: Path) -> str:
    """Draw the partition whose leader was lost, from a moment to a moment, in seconds since 1970.

    Raises:
        StoryError: The picture does not show that nobody led, and that others came to lead.
        PipelineError: There is nothing to draw.
    """
    title, rows = read_partition(spark, TablesFolder.open(tables), Part(TOPIC, outage.partition, *span))
    data = plot_data(title, rows)
    draw(data, out)
    shades = during(data.shades, outage)
    terms = {term for _, term in data.leaders}
    if not unavailable(shades, outage) or len(terms) < 3:
        raise StoryError(f"the picture does not show the lost leader: shades {data.shades}, terms {sorted(terms)}")
    spans = ", ".join(f"{span.name} {span.end - span.begin} s" for span in shades)
    return f"{title}, {data.end - data.begin} s, {len(terms)} terms; when its leader stood still: {spans}"


def audited(spark: "SparkSession", history: Path, folder: Path) -> str:
    """Judge what the clients saw.

    Raises:
        StoryError: There are anomalies, or it cannot be judged.
    """
    with tempfile.TemporaryDirectory(prefix="audit-", dir=folder) as scratch:
        try:
            verdict = audit_log([HistoryFile(history)], Level.QUORUM_ACK, OnSpark(spark), Path(scratch))
        except HistoryError as error:
            raise StoryError(f"the history cannot be judged: {error}") from None
    lines = list(verdict_lines(verdict, explained=False))
    if not verdict.is_valid:
        raise StoryError("\n  ".join(["the audit has found anomalies", *lines]))
    return f"{lines[0]}: {verdict.operations:,} operations, no anomaly"
