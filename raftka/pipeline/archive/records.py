"""Commit records of an archive: which files a batch or a compaction added, and of which offsets.

A record is a JSON file that appears by a rename. Once it is there, its files count, wherever they still lie.
"""

import re

import msgspec

_NAME = re.compile(r"([bc])(\d{10})(?:-([0-9a-f]{8}))?\.json")


class ArchivedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One Parquet file.

    Attributes:
        staged: Where it was written, from the staging folder.
        path: Where it belongs, from the archive's folder.
        topic: Topic of all its records.
        day: Their day, YYYY-MM-DD in UTC.
        rows: How many they are.
        size: Bytes of the file.
        first: Lowest partition and offset in it.
        partitions: Rows by partition.
    """

    staged: str
    path: str
    topic: str
    day: str
    rows: int
    size: int
    first: tuple[int, int]
    partitions: dict[int, int]


class OffsetRange(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch was asked to read of one partition, and what was there.

    Attributes:
        begin: First offset.
        end: The offset behind the last.
        rows: Records between them; fewer than end - begin where the log had gaps.
    """

    topic: str
    partition: int
    begin: int
    end: int
    rows: int


class ArchivedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a topic; every record has it, so that a record which is lost takes none of it along.

    Attributes:
        id: The one that brokers give it; None: they give none.
        begins: First offset that is archived, by partition, also of partitions of which nothing was read yet.
    """

    id: str | None = None
    begins: dict[int, int] = {}


class BatchCommit(msgspec.Struct, frozen=True, kw_only=True, tag="batch"):
    """A batch of the pipeline. `checkpoint` is the id of Spark's checkpoint; batch numbers count within one.

    `topics` is what is known of all topics of the pipeline. Older records have none.
    """

    checkpoint: str
    batch: int
    files: list[ArchivedFile]
    ranges: list[OffsetRange]
    dead_letters: int = 0
    topics: dict[str, ArchivedTopic] = {}

    @property
    def name(self) -> str:
        """Name of the record's file."""
        return batch_name(self.checkpoint, self.batch)


class CompactionCommit(msgspec.Struct, frozen=True, kw_only=True, tag="compaction"):
    """Files that replace others. `replaces` are paths from the archive's folder."""

    number: int
    files: list[ArchivedFile]
    replaces: list[str]

    @property
    def name(self) -> str:
        """Name of the record's file."""
        return f"c{self.number:010}.json"


Commit = BatchCommit | CompactionCommit


def batch_name(checkpoint: str, batch: int) -> str:
    """Return the name of a batch's record."""
    return f"b{batch:010}-{checkpoint[:8]}.json"


def is_record(name: str) -> bool:
    """Return whether a file in the folder of commits is a record; one that was being written is not."""
    return _NAME.fullmatch(name) is not None


def encode_commit(commit: Commit) -> bytes:
    """Return a record's file."""
    return msgspec.json.encode(commit) + b"\n"


def decode_commit(data: bytes) -> Commit:
    """Return what `encode_commit` wrote.

    Raises:
        ValueError: It is something else.
    """
    return msgspec.json.decode(data, type=BatchCommit | CompactionCommit)
