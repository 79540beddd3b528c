"""The newest value of each key in a table of SQLite: what foreachBatch is for, and how it becomes exactly once.

A batch may be repeated. Its rows carry topic, partition and offset, and a row gives way to one with a higher offset
only: written twice, a batch changes nothing. A null value deletes its key, as in a compacted topic.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from raftka.pipeline.run import PipelineRun
from raftka.pipeline.settings import PipelineSettings

_TABLE = (
    "CREATE TABLE IF NOT EXISTS newest (topic TEXT, partition INTEGER, key TEXT, value TEXT, offset INTEGER,"
    " PRIMARY KEY (topic, partition, key))"
)
# A deleted key stays, without a value: a repeated batch must not bring back what it had before.
_UPSERT = (
    "INSERT INTO newest VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE"
    " SET value = excluded.value, offset = excluded.offset WHERE excluded.offset > newest.offset"
)
_BUSY_SECONDS = 60.0


class Settings(PipelineSettings, frozen=True, kw_only=True):
    """Keys of its own.

    Attributes:
        to: File of the database; None: `newest.sqlite` in the pipeline's folder.
    """

    to: str | None = None


def newest(records: DataFrame) -> DataFrame:
    """Return the last record of each key of a batch; records without a key are left out."""
    return (
        records.where(F.col("key").isNotNull())
        .groupBy("topic", "partition", F.col("key").cast("string").alias("key"))
        .agg(F.max_by(F.col("value").cast("string"), "offset").alias("value"), F.max("offset").alias("offset"))
        .select("topic", "partition", "key", "value", "offset")
    )


def build(run: PipelineRun[Settings]) -> Any:
    """Return the query."""
    path = Path(run.settings.to or run.folder / "newest.sqlite")

    def write(batch: DataFrame, _: int) -> None:
        with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as database, database:
            database.execute(_TABLE)
            database.executemany(_UPSERT, (tuple(row) for row in newest(batch).toLocalIterator()))

    return run.read().writeStream.foreachBatch(write)
