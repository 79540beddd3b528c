"""A pass and its swaps in a log that goes on: readers, restarts and failures at each step (RFC 0022, 4 to 6)."""

import asyncio
import errno
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_harness import Place, Spec, append, barrier, plain, steps
from test_segment_cleaning import STEPS, Original, Step, aborted_offsets, by_key, records_of, written

from model.ids import Index, Offset
from runtime.workers import Pool
from storage.entry import Entry, EntryKind
from storage.errors import LogPoisonedError
from storage.log import Log
from storage.log_compaction import CleaningLimits
from storage.segment_cleaning import CleaningResult, clean

T = TypeVar("T")


def limits(log: Log, end: int, **changes: Any) -> CleaningLimits:
    wanted: dict[str, Any] = {
        "end": Index(end),
        "kept_index": Index(0),
        "committed_offset": log.next_offset,
        "deletes_to": Index(0),
        "delete_retention_ms": 1000,
        "min_lag_ms": 0,
        "now_ms": 50_000,
        "joins": True,
        "segment_bytes": 4000,
        "map_bytes": 1 << 20,
    }
    return CleaningLimits(**(wanted | changes))


async def make_pass(place: Place, log: Log, end: int, **changes: Any) -> CleaningResult | None:
    """Run a pass over the log as far as `end`, and swap."""
    request = await log.compaction.request(limits(log, end, **changes))
    if request is None:
        return None
    result = clean(place.disk, request)
    assert await log.compaction.swap(result) == len(result.outputs)
    await steps()
    return result


async def all_of(log: Log) -> list[Entry]:
    """Read the log from its start on, in small reads from memory or files."""
    found: list[Entry] = []
    index = log.start_index
    while index <= log.dirty_index:
        found += await log.read(index, 300)
        index = Index(found[-1].last_index + 1)
    return [Entry(e.index, e.term, e.kind, e.base_offset, e.record_count, bytes(e.payload)) for e in found]


def check(log: Log, entries: list[Entry], original: Original) -> None:
    """Check C1 to C3."""
    due, offset = Index(1), Offset(0)
    for entry in entries:
        assert (entry.index, entry.base_offset) == (due, offset)
        due, offset = Index(entry.last_index + 1), entry.end_offset
    assert (due, offset) == (log.dirty_index + 1, log.next_offset)
    before, after = records_of(original.entries), records_of(entries)
    assert all(before[at] == content for at, content in after.items())
    aborted = aborted_offsets(original)
    assert by_key(after, aborted) == by_key(before, aborted), "the log by key is another one"


def run(what: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(what)


@settings(deadline=None, max_examples=80)
@given(
    data=st.data(),
    batches=STEPS,
    segment_bytes=st.sampled_from([150, 400, 1500]),
    cache=st.sampled_from([1, 600, 100_000]),
)
def test_a_log_is_by_key_what_it_was_through_passes_and_restarts(
    data: st.DataObject, batches: list[Step], segment_bytes: int, cache: int
) -> None:
    folder = tempfile.mkdtemp(prefix="compaction-")

    async def test() -> None:
        place = Place(Path(folder), segment_bytes=segment_bytes, tail_cache_bytes=cache, index_interval_bytes=150)
        original, log = written(batches, [False]), await place.open()
        left = list(original.entries)
        known = Original(rows=original.rows)
        while left:
            count = data.draw(st.integers(1, len(left)), label="appended")
            await log.append(left[:count])
            known.entries += left[:count]
            del left[:count]
            await log.flush()
            await steps()
            what = data.draw(st.sampled_from(["pass", "restart", "crash", "nothing"]))
            # All transactions must be ended below the end; at the end of the test they are.
            if what == "pass" and not left:
                result = await make_pass(place, log, int(log.dirty_index))
                assert result is None or log.compaction.clean_index >= min(result.cleaned_to, log.closed_index)
            elif what == "restart":
                await log.close()
                log = await place.open()
            elif what == "crash":
                await place.crash(log)
                log = await place.open()
            check(log, await all_of(log), known)
        await make_pass(place, log, int(log.dirty_index))
        clean_index = log.compaction.clean_index
        check(log, await all_of(log), original)
        await log.close()
        log = await place.open()
        assert log.compaction.clean_index == clean_index
        check(log, await all_of(log), original)
        later = {"deletes_to": clean_index, "now_ms": 60_000}
        await make_pass(place, log, int(log.dirty_index), **later)
        check(log, await all_of(log), original)
        assert all(each.kind is not EntryKind.BARRIER for each in await all_of(log) if each.index <= log.closed_index)
        await log.close()

    try:
        run(test())
    finally:
        shutil.rmtree(folder)


def overwritten(count: int) -> Original:
    """Entries that write one key again and again."""
    return written([Step(((b"key", b"%d" % number * 20),)) for number in range(count)], [False])


async def prepared(place: Place) -> tuple[Log, Original]:
    original, log = overwritten(9), await place.open()
    await log.append(original.entries)
    await log.flush()
    await steps()
    assert len(place.names()) > 4
    return log, original


@pytest.mark.parametrize("call", ["rename", "fsync_dir", "unlink", "open"])
@pytest.mark.parametrize("skip", range(12))
def test_whatever_step_fails_a_restart_finds_the_log_whole(tmp_path: Path, call: str, skip: int) -> None:
    async def test() -> None:
        place = Place(tmp_path, segment_bytes=200)
        log, original = await prepared(place)
        request = await log.compaction.request(limits(log, int(log.dirty_index)))
        assert request is not None
        result = clean(place.disk, request)
        place.disk.fail(call, "", errno.EIO, skip=skip)
        try:
            await log.compaction.swap(result)
        except LogPoisonedError:
            assert log.is_poisoned
        place.disk.faults.clear()
        await place.crash(log)
        async with place.opened() as again:
            check(again, await all_of(again), original)
            assert not [name for name in place.names("") if name.endswith((".swap", ".cleaned"))]
            # The directory is at the mark, or before it.
            assert again.compacted_index in (0, result.cleaned_to)
            await make_pass(place, again, int(again.dirty_index))
            check(again, await all_of(again), original)

    run(test())


def test_without_a_descriptor_a_committed_swap_waits(tmp_path: Path) -> None:
    async def test() -> None:
        place = Place(tmp_path, segment_bytes=200)
        log, original = await prepared(place)
        request = await log.compaction.request(limits(log, int(log.dirty_index)))
        assert request is not None
        result = clean(place.disk, request)
        # The mark's own fsync of the directory comes first.
        place.disk.fail("fsync_dir", "", errno.EMFILE, skip=1, times=3)
        await log.compaction.swap(result)
        check(log, await all_of(log), original)
        await log.close()

    run(test())


def test_a_pass_is_given_up_where_a_source_has_left_the_log(tmp_path: Path) -> None:
    async def test() -> None:
        place = Place(tmp_path, segment_bytes=200)
        log, _ = await prepared(place)
        request = await log.compaction.request(limits(log, int(log.dirty_index), joins=False))
        assert request is not None
        result = clean(place.disk, request)
        # The last source goes, and the one before it is written to again.
        await log.truncate(Index(result.outputs[-1].base_index))
        assert await log.compaction.swap(result) == len(result.outputs) - 2
        assert not place.names(".cleaned")
        await append(log, Spec(term=2), barrier(2))
        await log.close()

    run(test())


def test_a_read_that_has_begun_before_a_swap_reads_again(tmp_path: Path) -> None:
    async def test() -> None:
        place = Place(tmp_path, segment_bytes=200, tail_cache_bytes=1)
        log, original = await prepared(place)
        request = await log.compaction.request(limits(log, int(log.dirty_index)))
        assert request is not None
        result = clean(place.disk, request)
        place.workers.hold(Pool.READ)
        reading = asyncio.ensure_future(log.read(Index(1), 1 << 20))
        await steps()
        swapping = asyncio.ensure_future(log.compaction.swap(result))
        await steps()
        place.workers.release(Pool.READ)
        await swapping
        entries = await reading
        # The last entry is in the active segment; of all others the newest one stays.
        *removed, kept, last = entries
        assert {each.kind for each in removed} == {EntryKind.PLACEHOLDER}
        assert plain([kept, last]) == plain(original.entries[-2:])
        await log.close()

    run(test())


def test_positions_and_what_goes_along_are_cut_in_one_step(tmp_path: Path) -> None:
    """A configuration stays in force while its entry is in the log, also while the place to cut is looked up."""

    async def test() -> None:
        place = Place(tmp_path, segment_bytes=1 << 20, tail_cache_bytes=1)
        log = await place.open()
        await append(log, barrier(1), *[Spec()] * 5)
        last, seen = int(log.dirty_index), list[int]()
        first_removed = Index(last - 1)
        place.workers.hold(Pool.READ)
        cutting = asyncio.ensure_future(log.truncate(first_removed, lambda: seen.append(int(log.dirty_index))))
        await steps()
        assert (seen, int(log.dirty_index)) == ([], last)
        place.workers.release(Pool.READ)
        await cutting
        assert seen == [first_removed - 1]
        await log.close()

    run(test())


def test_a_segment_that_is_young_and_all_behind_it_are_left_alone(tmp_path: Path) -> None:
    async def test() -> None:
        place = Place(tmp_path, segment_bytes=200)
        log, _ = await prepared(place)
        bounds = limits(log, int(log.dirty_index), min_lag_ms=49_500)
        assert log.compaction.cleanable(bounds) == []
        assert await log.compaction.request(bounds) is None
        assert len(log.compaction.cleanable(limits(log, 3))) < len(place.names()) - 1
        await log.close()

    run(test())


def test_an_append_does_not_wait_for_all_swaps_of_a_pass(tmp_path: Path) -> None:
    async def test() -> None:
        place = Place(tmp_path, segment_bytes=150)
        log = await place.open()
        await log.append(overwritten(60).entries)
        await log.flush()
        await steps()
        request = await log.compaction.request(limits(log, int(log.dirty_index), joins=False))
        assert request is not None
        result = clean(place.disk, request)
        assert len(result.outputs) > 50

        def swapped() -> int:
            return sum(segment.cleaned_to > 0 for segment in log._segments)

        swaps = asyncio.ensure_future(log.compaction.swap(result))
        for _ in range(5):
            before = swapped()
            await append(log, Spec(term=int(log.last_term)))
            # It may take several turns, as for a roll, and a swap may come before each.
            assert swapped() - before <= 5
        assert not swaps.done()
        swaps.cancel()
        await log.close()

    run(test())
