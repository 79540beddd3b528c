"""A log that is removed, because its topic is deleted, during a pass of compaction and in the middle of its swaps."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from log_harness import Disk, Place, steps
from test_log_compaction import limits, prepared

from model.ids import Index
from runtime.workers import Pool
from storage import log_compaction
from storage.errors import StorageError
from storage.log import Log
from storage.segment_cleaning import CleaningResult, clean


def run(what: Coroutine[Any, Any, None]) -> None:
    """Run a test; what a background task dies of fails it."""
    died: list[object] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: died.append(context))
        await what

    asyncio.run(watched())
    assert died == []


class WatchedDisk(Disk):
    """Calls `on_call` once, when so many calls that change the directory have begun since then."""

    def __init__(self, on_call: Callable[[], None]) -> None:
        super().__init__()
        self.left = -1
        self._on_call = on_call

    def check(self, call: str, path: str) -> Any:
        if self.left >= 0 and call in ("rename", "fsync_dir", "unlink", "create"):
            self.left -= 1
            if self.left < 0:
                self._on_call()
        return super().check(call, path)


async def passed(place: Place, **changes: Any) -> tuple[Log, CleaningResult]:
    """A log, and a pass over it that has written its outputs."""
    log, _ = await prepared(place)
    request = await log.compaction.request(limits(log, int(log.dirty_index), **changes))
    assert request is not None
    return log, clean(place.disk, request)


def check_gone(place: Place, log: Log) -> None:
    assert not place.directory.exists()
    assert place.disk.opened == {}, "a file was left open"
    assert not log.is_poisoned


async def removed_at(folder: Path, effect: int, *, keeps_sources: bool) -> bool:
    """Remove a log when the swaps of a pass begin this effect; return whether there was such a one."""
    removing: list[asyncio.Task[None]] = []
    place = Place(folder, segment_bytes=200)
    disk = WatchedDisk(lambda: removing.append(asyncio.ensure_future(log.remove())))
    place.disk, place.env = disk, replace(place.env, files=disk)
    log, result = await passed(place, joins=False)
    if not keeps_sources:
        # The last sources leave the log: their outputs are removed, without a swap.
        await log.truncate(Index(result.outputs[-1].base_index))
    disk.left = effect
    (ended,) = await asyncio.gather(log.compaction.swap(result), return_exceptions=True)
    disk.left = -1
    if not removing:
        assert ended == len(result.outputs) - (0 if keeps_sources else 2)
        await log.close()
        return False
    assert isinstance(ended, int) or (isinstance(ended, StorageError) and "is closed" in str(ended))
    await removing[0]
    await steps(60)
    check_gone(place, log)
    return True


@pytest.mark.parametrize("keeps_sources", [True, False])
def test_a_log_that_is_removed_in_the_middle_of_a_swap_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeps_sources: bool
) -> None:
    # The swaps follow each other at once.
    monkeypatch.setattr(log_compaction, "_REST_FACTOR", 0)

    async def test() -> None:
        effects = 0
        while await removed_at(tmp_path / str(effects), effects, keeps_sources=keeps_sources):
            effects += 1
        # The mark has three, and each swap six.
        assert effects > 20

    run(test())


def test_a_log_that_is_removed_between_two_swaps_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It rests for a second.
    monkeypatch.setattr(log_compaction, "_REST_FACTOR", 1e9)

    async def test() -> None:
        place = Place(tmp_path, segment_bytes=200)
        log, result = await passed(place, joins=False)
        swapping = asyncio.ensure_future(log.compaction.swap(result))
        while not any(segment.cleaned_to for segment in log._segments):
            # Each step of the swap, until it is done and the rest begins.
            await asyncio.sleep(0)
        await steps()
        assert len(place.names(".cleaned")) == len(result.outputs) - 1
        await log.remove()
        with pytest.raises(StorageError, match="is closed"):
            await swapping
        check_gone(place, log)

    run(test())


def test_neither_mark_nor_output_is_written_for_a_log_that_was_removed(tmp_path: Path) -> None:
    async def test() -> None:
        place = Place(tmp_path, segment_bytes=200)
        log, result = await passed(place)
        await log.remove()
        for late in (
            log.compaction.swap(result),
            log.compaction.remove_outputs(),
            log.raise_compacted(result.cleaned_to),
            log.compaction.make(lambda: asyncio.sleep(0, result)),
        ):
            with pytest.raises(StorageError, match="is closed"):
                await late
        check_gone(place, log)

    run(test())


def test_a_log_that_is_removed_ends_its_pass_before_a_file_goes(tmp_path: Path) -> None:
    """A child that goes on would write into the directory that is being removed, which would stay for ever."""

    async def test() -> None:
        place = Place(tmp_path, segment_bytes=200)
        log, result = await passed(place)
        names: list[list[str]] = []

        async def hanging() -> CleaningResult:
            try:
                await asyncio.Event().wait()
            finally:
                # Killing a child takes a moment.
                await steps()
                names.append(place.names(""))
            return result

        passing = asyncio.ensure_future(log.compaction.make(hanging))
        await steps()
        before = place.names("")
        await log.remove()
        with pytest.raises(StorageError, match="is closed"):
            await passing
        assert names == [before]
        check_gone(place, log)

    run(test())


def test_a_pass_over_a_log_that_stays_ends_as_it_ends(tmp_path: Path) -> None:
    async def test() -> None:
        place = Place(tmp_path, segment_bytes=200)
        log, result = await passed(place)

        async def failing() -> CleaningResult:
            raise TimeoutError("of its own")

        assert await log.compaction.make(lambda: asyncio.sleep(0, result)) is result
        with pytest.raises(TimeoutError, match="of its own"):
            await log.compaction.make(failing)
        passing = asyncio.ensure_future(log.compaction.make(lambda: asyncio.sleep(3600, result)))
        await steps()
        passing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await passing
        await log.close()

    run(test())


@pytest.mark.parametrize("what", ["outputs of a failed pass", "an output without its sources"])
def test_a_log_is_not_removed_while_outputs_of_a_pass_are(tmp_path: Path, what: str) -> None:
    """Both would remove the same files, and the one that comes second would fail."""

    async def test() -> None:
        place = Place(tmp_path, segment_bytes=200)
        log, result = await passed(place)
        # The index files are written.
        await steps(200)
        place.workers.hold(Pool.APPEND, after=True)
        removing = asyncio.ensure_future(
            log.compaction.remove_outputs()
            if what.startswith("outputs")
            else log.compaction._discard(result.outputs[0])
        )
        await steps()
        deleting = asyncio.ensure_future(log.remove())
        await steps(100)
        assert place.directory.exists()
        place.workers.release(Pool.APPEND)
        await asyncio.gather(removing, deleting)
        check_gone(place, log)

    run(test())
