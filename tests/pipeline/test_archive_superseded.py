"""What compaction explains of records that an archive has and the log has not."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from raftka.pipeline.archive.superseded import with_compacted

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
OLD_MS = int((NOW - timedelta(days=1)).timestamp() * 1000)
SCHEMA = "partition INT, offset BIGINT, kind STRING, key BINARY, timestamp TIMESTAMP, is_tombstone BOOLEAN"
HELD = "partition INT, offset BIGINT, key BINARY"


def kind_of(
    spark: Any,
    key: bytes | None,
    held: list[tuple[int, int, bytes | None]],
    *,
    kind: str = "surplus",
    age: timedelta = timedelta(0),
    deletes: bool = False,
) -> str:
    """Return the kind of a record of partition 0 at offset 5 that differs."""
    row = (0, 5, kind, key, NOW - age, deletes)
    found = with_compacted(
        spark.createDataFrame([row], SCHEMA), spark.createDataFrame([(0, 5, key), *held], HELD), OLD_MS
    )
    [told] = found.collect()
    return str(told["kind"])


def test_only_a_later_record_of_its_key_and_partition_explains_a_missing_one(spark: Any) -> None:
    assert kind_of(spark, b"k", [(0, 9, b"k")]) == "compacted"
    assert kind_of(spark, b"k", [(0, 4, b"k")]) == "surplus"
    assert kind_of(spark, b"k", [(0, 9, b"l"), (0, 10, None)]) == "surplus"
    assert kind_of(spark, b"k", [(1, 9, b"k")]) == "surplus"


def test_a_tombstone_is_explained_once_it_is_old(spark: Any) -> None:
    assert kind_of(spark, b"k", [], deletes=True, age=timedelta(days=2)) == "compacted"
    assert kind_of(spark, b"k", [], deletes=True, age=timedelta(hours=2)) == "surplus"
    assert kind_of(spark, b"k", [], age=timedelta(days=2)) == "surplus"
    assert kind_of(spark, b"k", [(0, 6, b"k")], deletes=True) == "compacted"


def test_a_record_without_a_key_is_explained(spark: Any) -> None:
    assert kind_of(spark, None, []) == "compacted"


@pytest.mark.parametrize("kind", ["missing", "duplicated", "different", "damaged"])
def test_no_other_difference_is_explained(spark: Any, kind: str) -> None:
    assert kind_of(spark, b"k", [(0, 9, b"k")], kind=kind) == kind
