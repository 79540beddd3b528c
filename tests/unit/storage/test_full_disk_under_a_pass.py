"""A disk that fills up under a pass: what the pass has written goes, the log works on, and the next pass succeeds."""

import asyncio
import errno
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from log_harness import Place, steps
from test_log_compaction import all_of, check, limits, make_pass, prepared
from test_segment_cleaning import Step, written

from runtime.files import OsFileSystem
from storage.cleaning_process import clean_in_child
from storage.segment_cleaning import clean
from tests.small_disks import small_disk

_MIB = 1024 * 1024


def run(what: Coroutine[Any, Any, None]) -> None:
    asyncio.run(what)


@pytest.mark.parametrize(
    ("call", "half_done"), [("create", False), ("pwritev", False), ("pwritev", True), ("fsync", False)]
)
@pytest.mark.parametrize("skip", range(4))
def test_a_pass_without_room_at_any_output_leaves_the_log_as_it_was(
    tmp_path: Path, call: str, skip: int, half_done: bool
) -> None:
    async def test() -> None:
        place = Place(tmp_path, segment_bytes=200)
        log, original = await prepared(place)
        request = await log.compaction.request(limits(log, int(log.dirty_index), joins=False))
        assert request is not None
        # The index files are written.
        await steps(200)
        before = place.content()
        place.disk.fail(call, ".cleaned", errno.ENOSPC, skip=skip, half_done=half_done)
        with pytest.raises(OSError, match="No space left") as refused:
            clean(place.disk, request)
        assert refused.value.errno == errno.ENOSPC
        await log.compaction.remove_outputs()
        assert place.content() == before
        assert not log.is_poisoned
        # Whoever writes and reads goes on, and so does the next pass.
        check(log, await all_of(log), original)
        await make_pass(place, log, int(log.dirty_index))
        check(log, await all_of(log), original)
        await log.close()

    run(test())


def test_a_child_without_room_on_a_real_disk_says_so_and_the_log_works_on(tmp_path: Path) -> None:
    async def test() -> None:
        place = Place(tmp_path, segment_bytes=256 * 1024)
        # Each key once: nothing goes, so the outputs are as large as their sources.
        original = written([Step(((b"key %d" % each, os.urandom(20_000)),)) for each in range(120)], [False])
        log = await place.open()
        await log.append(original.entries[:-2])
        await log.flush()
        await steps(100)
        request = await log.compaction.request(limits(log, int(log.dirty_index), joins=False))
        assert request is not None
        filler = tmp_path / "filler"
        with filler.open("wb", buffering=0) as file:
            status = os.statvfs(tmp_path)
            file.write(bytes(status.f_bavail * status.f_frsize - _MIB))
        with pytest.raises(OSError, match="No space left") as refused:
            await clean_in_child(OsFileSystem(), request, 0, 60)
        assert refused.value.errno == errno.ENOSPC
        assert place.names(".cleaned"), "it had begun to write"
        await log.compaction.remove_outputs()
        assert place.names(".cleaned") == []
        await log.append(original.entries[-2:])
        await log.flush()
        check(log, await all_of(log), original)
        filler.unlink()
        result = await clean_in_child(OsFileSystem(), request, 0, 60)
        assert await log.compaction.swap(result) == len(result.outputs)
        check(log, await all_of(log), original)
        await log.close()

    with small_disk(tmp_path, 8 * _MIB):
        run(test())
