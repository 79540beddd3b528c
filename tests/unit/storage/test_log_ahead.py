"""Files that were made longer ahead of what is written: the zeros behind the last entry are neither entries nor damage."""

import asyncio
import logging
from pathlib import Path

import pytest
from log_harness import Place, Spec, append, everything, plain, steps

from storage.entry import Entry
from storage.log import Log


async def killed(tmp_path: Path, *sizes: int, **options: int) -> tuple[Place, list[Entry]]:
    """Return where a log with entries of these sizes was left by a process that was killed."""
    place = Place(tmp_path, **options)
    place.disk.allocates = True
    log = await place.open()
    written: list[Entry] = []
    for size in sizes:
        written += await append(log, Spec(size=size))
    await log.flush()
    await place.crash(log)
    return place, written


def sizes_of(log: Log, place: Place) -> list[tuple[int, int]]:
    """Return the bytes of each file, and those of its entries."""
    return [((place.directory / each.name).stat().st_size, each.size) for each in log._segments]


def test_a_killed_process_leaves_zeros_that_cost_no_warning_and_are_written_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        place, written = await killed(tmp_path, 20, 30, segment_bytes=100_000)
        async with place.opened() as log:
            [(file_bytes, entry_bytes)] = sizes_of(log, place)
            assert file_bytes > entry_bytes
            assert await everything(log) == plain(written)
            written.extend([*await append(log, Spec(size=40)), *await append(log, Spec(size=50))])
            [(longer, entry_bytes)] = sizes_of(log, place)
            assert entry_bytes < longer < 2 * file_bytes
        async with place.opened() as log:
            assert await everything(log) == plain(written)

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert caplog.records == []


def test_a_closed_segment_is_as_long_as_its_entries(tmp_path: Path) -> None:
    async def scenario() -> None:
        place, written = await killed(tmp_path, *[20] * 9, segment_bytes=300)
        async with place.opened() as log:
            *closed, _ = sizes_of(log, place)
            assert closed
            assert all(file_bytes == entry_bytes for file_bytes, entry_bytes in closed)
            assert await everything(log) == plain(written)

    asyncio.run(scenario())


def test_a_closed_segment_that_a_crash_left_longer_is_cut_and_gets_its_index_file_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        place, written = await killed(tmp_path, *[20] * 9, segment_bytes=300)
        first = place.directory / place.names()[0]
        with first.open("ab") as file:
            file.write(bytes(4096))
        async with place.opened() as log:
            assert await everything(log) == plain(written)
            assert sizes_of(log, place)[0] == (first.stat().st_size, log._segments[0].size)
            await steps(60)
        before = place.content()
        async with place.opened() as log:
            assert log._segments[0].has_index_file
        assert place.content() == before

    asyncio.run(scenario())


@pytest.mark.parametrize("torn", [b"RFK1", b"\1", b"x" * 300])
def test_what_is_left_of_a_torn_entry_in_front_of_the_zeros_is_cut(tmp_path: Path, torn: bytes) -> None:
    async def scenario() -> None:
        place, written = await killed(tmp_path, 20, 30, segment_bytes=100_000)
        path = place.directory / place.names()[0]
        end = sum(entry.size for entry in written)
        content = bytearray(path.read_bytes())
        # With a gap: pages reach the disk in any order.
        content[end + 7 : end + 7 + len(torn)] = torn
        path.write_bytes(content)
        async with place.opened() as log:
            assert await everything(log) == plain(written)
            written.extend(await append(log, Spec()))
        async with place.opened() as log:
            assert await everything(log) == plain(written)

    asyncio.run(scenario())


def test_a_segment_without_an_entry_is_removed(tmp_path: Path) -> None:
    async def scenario() -> None:
        place, _ = await killed(tmp_path, 20)
        path = place.directory / place.names()[0]
        path.write_bytes(bytes(16_384))
        async with place.opened() as log:
            assert log.dirty_index == 0
            assert place.names() == []
            await append(log, Spec())

    asyncio.run(scenario())
