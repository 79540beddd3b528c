"""The mark of how far a log may be compacted (RFC 0022, section 7): it only rises, and no state is guessed without it."""

import asyncio
import errno
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from log_harness import Place, Spec, append, flip

from model.ids import Index, Term
from storage.compacted_mark import COMPACTED_NAME
from storage.errors import DamagedLogError, DiskFullError, LogPoisonedError
from storage.log_start import ORIGIN
from storage.snapshot_file import Snapshot

T = TypeVar("T")


def run(what: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(what)


def test_the_mark_outlives_a_crash_and_never_falls(tmp_path: Path) -> None:
    async def test() -> None:
        place = Place(tmp_path)
        log = await place.open()
        assert log.compacted_index == 0
        await append(log, *[Spec()] * 5)
        await log.raise_compacted(Index(4))
        await log.raise_compacted(Index(3))
        assert log.compacted_index == 4
        await place.crash(log)
        async with place.opened() as again:
            assert again.compacted_index == 4

    run(test())


def test_of_two_that_raise_it_at_the_same_time_the_higher_one_counts(tmp_path: Path) -> None:
    async def test() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            await append(log, *[Spec()] * 5)
            # Both wait until the snapshot is saved.
            saving = log.save_snapshot(Snapshot(log.start, log.dirty_index, log.last_term, b""))
            await asyncio.gather(saving, log.raise_compacted(Index(5)), log.raise_compacted(Index(3)))
            assert log.compacted_index == 5
        async with place.opened() as again:
            assert again.compacted_index == 5

    run(test())


def test_with_a_damaged_mark_all_that_the_log_holds_counts_as_compacted(tmp_path: Path) -> None:
    async def test() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            await append(log, *[Spec()] * 5)
            await log.flush()
            await log.raise_compacted(Index(2))
        flip(place.directory / COMPACTED_NAME, 3)
        async with place.opened() as again:
            assert again.compacted_index == again.dirty_index == 5
            await again.raise_compacted(Index(7))
        async with place.opened() as last:
            assert last.compacted_index == 7

    run(test())


@pytest.mark.parametrize("is_compacted", [False, True])
def test_without_its_state_a_compacted_log_is_set_aside(tmp_path: Path, is_compacted: bool) -> None:
    async def test() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            await append(log, *[Spec(size=100)] * 5)
            await log.flush()
            if is_compacted:
                await log.raise_compacted(Index(4))
            await log.save_snapshot(Snapshot(ORIGIN, Index(5), Term(1), b"what the entries have come to"))
        flip(place.directory / "snapshot", 20)
        before = place.content()
        with pytest.raises(DamagedLogError) as caught:
            await place.open()
        assert caught.value.lost_end == (5, 1)
        assert place.content() == before
        async with place.opened(isolate=True) as log:
            # The entries that were never compacted tell the state again.
            assert log.dirty_index == (0 if is_compacted else 5)
            assert log.has_damaged_copies
            assert log.pop_snapshot() is None
            assert bool(place.names()) == (not is_compacted)
            assert len(place.names(".log.damaged")) == (5 if is_compacted else 0)
            assert place.names("snapshot.damaged")
            await append(log, Spec())

    run(test())


def test_a_full_disk_refuses_the_mark_and_another_error_ends_the_log(tmp_path: Path) -> None:
    async def test() -> None:
        place = Place(tmp_path)
        log = await place.open()
        place.disk.fail("pwritev", f"{COMPACTED_NAME}.tmp", errno.ENOSPC)
        with pytest.raises(DiskFullError):
            await log.raise_compacted(Index(2))
        assert log.compacted_index == 0
        place.disk.faults.clear()
        place.disk.fail("fsync", f"{COMPACTED_NAME}.tmp")
        with pytest.raises(LogPoisonedError):
            await log.raise_compacted(Index(2))
        await log.close()

    run(test())
