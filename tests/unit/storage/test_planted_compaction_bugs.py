"""Bugs planted in passes and swaps of log compaction, each with a story that shows it and passes without it (RFC 0022)."""

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
import test_swap_crash_points as crash_points
from log_harness import Place, Spec, barrier, steps
from test_log_compaction import all_of, check, make_pass
from test_placeholders import Pair, compare
from test_segment_cleaning import FILES, Original, Step, check_pass, is_deleted, records_of, request_of, save, written

import storage.log_reader
from model.control_batch import MarkerType
from model.ids import NO_INDEX, Index, Offset
from runtime.files import FileSystem
from runtime.open_files import OpenFiles
from storage import log_compaction, segment_cleaning
from storage.cleaned_output import _Removed
from storage.entry import Entry, EntryKind
from storage.errors import StorageError
from storage.index_file import CleanedTime
from storage.log import Log
from storage.log_compaction import LogCompaction
from storage.segment import Segment, SegmentView, scan_heads
from storage.segment_cleaning import KEY_BYTES_MAX, CleaningRequest, _AbortedTransactions, _Pass, clean
from storage.segment_swap import Swap

RETENTION_MS = 1000

# -- stories ------------------------------------------------------------------------------------------------------


def _pass_over(folder: Path, *steps_of_log: Step) -> None:
    original = written(steps_of_log, [False])
    request = request_of(folder, [save(folder, original.entries)], original)
    check_pass(original, request, clean(FILES, request))


def _a_barrier_of_the_next_term_goes_with_what_lies_before_it(folder: Path) -> None:
    _pass_over(folder, Step(((b"a", b"1"),)), Step(new_term=True), Step(((b"a", b"2"),)))


def _a_record_is_overwritten_by_one_that_is_aborted(folder: Path) -> None:
    aborted = [Step(((b"a", b"2"),), producer=1), Step(producer=1, ends=MarkerType.ABORT)]
    _pass_over(folder, Step(((b"a", b"1"),)), *aborted, Step(((b"b", b"1"),)))


def _one_key_equals_the_digest_of_another_one(folder: Path) -> None:
    """For digests as long as the longest key that stands for itself, and for the product's."""
    long = b"k" * 100
    digests = [hashlib.blake2b(long, digest_size=size).digest() for size in (KEY_BYTES_MAX, KEY_BYTES_MAX + 1)]
    _pass_over(folder, Step(((long, b"1"),)), *(Step(((each, b"2"),)) for each in digests), Step(((b"b", b"1"),)))


def _the_newest_record_is_a_tombstone_in_a_closed_segment(folder: Path) -> None:
    """Schedule 9: only barriers are behind it. A reader asks for the end, and reads on until it has the last record."""

    async def test() -> None:
        place = Place(folder, segment_bytes=200)
        values = [Step(((b"a", b"1" * 50),)), Step(((b"b", b"1" * 50),)), Step(((b"a", None),))]
        original, log = written([*values, *[Step()] * 8], [False]), await place.open()
        await _fill(log, original.entries)
        newest = Index(3)
        assert log.closed_index > newest
        for number in range(2):
            now = {"deletes_to": log.closed_index, "now_ms": 50_000 + number * RETENTION_MS}
            await make_pass(place, log, int(log.dirty_index), kept_index=newest, **now)
        found = await log.reader.index_of_offset(Offset(log.next_offset - 1))
        [entry, *_] = await log.read(found, 1)
        assert entry.kind is EntryKind.DATA, "a reader never arrives at the end"
        check(log, await all_of(log), original)
        await log.close()

    asyncio.run(test())


def _a_key_is_overwritten_by_what_is_not_committed(folder: Path) -> None:
    """The log of a deposed leader: all is on its disk, and the next leader has its last entries cut off."""

    async def test() -> None:
        place = Place(folder, segment_bytes=200)
        values = [(b"a", b"1"), (b"b", b"1"), (b"a", b"never"), (b"c", b"never"), (b"d", b"never")]
        original, log = written([Step(((key, value * 20),)) for key, value in values], [False]), await place.open()
        await _fill(log, original.entries)
        commit = Index(2)
        committed_offset = original.entries[commit - 1].end_offset
        assert await make_pass(place, log, commit, committed_offset=committed_offset) is not None
        await log.truncate(Index(commit + 1))
        check(log, await all_of(log), Original(original.entries[:commit]))
        await log.close()

    asyncio.run(test())


def _two_tombstones_are_cleaned_at_two_times(folder: Path) -> None:
    """They lie in one segment when the third pass looks at them; only the time of the first one is over."""

    async def test() -> None:
        place = Place(folder, segment_bytes=200)
        values = [(b"a", None), (b"x", b"1" * 50), (b"b", None), (b"x", b"2" * 50), (b"x", b"3" * 50)]
        original, log = written([Step(((key, value),)) for key, value in values], [True]), await place.open()
        first, second = original.entries[:3], original.entries[3:]
        began = 50_000
        for number, entries in enumerate((first, second)):
            await _fill(log, entries)
            await make_pass(place, log, int(log.dirty_index), now_ms=began + number * RETENTION_MS // 2)
        assert [each.last_index for each in log._segments[0].cleaned_times] == [2, 4]
        now = {"deletes_to": log.compaction.clean_index, "now_ms": began + RETENTION_MS}
        await make_pass(place, log, int(log.dirty_index), **now)
        left = {key for key, content in records_of(await all_of(log)).values() if is_deleted(content)}
        assert b"a" not in left, "a tombstone stays though its time is over"
        assert b"b" in left, "a tombstone goes before its time is over"
        await log.close()

    asyncio.run(test())


def _every_offset_of_a_run_is_looked_up(folder: Path) -> None:
    """A run of three entries with three records each, against the single entries; nothing of them is in memory."""
    pair = Pair(folder, segment_bytes=4000, index_interval_bytes=5000, tail_cache_bytes=1)
    try:
        pair.append([Spec(), *[Spec(records=3)] * 3, Spec(), barrier(1)], [True, True, False, False, True, True])
        pair.close()
        pair.open()
        compare(pair)
    finally:
        pair.close()
        pair.runner.close()


def _the_power_is_lost_after_any_effect_of_a_swap(_: Path) -> None:
    for seed in (0, 2, 8):
        crash_points.cut_short_anywhere(seed)


async def _fill(log: Log, entries: list[Entry]) -> None:
    await log.append(entries)
    await log.flush()
    await steps()


# -- bugs ---------------------------------------------------------------------------------------------------------


def _runs_cross_terms(patch: pytest.MonkeyPatch) -> None:
    def take(removed: _Removed, entry: Entry) -> bool:
        removed._last_index, removed._end_offset = entry.last_index, entry.end_offset
        return True

    patch.setattr(_Removed, "take", take)


def _aborted_records_are_in_the_map(patch: pytest.MonkeyPatch) -> None:
    note = _Pass._note

    def without_rows(each: _Pass, entry: Entry) -> None:
        with patch.context() as inner:
            inner.setattr(_AbortedTransactions, "has", lambda aborted, header: False)
            note(each, entry)

    patch.setattr(_Pass, "_note", without_rows)


def _keys_equal_digests(patch: pytest.MonkeyPatch) -> None:
    def short(key: bytes) -> bytes:
        return key if len(key) <= KEY_BYTES_MAX else hashlib.blake2b(key, digest_size=KEY_BYTES_MAX).digest()

    patch.setattr(segment_cleaning, "map_key", short)


def _the_newest_entry_may_go(patch: pytest.MonkeyPatch) -> None:
    def without(files: FileSystem, request: CleaningRequest, pause: Callable[[int], None]) -> _Pass:
        return _Pass(files, msgspec.structs.replace(request, kept_index=NO_INDEX), pause)

    patch.setattr(segment_cleaning, "_Pass", without)


def _the_commit_index_bounds_no_pass(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogCompaction, "cleanable", lambda compaction, limits: compaction._context.segments[:-1])


def _one_time_for_all(which: Callable[[list[CleanedTime]], CleanedTime]) -> Callable[[pytest.MonkeyPatch], None]:
    times_of = log_compaction._times

    def times(segments: list[Segment]) -> list[CleanedTime]:
        pairs = times_of(segments)
        return [CleanedTime(pairs[-1].last_index, which(pairs).time_ms)] if pairs else []

    return lambda patch: patch.setattr(log_compaction, "_times", times)


def _offsets_of_runs_are_counted_as_entries(patch: pytest.MonkeyPatch) -> None:
    def find(view: SegmentView, offset: Offset) -> Index:
        for head in scan_heads(view):
            if head.record_count and head.base_offset + head.record_count > offset:
                is_run = head.kind is EntryKind.PLACEHOLDER
                return Index(head.index + (offset - head.base_offset if is_run else 0))
        raise AssertionError(offset)

    patch.setattr(storage.log_reader, "_find_offset", find)


def _a_commit_is_not_durable(patch: pytest.MonkeyPatch) -> None:
    def commit(files: FileSystem, swap: Swap, output: str) -> None:
        if files.exists(output):
            files.rename(output, swap.path)

    patch.setattr(log_compaction, "commit_swap", commit)


def _sources_go_less_durably_than_the_name_comes(patch: pytest.MonkeyPatch) -> None:
    finish, fsync_dir = log_compaction.finish_swap, OpenFiles.fsync_dir

    def finish_swap(files: OpenFiles, swap: Swap) -> None:
        def after_the_rename_only(files: OpenFiles, path: str) -> None:
            if not files.exists(swap.path):
                fsync_dir(files, path)

        with patch.context() as inner:
            inner.setattr(OpenFiles, "fsync_dir", after_the_rename_only)
            finish(files, swap)

    patch.setattr(log_compaction, "finish_swap", finish_swap)


class Planted(NamedTuple):
    """A bug, the story that shows it, and what the story then says."""

    plant: Callable[[pytest.MonkeyPatch], None]
    story: Callable[[Path], None]
    words: str


BUGS = {
    "a run crosses terms": Planted(
        *(_runs_cross_terms, _a_barrier_of_the_next_term_goes_with_what_lies_before_it),
        "an entry stands for entries of another term",
    ),
    "aborted records are in the map": Planted(
        *(_aborted_records_are_in_the_map, _a_record_is_overwritten_by_one_that_is_aborted),
        "the log by key is another one",
    ),
    "a key equals a digest": Planted(
        _keys_equal_digests, _one_key_equals_the_digest_of_another_one, "the log by key is another one"
    ),
    "the newest entry goes": Planted(
        *(_the_newest_entry_may_go, _the_newest_record_is_a_tombstone_in_a_closed_segment),
        "a reader never arrives at the end",
    ),
    "the map has what is not committed": Planted(
        *(_the_commit_index_bounds_no_pass, _a_key_is_overwritten_by_what_is_not_committed),
        "the log by key is another one",
    ),
    "the newest time counts for all tombstones": Planted(
        *(_one_time_for_all(max), _two_tombstones_are_cleaned_at_two_times),
        "a tombstone stays though its time is over",
    ),
    "the oldest time counts for all tombstones": Planted(
        *(_one_time_for_all(min), _two_tombstones_are_cleaned_at_two_times),
        "a tombstone goes before its time is over",
    ),
    "offsets in a run are counted as entries": Planted(
        *(_offsets_of_runs_are_counted_as_entries, _every_offset_of_a_run_is_looked_up),
        "is looked up in the wrong entry",
    ),
    "a swap is committed without an fsync": Planted(
        _a_commit_is_not_durable, _the_power_is_lost_after_any_effect_of_a_swap, "is missing; entries up to"
    ),
    "a swap is finished with one fsync": Planted(
        *(_sources_go_less_durably_than_the_name_comes, _the_power_is_lost_after_any_effect_of_a_swap),
        "overlaps the one before",
    ),
}


@pytest.mark.parametrize("story", dict.fromkeys(each.story for each in BUGS.values()))
def test_a_story_of_a_compacted_log_ends_well(story: Callable[[Path], None], tmp_path: Path) -> None:
    story(tmp_path)


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_planted_in_compaction_is_found(bug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = BUGS[bug]
    planted.plant(monkeypatch)
    with pytest.raises((AssertionError, StorageError), match=planted.words):
        planted.story(tmp_path)
