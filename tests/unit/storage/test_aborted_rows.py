"""Rows of aborted transactions: from markers to the index file and back, and what a read returns of them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_harness import Place, Spec, append, barrier, ends, entries_after, flip, steps

from model.control_batch import MarkerType
from model.ids import Index, Offset, Term
from model.key_value_batch import KeyValue, encode_key_values
from model.record_batch import CONTROL_MASK, TRANSACTIONAL_MASK, BatchProducer
from runtime.workers import Pool
from storage.aborted_rows import NO_ROWS, AbortedRow, AbortedRows, aborted_row
from storage.entry import Entry, EntryKind
from storage.errors import LogPoisonedError, LogTruncatedError, StorageError
from storage.log import Log
from storage.log_start import LogStart
from storage.read_ahead import ReadAheadBudget
from storage.read_cache import CacheBudgets, ReadCacheBudget
from storage.rows_budget import RowsBudget
from storage.snapshot_file import Snapshot
from storage.tail_cache import TailBudget
from storage.verified_ranges import VerifiedBudget

EVERYTHING = 1 << 20
# What the rows of one segment take at least.
ONE = AbortedRows().size_bytes


def row(producer_id: int, first_offset: int, marker_offset: int) -> AbortedRow:
    return AbortedRow(producer_id, Offset(first_offset), Offset(marker_offset))


def budgets(rows: int = EVERYTHING) -> CacheBudgets:
    shared = (TailBudget(EVERYTHING), ReadCacheBudget(0), ReadAheadBudget(0), VerifiedBudget(1000, 100))
    return CacheBudgets(*shared, RowsBudget(rows))


# Three segments: offsets 0 to 3, 4 to 7, and 8 to 9. A transaction of producer 7 begins in each and ends in the next.
STORY: Sequence[Sequence[Spec]] = (
    [Spec(size=60), Spec(size=60), ends(8, 0), Spec(size=60)],
    [Spec(size=60), ends(7, 3), ends(9, 4, MarkerType.COMMIT), Spec(size=60)],
    [Spec(size=60), ends(7, 7)],
)
ROWS = [row(8, 0, 2), row(7, 3, 5), row(7, 7, 9)]


@asynccontextmanager
async def told(
    directory: Path, caches: CacheBudgets | None = None, *, tail: int = 1
) -> AsyncIterator[tuple[Place, Log]]:
    """A log with the story in it, flushed, with all index files written; its newest `tail` bytes are in memory."""
    place = Place(directory, segment_bytes=700, tail_cache_bytes=tail)
    async with place.opened(caches=caches) as log:
        for specs in STORY:
            await append(log, *specs)
        await log.flush()
        await steps(50)
        assert place.bases() == [(1, 1), (5, 1), (9, 1)]
        assert len(place.names(".index")) == 2
        yield place, log


async def rows_of(log: Log, first: int, last: int) -> list[AbortedRow]:
    entries, rows = await log.reader.read_with_aborted(Index(first), EVERYTHING, Index(last))
    assert (entries[0].index, entries[-1].index) == (first, last)
    return rows


async def all_rows(log: Log) -> list[AbortedRow]:
    return await rows_of(log, int(log.start_index), int(log.dirty_index))


async def move_start(log: Log, index: int, offset: int) -> None:
    """Delete the segments wholly below an entry."""
    start = LogStart(Index(index), Offset(offset), Offset(offset), Term(1))
    log.advance_start(start)
    await log.save_snapshot(Snapshot(start, Index(index - 1), Term(1), b"state"))


def reads(place: Place, suffix: str) -> int:
    return sum(call == "pread" and name.endswith(suffix) for call, name in place.disk.calls)


# -- the rows of one segment ------------------------------------------------------------------------------------------

FIRSTS = st.lists(st.integers(0, 900), max_size=700)


@given(FIRSTS, st.integers(0, 1500), st.integers(0, 1000), st.integers(0, 1600), st.booleans())
def test_rows_are_found_by_where_transactions_begin_and_end(
    firsts: list[int], begin: int, end: int, cut: int, through_file: bool
) -> None:
    rows, expected = AbortedRows(), []
    for number, first in enumerate(firsts):
        expected.append(row(number, first, 2 * number + 900))
        rows.add(expected[-1])
    rows.cut(Offset(cut))
    expected = [each for each in expected if each.marker_offset < cut]
    if through_file:
        rows = AbortedRows.from_columns(rows.columns())
    rows.add(row(5, 3, 5000))
    expected.append(row(5, 3, 5000))
    found = rows.within(Offset(begin), Offset(end))
    assert found == [each for each in expected if each.first_offset < end and each.marker_offset >= begin]
    assert len(rows) == len(expected)
    assert rows.lowest == min(each.first_offset for each in expected)


def test_a_segment_without_rows_is_passed_over_by_every_reader() -> None:
    assert AbortedRows().lowest == NO_ROWS
    assert not AbortedRows().within(Offset(0), Offset(NO_ROWS))


def entry_of(spec: Spec, offset: int = 40) -> Entry:
    return entries_after(0, offset, [spec])[0]


def test_an_abort_marker_of_this_log_has_a_row_and_no_other_control_batch_has() -> None:
    assert aborted_row(entry_of(ends(7, 30))) == row(7, 30, 40)
    assert aborted_row(entry_of(ends(7, 30, MarkerType.COMMIT))) is None
    # It begins behind its own marker, or before the log.
    assert aborted_row(entry_of(ends(7, 41))) is None
    assert aborted_row(entry_of(ends(7, -1))) is None


def test_a_control_batch_that_is_no_marker_has_no_row() -> None:
    attributes = TRANSACTIONAL_MASK | CONTROL_MASK
    for key in (b"", b"\x00\x00\x00\x07"):
        batch = encode_key_values([KeyValue(key, b"")], 0, BatchProducer(1, 0, attributes))
        assert aborted_row(Entry(Index(1), Term(1), EntryKind.DATA, Offset(5), 1, batch)) is None


# -- index files ------------------------------------------------------------------------------------------------------


def test_the_rows_of_a_closed_segment_are_in_its_index_file_and_leave_memory(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with told(tmp_path) as (place, log):
            closed, active = log._segments[0], log._segments[2]
            assert closed.rows is None
            assert closed.lowest_first == 0
            assert active.rows is not None
            content = msgspec.msgpack.decode((place.directory / place.names(".index")[1]).read_bytes()[4:])
            assert content[0] == 3
            assert [int.from_bytes(column, "little") for column in content[-3:]] == [7, 3, 5]
            assert await all_rows(log) == ROWS

    asyncio.run(scenario())


def test_a_read_gets_the_rows_of_transactions_with_records_in_it_and_no_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with told(tmp_path) as (_, log):
            for first in range(1, 11):
                for last in range(first, 11):
                    begin, end = first - 1, last
                    wanted = [each for each in ROWS if each.first_offset < end and each.marker_offset >= begin]
                    assert await rows_of(log, first, last) == wanted
            assert await log.reader.read_with_aborted(Index(11), EVERYTHING, Index(20)) == ([], [])

    asyncio.run(scenario())


@pytest.mark.parametrize("how", ["kept", "lost", "damaged"])
def test_a_restart_finds_the_rows_with_and_without_index_files(tmp_path: Path, how: str) -> None:
    async def scenario() -> None:
        async with told(tmp_path) as (place, _):
            pass
        for name in place.names(".index"):
            if how == "lost":
                (place.directory / name).unlink()
            elif how == "damaged":
                flip(place.directory / name, 9)
        async with place.opened() as log:
            assert (log._segments[1].rows is None) == (how == "kept")
            assert await all_rows(log) == ROWS
            await steps(50)
            assert log._segments[1].rows is None
            assert await all_rows(log) == ROWS
            assert len(place.names(".index")) == 2

    asyncio.run(scenario())


@pytest.mark.parametrize("how", ["lost", "damaged", "refused"])
def test_a_look_up_reads_the_segment_where_its_index_file_cannot_be_used(tmp_path: Path, how: str) -> None:
    async def scenario() -> None:
        async with told(tmp_path, budgets()) as (place, log):
            for segment in list(log._segments):
                log._segments._rows.forget(segment)
            for name in place.names(".index"):
                if how == "lost":
                    (place.directory / name).unlink()
                elif how == "damaged":
                    flip(place.directory / name, 9)
            if how == "refused":
                place.disk.fail("open", ".index", times=2)
            assert await all_rows(log) == ROWS
            place.disk.calls.clear()
            assert await log.reader._aborted.within(Index(1), Offset(0), Offset(10)) == ROWS
            # They are kept, and not read again.
            assert reads(place, ".log") == 0

    asyncio.run(scenario())


def test_a_segment_without_rows_has_an_index_file_of_format_2_which_saves_the_scan(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            await append(log, *[Spec(size=60)] * 6)
            await log.flush()
            await steps(50)
        before = {name: content for name, content in place.content().items() if name.endswith(".index")}
        assert before
        # So an older version reads them as well.
        assert {msgspec.msgpack.decode(content[4:])[0] for content in before.values()} == {2}
        place.disk.calls.clear()
        async with place.opened() as log:
            assert [segment.has_index_file for segment in log._segments] == [True] * len(before) + [False]
            assert await all_rows(log) == []
        assert {name: content for name, content in place.content().items() if name.endswith(".index")} == before

    asyncio.run(scenario())


def test_a_segment_whose_index_file_cannot_be_written_keeps_its_rows(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=700)
        place.disk.fail("rename", ".index", times=9)
        async with place.opened() as log:
            for specs in STORY:
                await append(log, *specs)
            await log.flush()
            await steps(50)
            assert place.names(".index") == []
            assert all(segment.rows is not None for segment in log._segments)
            assert await all_rows(log) == ROWS

    asyncio.run(scenario())


# -- truncation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first_removed", range(1, 11))
@pytest.mark.parametrize("index_files", ["written", "lost", "not written"])
def test_a_truncation_removes_the_rows_of_removed_markers(tmp_path: Path, first_removed: int, index_files: str) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=700)
        async with place.opened() as log:
            for specs in STORY:
                await append(log, *specs)
            if index_files != "not written":
                await log.flush()
                await steps(50)
                assert len(place.names(".index")) == 2
            if index_files == "lost":
                for name in place.names(".index"):
                    (place.directory / name).unlink()
            await log.truncate(Index(first_removed))
            kept = [each for each in ROWS if each.marker_offset < first_removed - 1]
            if first_removed > 1:
                assert await all_rows(log) == kept
            # What comes next has its rows, in memory and in the file of the segment that is closed again.
            next_offset = int(log.next_offset)
            await append(log, Spec(size=60), ends(11, next_offset), *[Spec(size=300)] * 3)
            kept.append(row(11, next_offset, next_offset + 1))
            assert await all_rows(log) == kept
            await log.flush()
            await steps(50)
            assert await all_rows(log) == kept
        async with place.opened() as log:
            assert await all_rows(log) == kept

    asyncio.run(scenario())


def test_an_index_file_that_is_written_during_the_look_up_of_a_truncation_takes_no_row(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=700)
        async with place.opened() as log:
            for specs in STORY:
                await append(log, *specs)
            place.workers.hold(Pool.READ, after=True)
            truncation = asyncio.ensure_future(log.truncate(Index(7)))
            await steps()
            await log.flush()
            await steps(50)
            assert len(place.names(".index")) == 2
            assert log._segments[1].rows is None
            place.workers.release(Pool.READ)
            await truncation
            assert log._segments[1].rows is not None
            assert await all_rows(log) == ROWS[:2]

    asyncio.run(scenario())


def test_a_truncation_into_a_segment_that_is_damaged_and_has_no_index_file_poisons_the_log(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with told(tmp_path) as (place, log):
            (place.directory / place.names(".index")[1]).unlink()
            flip(place.directory / place.names()[1], 100)
            with pytest.raises(LogPoisonedError, match="cannot be truncated"):
                await log.truncate(Index(9))

    asyncio.run(scenario())


def test_a_truncation_in_a_log_without_markers_looks_up_no_row(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            await append(log, *[Spec(size=60)] * 6)
            await log.flush()
            await steps(50)
            place.disk.calls.clear()
            await log.truncate(Index(3))
            assert reads(place, ".index") == 0
            assert reads(place, ".log") == 0

    asyncio.run(scenario())


# -- one view ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [False, True])
def test_entries_whose_marker_is_deleted_before_its_row_is_read_are_not_returned(tmp_path: Path, after: bool) -> None:
    async def scenario() -> None:
        # Entries come from memory, so the first read of the disk is one of rows.
        async with told(tmp_path, budgets(rows=0), tail=EVERYTHING) as (place, log):
            place.workers.hold(Pool.READ, after=after)
            read = asyncio.ensure_future(log.reader.read_with_aborted(Index(1), EVERYTHING, Index(4)))
            await steps()
            await move_start(log, 9, 8)
            assert place.bases() == [(9, 1)]
            place.workers.release(Pool.READ)
            with pytest.raises(LogTruncatedError, match="entry 1 is below the start of the log, 9"):
                await read

    asyncio.run(scenario())


def test_a_start_that_moves_within_the_segment_of_the_entries_takes_no_row(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with told(tmp_path, budgets(rows=0), tail=EVERYTHING) as (place, log):
            place.workers.hold(Pool.READ)
            read = asyncio.ensure_future(rows_of(log, 1, 4))
            await steps()
            await move_start(log, 4, 3)
            place.workers.release(Pool.READ)
            assert await read == ROWS[:2]
            assert await all_rows(log) == ROWS[1:]

    asyncio.run(scenario())


def test_entries_and_rows_are_read_again_when_the_log_is_truncated_meanwhile(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with told(tmp_path, budgets(rows=0), tail=EVERYTHING) as (place, log):
            place.workers.hold(Pool.READ)
            read = asyncio.ensure_future(log.reader.read_with_aborted(Index(1), EVERYTHING, Index(10)))
            await steps()
            # Nothing is looked up for this one: the log is cut between two segments, and all rows are in memory then.
            log._segments._rows.limit = EVERYTHING
            log._segments._rows.put(log._segments[1], AbortedRows.from_columns(_columns(ROWS[1:2])))
            await log.truncate(Index(9))
            await append(log, Spec(size=60), ends(9, 8))
            place.workers.release(Pool.READ)
            entries, rows = await read
            assert [int(entry.index) for entry in entries] == list(range(1, 11))
            assert rows == [*ROWS[:2], row(9, 8, 9)]

    asyncio.run(scenario())


def _columns(rows: list[AbortedRow]) -> tuple[bytes, bytes, bytes]:
    made = AbortedRows()
    for each in rows:
        made.add(each)
    return made.columns()


@pytest.mark.parametrize("after", [False, True])
def test_a_look_up_that_a_close_interrupts_does_not_tell_that_entries_were_deleted(tmp_path: Path, after: bool) -> None:
    async def scenario() -> None:
        async with told(tmp_path, budgets(rows=0), tail=EVERYTHING) as (place, log):
            place.workers.hold(Pool.READ, after=after)
            read = asyncio.ensure_future(log.reader.read_with_aborted(Index(1), EVERYTHING, Index(4)))
            await steps()
            closing = asyncio.ensure_future(log.close())
            await steps()
            place.workers.release(Pool.READ)
            await closing
            with pytest.raises(StorageError, match="is closed") as raised:
                await read
            assert not isinstance(raised.value, LogTruncatedError)
            # However late the look-up goes on: a closed log has no segments, but nothing of it was deleted.
            with pytest.raises(StorageError, match="is closed"):
                await log.reader._rows_within(Index(1), Offset(0), Offset(4))

    asyncio.run(scenario())


def test_payloads_that_leave_from_their_files_come_with_their_rows(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=900)
        async with place.opened(caches=budgets()) as log:
            await append(log, Spec(size=150, records=3), Spec(size=150), ends(7, 3), Spec(size=150), ends(8, 5))
            await append(log, *[Spec(size=500)] * 2)
            await log.flush()
            await steps(50)
            find = log.reader.ranges_with_aborted
            # What was not read from the files before does not leave from them.
            assert await find(Index(1), Index(2), EVERYTHING, Offset(0)) == ([], [])
            await log.read(Index(1), EVERYTHING)
            ranges, rows = await find(Index(1), Index(2), EVERYTHING, Offset(0))
            assert ([each.record_count for each in ranges], rows) == ([3, 1], [row(7, 3, 4)])
            # From within a batch on, a transaction that begins a little behind the ranges may be among the rows.
            _, rows = await find(Index(1), Index(2), EVERYTHING, Offset(2))
            assert rows == [row(7, 3, 4), row(8, 5, 6)]
            ranges, rows = await find(Index(1), Index(1), EVERYTHING, Offset(0))
            assert ([each.record_count for each in ranges], rows) == ([3], [])

    asyncio.run(scenario())


# -- memory -----------------------------------------------------------------------------------------------------------


def test_rows_of_closed_segments_are_read_from_their_index_files_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        shared = budgets()
        async with told(tmp_path, shared) as (place, log):
            # They were kept when the index files were written.
            assert await all_rows(log) == ROWS
            assert reads(place, ".index") == 0
        assert shared.rows.used == 0
        async with place.opened(caches=shared) as log:
            place.disk.calls.clear()
            assert await all_rows(log) == ROWS
            assert await all_rows(log) == ROWS
            assert reads(place, ".index") == 2
            assert shared.rows.used > 0
        assert shared.rows.used == 0

    asyncio.run(scenario())


def test_rows_above_the_bound_are_read_again_and_the_bound_holds(tmp_path: Path) -> None:
    async def scenario() -> None:
        shared = budgets(rows=ONE + 100)
        async with told(tmp_path, shared) as (place, log):
            place.disk.calls.clear()
            for _ in range(3):
                assert await all_rows(log) == ROWS
                assert 0 < shared.rows.used <= shared.rows.limit
            assert reads(place, ".index") >= 3

    asyncio.run(scenario())


def test_memory_of_rows_is_given_back_when_their_segment_leaves_the_log_or_is_written_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        shared = budgets()
        async with told(tmp_path, shared) as (_, log):
            one = shared.rows.used // 2
            await move_start(log, 5, 4)
            assert shared.rows.used == one
            await log.truncate(Index(8))
            assert shared.rows.used == 0
            assert await all_rows(log) == [ROWS[1]]

    asyncio.run(scenario())


def test_rows_that_were_read_for_a_segment_that_left_meanwhile_are_not_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        shared = budgets()
        async with told(tmp_path, shared, tail=EVERYTHING) as (place, log):
            removed = log._segments[0]
            for segment in list(log._segments):
                shared.rows.forget(segment)
            place.workers.hold(Pool.READ, after=True)
            read = asyncio.ensure_future(log.reader.read_with_aborted(Index(1), EVERYTHING, Index(4)))
            await steps()
            await move_start(log, 5, 4)
            place.workers.release(Pool.READ)
            with pytest.raises(LogTruncatedError):
                await read
            assert shared.rows.get(removed) is None
            assert await all_rows(log) == ROWS[1:]
            await log.truncate(Index(5))
            assert shared.rows.used == 0

    asyncio.run(scenario())


def test_a_log_without_aborted_transactions_reads_nothing_but_entries(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300, tail_cache_bytes=EVERYTHING)
        async with place.opened(caches=budgets()) as log:
            await append(log, barrier(1), *[Spec(size=60)] * 6, ends(7, 2, MarkerType.COMMIT))
            await log.flush()
            await steps(50)
            place.disk.calls.clear()
            assert await all_rows(log) == []
            assert not any(call == "pread" for call, _ in place.disk.calls)

    asyncio.run(scenario())


def test_the_budget_keeps_what_was_looked_up_last(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with told(tmp_path) as (_, log):
            first, second, third = log._segments
            rows = AbortedRows()
            rows.add(ROWS[0])
            budget = RowsBudget(2 * rows.size_bytes)
            budget.put(first, rows)
            budget.put(second, rows)
            assert budget.get(first) is rows
            budget.put(third, rows)
            assert [budget.get(each) is not None for each in (first, second, third)] == [True, False, True]
            # Once only, however often.
            budget.put(third, rows)
            assert budget.used == 2 * rows.size_bytes
            for each in (first, second, third):
                budget.forget(each)
            assert budget.used == 0
            RowsBudget(0).put(first, rows)

    asyncio.run(scenario())
