"""A log without descriptors refuses what it can refuse, waits with what it cannot, and is never poisoned (RFC 0002, 12)."""

import asyncio
import errno
from pathlib import Path

import pytest
from log_harness import Place, Spec, append, plain, steps

import storage.log_jobs
from model.ids import Index, Offset
from runtime.open_files import OPEN_FILES_MIN, OpenFiles
from storage.errors import LogTruncatedError, OpenFilesError
from storage.log import Log
from storage.log_start import LogStart
from storage.snapshot_file import Snapshot

# More often than anything is tried again.
ALWAYS = 1000


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(storage.log_jobs, "_INSIST_PAUSE", 0.0)
    return Place(tmp_path)


def refuse(place: Place, call: str, name: str) -> None:
    place.disk.fail(call, name, errno.EMFILE, times=ALWAYS)


def segments(place: Place) -> dict[str, bytes]:
    return {name: content for name, content in place.content().items() if name.endswith(".log")}


async def filled(place: Place, count: int = 12) -> Log:
    log = await place.open()
    await append(log, *[Spec(term=1, size=100)] * count)
    await log.flush()
    return log


@pytest.mark.parametrize("call", ["create", "fsync_dir"])
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_an_append_that_finds_no_descriptor_for_its_segment_is_undone(place: Place, call: str, number: int) -> None:
    async def scenario() -> None:
        log = await filled(place)
        before, end = segments(place), log.dirty_index
        place.disk.fail(call, ".log" if call == "create" else "0123-7", number, times=4)
        with pytest.raises(OpenFilesError, match="ulimit -n"):
            await append(log, *[Spec(term=1, size=100)] * 12)
        assert not log.is_poisoned
        assert (log.dirty_index, log.pending_index) == (end, end)
        assert segments(place) == before
        place.disk.faults.clear()
        await append(log, *[Spec(term=1, size=100)] * 12)
        assert await log.flush() == end + 12
        assert len(await log.read(Index(1), 1 << 20)) == end + 12
        await log.close()
        assert place.disk.opened == {}

    asyncio.run(scenario())


def test_the_undo_of_an_append_waits_for_a_descriptor(place: Place) -> None:
    async def scenario() -> None:
        log = await filled(place)
        before = segments(place)
        refuse(place, "fsync_dir", "0123-7")
        appending = asyncio.ensure_future(append(log, *[Spec(term=1, size=100)] * 12))
        await steps(200)
        assert not appending.done(), "the name that was made is not durably gone"
        place.disk.faults.clear()
        with pytest.raises(OpenFilesError):
            await appending
        assert segments(place) == before
        assert not log.is_poisoned
        await log.close()

    asyncio.run(scenario())


def test_a_truncation_waits_for_a_descriptor(place: Place) -> None:
    async def scenario() -> None:
        log = await filled(place)
        refuse(place, "fsync_dir", "0123-7")
        truncating = asyncio.ensure_future(log.truncate(Index(3)))
        await steps(200)
        assert not truncating.done()
        place.disk.faults.clear()
        await truncating
        assert not log.is_poisoned
        assert log.dirty_index == 2
        await append(log, Spec(term=2))
        assert await log.flush() == 3
        await log.close()
        async with place.opened() as again:
            assert again.dirty_index == 3

    asyncio.run(scenario())


def test_a_snapshot_that_finds_no_descriptor_changes_nothing(place: Place) -> None:
    async def scenario() -> None:
        log = await filled(place)
        snapshot = Snapshot(log.start, Index(5), log.last_term, b"state")
        refuse(place, "create", "snapshot.tmp")
        with pytest.raises(OpenFilesError):
            await log.save_snapshot(snapshot)
        assert not log.is_poisoned
        assert log.snapshot_index == 0
        place.disk.faults.clear()
        await log.save_snapshot(snapshot)
        assert log.snapshot_index == 5
        await log.close()

    asyncio.run(scenario())


def test_a_snapshot_with_its_name_waits_until_that_is_durable(place: Place) -> None:
    async def scenario() -> None:
        log = await filled(place)
        refuse(place, "fsync_dir", "0123-7")
        saving = asyncio.ensure_future(log.save_snapshot(Snapshot(log.start, Index(5), log.last_term, b"state")))
        await steps(200)
        assert not saving.done()
        assert log.snapshot_index == 0
        place.disk.faults.clear()
        await saving
        assert log.snapshot_index == 5
        assert not log.is_poisoned
        await log.close()

    asyncio.run(scenario())


def test_a_read_that_finds_no_descriptor_is_refused_and_is_no_damage(place: Place) -> None:
    async def scenario() -> None:
        await (await filled(place)).close()
        log = await place.open()
        found: list[object] = []
        log.health.on_damage = found.append
        log._segments[0].file.close()
        log._segments[0].file = log._context.files.cached(log._segments[0].path)
        refuse(place, "open", ".log")
        with pytest.raises(OpenFilesError, match="ulimit -n"):
            await log.read(Index(1), 1)
        assert found == []
        place.disk.faults.clear()
        assert [entry.index for entry in await log.read(Index(1), 1)] == [1]
        await log.close()

    asyncio.run(scenario())


def test_a_log_that_cannot_be_opened_for_want_of_descriptors_says_so_and_is_whole(place: Place) -> None:
    async def scenario() -> None:
        await (await filled(place)).close()
        before = place.content()
        refuse(place, "open", ".log")
        with pytest.raises(OpenFilesError, match="ulimit -n"):
            await place.open()
        assert place.content() == before
        assert place.disk.opened == {}
        place.disk.faults.clear()
        async with place.opened() as log:
            assert log.dirty_index == 12

    asyncio.run(scenario())


def test_a_log_with_many_segments_keeps_few_files_open_and_reads_them_all(place: Place) -> None:
    async def scenario() -> None:
        files = OpenFiles(place.disk, OPEN_FILES_MIN)
        log = await place.open(open_files=files)
        for _ in range(60):
            made = await append(log, *[Spec(term=1, size=300)] * 2)
            await log.flush()
        assert len(log._segments) > 2 * OPEN_FILES_MIN
        assert len(place.disk.opened) <= OPEN_FILES_MIN
        run = await log.read(Index(1), 1 << 20)
        assert [entry.index for entry in run] == list(range(1, 121))
        assert plain(run[-2:]) == plain(made)
        assert len(place.disk.opened) <= OPEN_FILES_MIN
        await log.close()
        log = await place.open(open_files=files)
        assert len(place.disk.opened) <= OPEN_FILES_MIN
        assert len(await log.read(Index(1), 1 << 20)) == 120
        await log.close()
        assert place.disk.opened == {}
        assert files.descriptors.open_count == 0

    asyncio.run(scenario())


def test_what_no_fsync_has_covered_stays_open(place: Place) -> None:
    async def scenario() -> None:
        files = OpenFiles(place.disk, OPEN_FILES_MIN)
        log = await place.open(open_files=files)
        await append(log, *[Spec(term=1, size=300)] * 80)
        assert len(place.disk.opened) == len(log._segments) > 2 * OPEN_FILES_MIN
        await log.flush()
        await steps()
        assert len(place.disk.opened) <= OPEN_FILES_MIN
        await log.close()
        assert place.disk.opened == {}

    asyncio.run(scenario())


def test_a_read_of_segments_that_were_removed_and_closed_meanwhile_says_that_the_log_begins_later(place: Place) -> None:
    async def scenario() -> None:
        log = await filled(place, 40)
        first = log._segments[0]
        views = [segment.view() for segment in log._segments[:2]]
        start = LogStart(
            Index(30), Offset(log.end_offset(Index(29)) or 0), Offset(log.end_offset(Index(29)) or 0), log.last_term
        )
        log.advance_start(start)
        await log.save_snapshot(Snapshot(start, Index(35), log.last_term, b"state"))
        await steps()
        assert first not in log._segments
        with pytest.raises(OSError, match=r"removed|closed"):
            views[0].file.pread(1, 0)
        with pytest.raises(LogTruncatedError):
            await log.read(Index(1), 1)
        await log.close()
        assert place.disk.opened == {}

    asyncio.run(scenario())
