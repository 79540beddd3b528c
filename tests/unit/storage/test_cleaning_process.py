"""A pass in a process of its own: the same outputs, and what becomes of one that is killed, hangs or finds damage."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from log_harness import Place, flip
from test_log_compaction import all_of, check, limits, overwritten, prepared
from test_segment_cleaning import request_of, save

from runtime.child import ChildError, run_child, throttle
from runtime.files import OsFileSystem
from storage.cleaning_process import clean_in_child
from storage.errors import CorruptLogError
from storage.segment_cleaning import CleaningRequest, clean

T = TypeVar("T")


def run(what: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(what)


def a_request(folder: Path) -> CleaningRequest:
    original = overwritten(9)
    return request_of(folder, [save(folder, original.entries)], original)


@pytest.mark.parametrize("is_held", [False, True])
def test_a_child_writes_what_the_function_writes(tmp_path: Path, is_held: bool) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    files = OsFileSystem()
    if is_held:
        # As the broker finds its files: through the descriptor of its data directory.
        files.hold(str(tmp_path))
    try:
        result = run(clean_in_child(files, a_request(there), 0, 60))
    finally:
        files.let_go()
    expected = clean(OsFileSystem(), a_request(here))
    [found], [wanted] = result.outputs, expected.outputs
    assert Path(found.path).parent == there
    assert Path(found.path).read_bytes() == Path(wanted.path).read_bytes()
    assert (result.cleaned_to, result.times, result.counts) == (expected.cleaned_to, expected.times, expected.counts)
    assert (found.columns, found.terms, found.first_source) == (
        *(wanted.columns, wanted.terms, wanted.first_source.replace("/here/", "/there/")),
    )


def test_what_a_child_has_written_is_swapped_into_the_log(tmp_path: Path) -> None:
    async def test() -> None:
        place = Place(tmp_path, segment_bytes=200)
        log, original = await prepared(place)
        request = await log.compaction.request(limits(log, int(log.dirty_index)))
        assert request is not None
        result = await clean_in_child(OsFileSystem(), request, 0, 60)
        assert await log.compaction.swap(result) == len(result.outputs)
        check(log, await all_of(log), original)
        await log.close()

    run(test())


def test_damage_and_a_missing_file_are_told(tmp_path: Path) -> None:
    request = a_request(tmp_path)
    path = Path(request.sources[0].path)
    flip(path, 70)
    with pytest.raises(CorruptLogError, match="is damaged at byte 0") as caught:
        run(clean_in_child(OsFileSystem(), request, 0, 60))
    assert caught.value.path == str(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        run(clean_in_child(OsFileSystem(), request, 0, 60))


def children() -> set[int]:
    """The children of this process that pass: other tests of this process may have children of their own."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        # A thread may end in between; its children are another thread's then.
        with contextlib.suppress(OSError):
            found |= set(map(int, (task / "children").read_text().split()))
    return {child for child in found if b"storage.cleaning_process" in command_line(child)}


def command_line(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        # It ended in between. A read of its file may fail as well as the opening.
        return b""


async def until_there_is_a_child() -> int:
    # The system tells nobody of a process that begins.
    async with asyncio.timeout(30):
        while not (found := children()):
            await asyncio.sleep(0.01)
        return found.pop()


def test_a_child_that_hangs_is_killed_at_its_deadline(tmp_path: Path) -> None:
    # A byte per second: it sleeps for minutes.
    with pytest.raises(ChildError, match=r"took longer than 0\.5 s"):
        run(clean_in_child(OsFileSystem(), a_request(tmp_path), 1, 0.5))
    assert not children()


def test_a_child_that_is_killed_is_told_and_one_whose_pass_is_given_up_ends(tmp_path: Path) -> None:
    async def test() -> None:
        passing = asyncio.ensure_future(clean_in_child(OsFileSystem(), a_request(tmp_path), 1, 60))
        os.kill(await until_there_is_a_child(), signal.SIGKILL)
        with pytest.raises(ChildError, match="exit code -9"):
            await passing
        passing = asyncio.ensure_future(clean_in_child(OsFileSystem(), a_request(tmp_path), 1, 60))
        await until_there_is_a_child()
        passing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await passing
        assert not children()

    run(test())


def test_a_child_that_cannot_answer_says_why() -> None:
    with pytest.raises(ChildError, match=r"exit code 1: .*No module named"):
        run(run_child("storage.no_such_module", b"", 60))
    with pytest.raises(ChildError, match=r"exit code 1: msgspec"):
        run(run_child("storage.cleaning_process", b"\xff\xff", 60))


def test_a_pass_keeps_to_its_rate() -> None:
    pause, began = throttle(1_000_000), time.monotonic()
    for _ in range(20):
        pause(10_000)
    assert time.monotonic() - began >= 0.1
