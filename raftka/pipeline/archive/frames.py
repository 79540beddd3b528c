"""DataFrames of the archive: its rows, what of them is JSON, and dead letters. Pure: frame in, frame out."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType

from raftka.pipeline.archive.checksums import value_crc32c
from raftka.pipeline.json_objects import is_one_object

# Topic and day are the names of the folders.
SCHEMA = (
    "partition INT, offset BIGINT, key BINARY, value BINARY, value_crc32c BIGINT, timestamp TIMESTAMP,"
    " timestamp_type INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, topic STRING, day DATE"
)
_DAY_MS = 86_400_000
_CORRUPT = "_raftka_corrupt"


def crc32c_of(column: Column) -> Column:
    """Return the CRC32C of a binary column."""
    return F.udf(value_crc32c, LongType())(column)


def archived(records: DataFrame) -> DataFrame:
    """Return Kafka's rows as the archive's, each file's in order of partition and offset."""
    return records.select(
        "partition",
        "offset",
        "key",
        "value",
        crc32c_of(F.col("value")).alias("value_crc32c"),
        "timestamp",
        F.col("timestampType").alias("timestamp_type"),
        "headers",
        "topic",
        _day(F.col("timestamp")).alias("day"),
    ).sortWithinPartitions("topic", "day", "partition", "offset")


def _day(timestamp: Column) -> Column:
    """Return the day in UTC, whatever the session's time zone is."""
    return F.date_from_unix_date(F.floor(F.unix_millis(timestamp) / _DAY_MS).cast("int"))


def between_records(records: DataFrame, edges: DataFrame) -> DataFrame:
    """Return the offsets between records, as spans (partition, begin, end) in order; a block's are its own.

    Args:
        records: Partition, block and offset of all records.
        edges: For each block the offset before its first one, and the one behind its last, as if they were records.
    """
    within = Window.partitionBy("partition", "block").orderBy("offset")
    return (
        records.unionByName(edges)
        .withColumn("end", F.lead("offset").over(within))
        .where(F.col("end") - F.col("offset") > 1)
        .select("partition", (F.col("offset") + 1).alias("begin"), "end")
        .orderBy("partition", "begin")
    )


def typed(rows: DataFrame, schema: str) -> DataFrame:
    """Return rows with the columns that their values have as JSON, in a column `json`.

    Args:
        rows: Rows with a binary column `value`: the archive's, or Kafka's.
        schema: Columns in DDL. What a value does not have is null; what it has besides is left out.

    Returns:
        The rows, with `json` and `is_json`: false where the value is no JSON object of this schema. A null value, which
        in Kafka deletes a key, is neither.
    """
    text = F.col("value").cast("string")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = rows.withColumn("json", F.from_json(text, f"{schema}, {_CORRUPT} STRING", options))
    is_parsed = F.col("json").isNotNull() & F.col(f"json.{_CORRUPT}").isNull()
    is_object = is_parsed & is_one_object(text)
    flagged = parsed.withColumn("is_json", F.when(F.col("value").isNotNull(), F.coalesce(is_object, F.lit(False))))
    kept = F.col("json").dropFields(_CORRUPT)
    return flagged.withColumn("json", F.when(F.col("is_json"), kept))


def dead_letters(rows: DataFrame, schema: str) -> DataFrame:
    """Return the records for the dead-letter topic: those whose value is there and is no JSON of the schema."""

    def header(name: str, value: Column) -> Column:
        return F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))

    origin = F.array(
        header("raftka.topic", F.col("topic")),
        header("raftka.partition", F.col("partition")),
        header("raftka.offset", F.col("offset")),
        header("raftka.reason", F.lit(f"no JSON object with {schema}")),
    )
    none = F.array().cast("array<struct<key: string, value: binary>>")
    return (
        typed(rows, schema)
        .where(~F.col("is_json"))
        .select("key", "value", F.concat(F.coalesce(F.col("headers"), none), origin).alias("headers"))
    )
