"""Keys of the kind `archive`."""

from typing import Annotated

import msgspec

from raftka.pipeline.settings import PipelineSettings, Positive

MIB = 1 << 20
# How Spark names the folder of a column without a value, so that a topic of that name would read as none.
NO_NAME = "__HIVE_DEFAULT_PARTITION__"


class Settings(PipelineSettings, frozen=True, kw_only=True):
    """Keys of its own.

    Attributes:
        to: The archive's folder; None: `archive` in the pipeline's folder.
        json_schema: Columns that values have as JSON, in DDL (id BIGINT, name STRING); other values are dead letters.
        dead_letter_topic: Gets the dead letters; it is made if it does not exist.
        compact_every: The key compact.batches: small files are joined after so many batches; 0: when
            `raftka archive compact` says so.
        target_bytes: How large joined files are, about.
    """

    to: str | None = None
    json_schema: str | None = None
    dead_letter_topic: str | None = None
    # Each batch leaves a file per partition and day. With a trigger of a minute this is once an hour.
    compact_every: Annotated[int, msgspec.Meta(ge=0)] = msgspec.field(default=60, name="compact.batches")
    target_bytes: Positive = 128 * MIB

    @property
    def compact_batches(self) -> int | None:
        """After how many batches small files are joined; None: never."""
        return self.compact_every or None

    def check(self) -> None:
        """Compare the values with each other."""
        super().check()
        if NO_NAME in self.topics:
            raise ValueError(f"a topic named {NO_NAME} cannot be archived: Spark takes it for none")
        if (self.json_schema is None) != (self.dead_letter_topic is None):
            raise ValueError("json.schema and dead.letter.topic belong together: set both or none")
        self.refuse_own_source("dead.letter.topic", self.dead_letter_topic)
