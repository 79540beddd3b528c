"""Look-ups by offset, timestamp and term."""

import asyncio
from pathlib import Path

import pytest
from log_harness import Place, Spec, append, barrier

from model.ids import Index, Offset, Term
from storage.entry import EntryKind
from storage.errors import LogTruncatedError
from storage.log import Log


async def story(log: Log) -> None:
    """Terms 1, 3, 4 (a barrier only) and 6; offsets 0..8."""
    await append(log, barrier(1), Spec(term=1, records=2, timestamp=50), Spec(term=1, timestamp=90))  # 0-1, 2
    await append(log, barrier(3), Spec(term=3, records=3, timestamp=70))  # 3-5
    await append(log, barrier(4))
    await append(log, barrier(6), Spec(term=6, timestamp=90), Spec(term=6, records=2, timestamp=120), barrier(6))  # 6-8


def both_lives(tmp_path: Path, check, **options: int) -> None:
    """Run a check on the log that wrote the story, on one that scanned it, and on one that used index files."""

    async def scenario() -> None:
        place = Place(tmp_path, **options)
        async with place.opened() as log:
            await story(log)
            await check(log)
        for path in place.directory.glob("*.index"):
            path.unlink()
        for _ in range(2):
            async with place.opened() as log:
                await check(log)

    asyncio.run(scenario())


@pytest.mark.parametrize("cache", [1, 1 << 20])
@pytest.mark.parametrize("segment_bytes", [200, 1 << 20])
def test_an_offset_is_found_in_the_entry_that_holds_it(tmp_path: Path, cache: int, segment_bytes: int) -> None:
    async def check(log: Log) -> None:
        found = [await log.reader.index_of_offset(Offset(offset)) for offset in range(11)]
        assert found == [2, 2, 3, 5, 5, 5, 8, 9, 9, 11, 11]

    both_lives(tmp_path, check, tail_cache_bytes=cache, segment_bytes=segment_bytes)


def test_a_log_of_entries_without_records_has_no_offsets(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Place(tmp_path, segment_bytes=100).opened() as log:
            assert await log.reader.index_of_offset(Offset(0)) == 1
            await append(log, barrier(1), Spec(kind=EntryKind.CONFIGURATION), barrier(2))
            assert await log.reader.index_of_offset(Offset(0)) == 4
            await append(log, Spec(term=2), barrier(3), barrier(4))
            assert await log.reader.index_of_offset(Offset(0)) == 4
            assert await log.reader.offset_of_timestamp(-1, log.dirty_index) == (0, 1000, 4)

    asyncio.run(scenario())


@pytest.mark.parametrize("segment_bytes", [200, 1 << 20])
def test_a_timestamp_is_found_in_the_first_batch_that_reaches_it(tmp_path: Path, segment_bytes: int) -> None:
    async def check(log: Log) -> None:
        async def at(timestamp: int, last: int = 10):
            return await log.reader.offset_of_timestamp(timestamp, Index(last))

        assert await at(0) == await at(50) == (0, 50, 2)
        assert await at(51) == await at(90) == (2, 90, 3)
        assert await at(91) == await at(120) == (7, 120, 9)
        assert await at(121) is None
        assert await at(91, 8) is None
        assert await at(51, 2) is None
        assert await at(51, 3) == (2, 90, 3)
        assert await at(0, 1) is None

    both_lives(tmp_path, check, segment_bytes=segment_bytes)


@pytest.mark.parametrize("segment_bytes", [200, 1 << 20])
def test_the_largest_timestamp_up_to_an_index(tmp_path: Path, segment_bytes: int) -> None:
    async def check(log: Log) -> None:
        found = [await log.reader.max_timestamp(Index(last)) for last in range(11)]
        assert found == [None, None, 50, 90, 90, 90, 90, 90, 90, 120, 120]

    both_lives(tmp_path, check, segment_bytes=segment_bytes, index_interval_bytes=60)


def test_batches_without_timestamps_have_no_largest_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Place(tmp_path).opened() as log:
            await append(log, Spec(timestamp=-1))
            assert await log.reader.max_timestamp(log.dirty_index) is None

    asyncio.run(scenario())


def test_terms_of_entries_and_of_records(tmp_path: Path) -> None:
    async def check(log: Log) -> None:
        assert [log.term_at(Index(index)) for index in range(11)] == [0, 1, 1, 1, 3, 3, 4, 6, 6, 6, 6]
        assert [log.term_of_offset(Offset(offset)) for offset in range(11)] == [1, 1, 1, 3, 3, 3, 6, 6, 6, 6, 6]
        for outside in (-1, 11):
            with pytest.raises(LogTruncatedError):
                log.term_at(Index(outside))

    both_lives(tmp_path, check)


def test_the_end_of_an_epoch_is_where_the_next_larger_one_begins(tmp_path: Path) -> None:
    async def check(log: Log) -> None:
        found = [log.epoch_end(Term(term)) for term in range(8)]
        assert found == [(0, 0), (1, 3), (1, 3), (3, 6), (4, 6), (4, 6), (6, 9), (6, 9)]

    both_lives(tmp_path, check)


def test_end_offsets_are_in_memory_from_the_start_of_this_life_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            await story(log)
            expected = [0, 0, 2, 3, 3, 6, 6, 6, 7, 9, 9]
            assert [log.end_offset(Index(index)) for index in range(11)] == expected
            assert log.end_offset(Index(11)) is None
        async with place.opened() as log:
            assert [log.end_offset(Index(index)) for index in range(11)] == [0, *[None] * 9, 9]
            assert [await log.reader.locate_end_offset(Index(index)) for index in range(11)] == expected

    asyncio.run(scenario())


def test_marks_are_forgotten_in_large_pieces_and_never_the_last(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Place(tmp_path, segment_bytes=1 << 20, tail_cache_bytes=1 << 22).opened() as log:
            await append(log, *[Spec()] * 5000)
            log.forget_marks(Index(4000))
            assert log.end_offset(Index(1)) == 1
            log.forget_marks(Index(9999))
            assert log.end_offset(Index(4999)) is None
            assert log.end_offset(Index(5000)) == 5000
            assert await log.reader.locate_end_offset(Index(4999)) == 4999
            await append(log, Spec())
            assert log.end_offset(Index(5001)) == 5001
            await log.truncate(Index(3000))
            assert (log.next_offset, log.end_offset(Index(2999))) == (2999, 2999)

    asyncio.run(scenario())
