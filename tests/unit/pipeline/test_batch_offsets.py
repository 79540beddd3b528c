"""What Spark's checkpoint says that a batch reads."""

import json
from pathlib import Path

import pytest

from raftka.pipeline.archive.batch_offsets import (
    begins_known,
    checkpoint_id,
    completed_batch,
    offset_ranges,
    topics_of_batch,
)
from raftka.pipeline.archive.checksums import value_crc32c
from raftka.pipeline.errors import PipelineError
from tests.unit.pipeline.archives import offset_range

P0, P1 = ("orders", 0), ("orders", 1)


def checkpoint(folder: Path, first: dict[str, int], *batches: dict[str, int]) -> Path:
    """Write what Spark writes: where the query began, and where each batch ends."""
    (folder / "offsets").mkdir(parents=True)
    (folder / "sources" / "0").mkdir(parents=True)
    # Spark begins this file with a zero byte.
    (folder / "sources" / "0" / "0").write_text("\0v1\n" + json.dumps({"orders": first}))
    for number, ends in enumerate(batches):
        text = 'v1\n{"batchWatermarkMs":0}\n' + json.dumps({"orders": ends})
        (folder / "offsets" / str(number)).write_text(text)
    (folder / "metadata").write_text('{"id":"0123abcd-1111"}')
    return folder


def found(
    folder: Path, batch: int, seen: dict[tuple[str, int], tuple[int, int, int]], gapless: bool = True
) -> list[object]:
    ranges = offset_ranges(folder, batch, seen, is_gapless=gapless)
    return [(each.partition, each.begin, each.end, each.rows) for each in ranges]


def test_a_batch_goes_from_where_the_former_one_ended_and_the_first_from_where_the_query_began(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, {"0": 3, "1": 0}, {"0": 10, "1": 0}, {"0": 20, "1": 5})
    assert found(folder, 0, {P0: (3, 9, 7)}) == [(0, 3, 10, 7)]
    # Offsets that the log did not have are within the range all the same.
    assert found(folder, 1, {P0: (12, 18, 5)}) == [(0, 10, 20, 5), (1, 0, 5, 0)]
    assert checkpoint_id(folder) == "0123abcd-1111"


def test_a_new_partition_begins_with_its_first_record(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, {"0": 0}, {"0": 10, "1": 8})
    assert found(folder, 0, {P0: (0, 9, 10), P1: (2, 7, 6)}) == [(0, 0, 10, 10), (1, 2, 8, 6)]


def test_where_a_query_began_is_known_of_every_partition_also_of_those_without_a_record(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, {"0": 3, "1": 0}, {"0": 10, "1": 0, "2": 8, "3": 4})
    assert begins_known(folder, 0, [offset_range(3, 10), offset_range(2, 8, partition=2)]) == {
        ("orders", 0): 3,
        ("orders", 1): 0,
        ("orders", 2): 2,
        ("orders", 3): 4,
    }


def test_the_last_batch_that_is_done_is_the_one_with_the_highest_number(tmp_path: Path) -> None:
    assert completed_batch(tmp_path) is None
    (tmp_path / "commits").mkdir()
    assert completed_batch(tmp_path) is None
    for name in ("9", "10", ".10.crc"):
        (tmp_path / "commits" / name).write_text("v1")
    assert completed_batch(tmp_path) == 10


def test_where_lost_records_are_no_error_ranges_are_what_was_seen(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, {"0": 0}, {"0": 10})
    assert found(folder, 0, {P0: (4, 8, 5)}, gapless=False) == [(0, 4, 9, 5)]


@pytest.mark.parametrize("seen", [{P0: (2, 9, 7)}, {P0: (3, 10, 7)}, {("other", 0): (0, 1, 2)}])
def test_records_that_the_batch_should_not_have_are_an_error(
    tmp_path: Path, seen: dict[tuple[str, int], tuple[int, int, int]]
) -> None:
    folder = checkpoint(tmp_path, {"0": 3}, {"0": 10})
    with pytest.raises(PipelineError, match="batch 0 has"):
        found(folder, 0, seen)


def test_a_checkpoint_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, {"0": 3}, {"0": 10})
    with pytest.raises(PipelineError, match="offsets/7: no offsets of Spark's"):
        found(folder, 7, {})
    (folder / "metadata").write_text("[]")
    with pytest.raises(PipelineError, match="metadata: no checkpoint of Spark's"):
        checkpoint_id(folder)


def test_the_checksum_of_a_value_is_crc32c_and_none_of_none() -> None:
    assert value_crc32c(bytearray(b"123456789")) == 0xE3069283
    assert value_crc32c(b"") == 0
    assert value_crc32c(None) is None


def test_a_batch_looks_at_topics_of_which_it_has_nothing_too(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, {"0": 3}, {"0": 3})
    (folder / "offsets" / "1").write_text("v1\n{}\n" + json.dumps({"quiet": {"0": 0}, "orders": {"0": 3, "1": 0}}))
    assert [topics_of_batch(folder, batch) for batch in (0, 1)] == [["orders"], ["orders", "quiet"]]
