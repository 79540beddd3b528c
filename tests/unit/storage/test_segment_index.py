"""The sparse index: never a position behind what is looked for, in memory and through its file."""

from pathlib import Path

import crc32c
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_harness import Disk

from model.ids import GroupId, Index, Offset, Term
from storage.index_file import (
    FORMAT_VERSION,
    CleanedTime,
    IndexRecord,
    decode_index,
    encode_index,
    index_path,
    read_index_file,
    write_index_file,
)
from storage.segment_index import SegmentIndex, TermStart

GROUP = GroupId("0123-7")
ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 30), st.integers(56, 400)), min_size=1, max_size=60)


def build(rows: list[tuple[int, int, int]], interval: int) -> tuple[SegmentIndex, list[tuple[int, int, int, int]]]:
    """Return the index and (index, offset, timestamp, position) of each entry; rows are (records, timestamp, size)."""
    index, entries, offset, position = SegmentIndex(interval), [], 100, 0
    for number, (records, timestamp, size) in enumerate(rows, 7):
        index.add(number, offset, records, timestamp, position)
        entries.append((number, offset, timestamp, position))
        offset, position = offset + records, position + size
    return index, entries


def copy(index: SegmentIndex, size: int, interval: int) -> SegmentIndex:
    return SegmentIndex.from_columns(index.columns(), size, index.max_timestamp, interval)


@given(ROWS, st.sampled_from([1, 150, 1000, 1 << 20]), st.booleans())
def test_a_position_is_at_or_before_what_is_looked_for_and_near_it(
    rows: list[tuple[int, int, int]], interval: int, through_file: bool
) -> None:
    index, entries = build(rows, interval)
    if through_file:
        index = copy(index, entries[-1][3] + rows[-1][2], interval)
    for (number, offset, timestamp, position), (records, _, _) in zip(entries, rows, strict=True):
        found = index.position_of_index(number)
        assert found <= position
        # No rows are kept of entries without records.
        if records:
            assert position - interval < found
            assert index.index_at(offset) in (number, None)
            assert records == 1 or index.index_at(offset + 1) is None
        # An entry without records holds no offset, but shares its number with the one that does.
        assert all(index.position_of_offset(offset + record) <= position for record in range(records))
        first = next(entry for entry in entries if entry[2] >= timestamp)
        assert index.position_of_timestamp(timestamp) <= first[3]
        at, before = index.max_timestamp_before(number)
        assert at == found
        assert before == max((entry[2] for entry in entries if entry[3] < at), default=-1)
    assert index.max_timestamp == max(entry[2] for entry in entries)


@given(ROWS, st.data())
def test_a_cut_index_is_that_of_the_entries_that_stay(rows: list[tuple[int, int, int]], data: st.DataObject) -> None:
    index, entries = build(rows, 150)
    kept = data.draw(st.integers(0, len(rows)))
    if kept < len(rows):
        index.cut(entries[kept][3], max((entry[2] for entry in entries[:kept]), default=-1))
    expected, _ = build(rows[:kept], 150) if kept else (SegmentIndex(150), [])
    assert index.columns() == expected.columns()
    assert index.max_timestamp == expected.max_timestamp
    # What is noted next is treated alike.
    for each in (index, expected):
        each.add(99, 999, 1, 5, entries[kept][3] if kept < len(rows) else entries[-1][3] + rows[-1][2])
    assert index.columns() == expected.columns()


def record(**changes: object) -> IndexRecord:
    index, _ = build([(1, 5, 100)] * 9, 150)
    fields: dict[str, object] = {
        "format_version": FORMAT_VERSION,
        "group": GROUP,
        "base_index": 7,
        "size": 900,
        "last_index": 15,
        "end_offset": 109,
        "max_timestamp": 5,
        "created_ms": 3,
        "closed_ms": 4,
        "data_term": 2,
        "terms": [TermStart(Index(7), Term(2), Offset(100))],
    }
    fields |= dict(zip(("indexes", "offsets", "timestamps", "positions"), index.columns(), strict=True))
    return IndexRecord(**(fields | changes))  # type: ignore[arg-type]


def test_an_index_file_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = str(tmp_path / "a.index")
    assert read_index_file(Disk(), path, GROUP, 7) is None
    (tmp_path / "a.index.tmp").write_bytes(b"left over")
    write_index_file(Disk(), path, encode_index(record()))
    assert read_index_file(Disk(), path, GROUP, 7) == record()
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.index"]
    assert index_path("/x/00000000000000000007-2.log") == "/x/00000000000000000007-2.index"


def test_an_index_file_has_the_rows_of_aborted_transactions() -> None:
    with_rows = record(producers=b"p" * 16, firsts=b"f" * 16, markers=b"m" * 16)
    found = decode_index(encode_index(with_rows), GROUP, 7)
    assert found == with_rows
    assert found.rows == (b"p" * 16, b"f" * 16, b"m" * 16)


def test_elements_that_a_later_version_adds_to_an_index_file_are_ignored() -> None:
    fields = msgspec.msgpack.decode(encode_index(record(cleaned_to=17))[4:])
    body = msgspec.msgpack.encode([*fields, 40])
    assert decode_index(crc32c.crc32c(body).to_bytes(4, "big") + body, GROUP, 7) == record(cleaned_to=17)


def test_what_a_pass_of_log_compaction_has_come_to_is_read_back() -> None:
    times = [CleanedTime(Index(9), 1000), CleanedTime(Index(15), 2000)]
    cleaned = record(cleaned_to=17, cleaned_times=times)
    assert decode_index(encode_index(cleaned), GROUP, 7) == cleaned
    # Where there is nothing to say an older version finds what it has always found.
    assert len(msgspec.msgpack.decode(encode_index(record())[4:])) == len(record().__struct_fields__) - 3
    assert decode_index(encode_index(record(cleaned_to=17, cleaned_times=times[::-1])), GROUP, 7) is None
    assert decode_index(encode_index(record(cleaned_to=-1)), GROUP, 7) is None


def test_an_index_file_of_format_2_is_one_without_rows() -> None:
    fields = msgspec.msgpack.decode(encode_index(record(format_version=2))[4:])[:15]
    body = msgspec.msgpack.encode(fields)
    found = decode_index(crc32c.crc32c(body).to_bytes(4, "big") + body, GROUP, 7)
    assert found == record(format_version=2)
    assert found.rows == (b"", b"", b"")


def test_an_index_file_of_format_2_with_rows_is_not_used() -> None:
    columns = {"producers": bytes(8), "firsts": bytes(8), "markers": bytes(8)}
    body = msgspec.msgpack.encode(record(format_version=2, **columns))
    assert decode_index(crc32c.crc32c(body).to_bytes(4, "big") + body, GROUP, 7) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"format_version": FORMAT_VERSION + 1},
        {"format_version": 1},
        {"producers": bytes(8), "firsts": bytes(8)},
        {"producers": bytes(4), "firsts": bytes(4), "markers": bytes(4)},
        {"group": "another"},
        {"base_index": 8},
        {"terms": []},
        {"terms": [TermStart(Index(8), Term(2), Offset(100))]},
        {"last_index": 6},
        {"offsets": b""},
        {"indexes": b"1234567", "offsets": b"1234567", "timestamps": b"1234567", "positions": b"1234567"},
    ],
)
def test_an_index_file_that_does_not_fit_is_not_used(changes: dict[str, object]) -> None:
    assert decode_index(encode_index(record(**changes)), GROUP, 7) is None


def test_every_flipped_bit_and_every_cut_makes_an_index_file_unusable() -> None:
    content = encode_index(record())
    assert decode_index(content, GROUP, 7) is not None
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        assert decode_index(bytes(damaged), GROUP, 7) is None
        assert decode_index(content[:position], GROUP, 7) is None
