"""What a kind builds its query with."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Generic

from raftka.pipeline.settings import S
from raftka.pipeline.source_options import source_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter


class PipelineRun(Generic[S]):
    """One run of a pipeline.

    Attributes:
        name: The pipeline's.
        settings: Its settings, checked.
        spark: The session.
        folder: Where the pipeline may keep files of its own.
        checkpoint: Spark's folder of this version of the query.
        resources: Closed when the query has ended.
    """

    def __init__(self, name: str, settings: S, spark: "SparkSession", folder: Path, checkpoint: Path) -> None:
        self.name = name
        self.settings = settings
        self.spark = spark
        self.folder = folder
        self.checkpoint = checkpoint
        self.resources = ExitStack()

    def read(self, *topics: str, starting_offsets: str | None = None) -> "DataFrame":
        """Return the stream of the pipeline's topics, or of those named here, in the form of Spark's Kafka source.

        Args:
            topics: Instead of the settings' topics.
            starting_offsets: Where a query without checkpoint begins, as JSON for Spark; None: where the settings say.
        """
        reader = self.spark.readStream.format("kafka").options(**self.source_options(starting_offsets))
        if topics:
            reader = reader.option("subscribe", ",".join(topics))
        elif self.settings.topics_pattern is not None:
            reader = reader.option("subscribePattern", self.settings.topics_pattern)
        else:
            reader = reader.option("subscribe", ",".join(self.settings.topics))
        return reader.load()

    def to_topic(self, frame: "DataFrame", topic: str) -> "DataStreamWriter":
        """Return a query that writes key and value, and headers and partition where there are any, to a topic."""
        return frame.writeStream.format("kafka").options(**self.kafka_options()).option("topic", topic)

    def source_options(self, starting_offsets: str | None = None) -> dict[str, str]:
        """Return the options of a Kafka source, without what it reads."""
        settings = self.settings
        options = {
            "failOnDataLoss": str(settings.fail_on_data_loss).lower(),
            "maxOffsetsPerTrigger": str(settings.max_offsets_per_trigger),
            "includeHeaders": "true",
            "kafka.isolation.level": settings.isolation_level,
        }
        if starting_offsets is not None or settings.starting_timestamp is None:
            options["startingOffsets"] = starting_offsets or settings.starting_offsets
        else:
            options["startingTimestamp"] = str(settings.starting_timestamp)
            # Where a partition has nothing that late, what comes next is what was asked for.
            options["startingOffsetsByTimestampStrategy"] = "latest"
        if settings.min_partitions is not None:
            options["minPartitions"] = str(settings.min_partitions)
        return source_options(settings.brokers) | self.kafka_options() | options

    def kafka_options(self) -> dict[str, str]:
        """Return where the brokers are, and what the pipeline sets below `kafka.`."""
        own = {f"kafka.{key}": value for key, value in self.settings.kafka.items()}
        return {"kafka.bootstrap.servers": self.settings.brokers} | own
