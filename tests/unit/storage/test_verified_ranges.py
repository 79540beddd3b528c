"""Payloads that were found whole once leave from their files; what may have changed since does not."""

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from log_harness import Place, Spec, append, barrier, flip, steps

from model.ids import Index, Term
from storage.entry import Entry, EntryKind
from storage.errors import CorruptLogError, LogTruncatedError, StorageError
from storage.file_range import FileRange, RangeSender, SocketCopy
from storage.log import Log
from storage.log_start import LogStart
from storage.read_ahead import ReadAheadBudget
from storage.read_cache import CacheBudgets, ReadCacheBudget
from storage.rows_budget import RowsBudget
from storage.snapshot_file import Snapshot
from storage.tail_cache import TailBudget
from storage.verified_ranges import VerifiedBudget

SMALL, LARGE = 20, 150
EVERYTHING = 1 << 20


def budgets(entries: int = 1000, tail: int = 1) -> CacheBudgets:
    return CacheBudgets(
        TailBudget(tail), ReadCacheBudget(0), ReadAheadBudget(0), VerifiedBudget(entries, LARGE), RowsBudget(0)
    )


@asynccontextmanager
async def filled(
    directory: Path, shared: CacheBudgets, *, large: int = 12, **options: int
) -> AsyncIterator[tuple[Place, Log, list[Entry]]]:
    """A log with so many large entries, three in a segment, and one small one at its end that is in memory."""
    place = Place(directory, **({"segment_bytes": 3 * 350} | options))
    async with place.opened(caches=shared) as log:
        written = await append(log, *[Spec(size=200) for _ in range(large)])
        written += await append(log, Spec(size=SMALL))
        await log.flush()
        yield place, log, written


async def read_all(log: Log, last: Index) -> None:
    first = Index(1)
    while first <= last:
        first = Index((await log.read(first, EVERYTHING, last))[-1].index + 1)


def ranges(log: Log, first: int, last: int, max_bytes: int = EVERYTHING) -> list[FileRange]:
    return log.reader.verified_ranges(Index(first), Index(last), max_bytes)


async def sent(found: list[FileRange], *, buffer_bytes: int | None = None) -> bytes:
    """Send ranges through a socket, as a connection does, and return what came out."""
    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        there.setblocking(False)
        if buffer_bytes is not None:
            here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        received = bytearray()
        sender = RangeSender(found)

        def receive() -> None:
            while True:
                try:
                    received.extend(there.recv(1 << 20))
                except BlockingIOError:
                    return

        while sender:
            piece = await sender.send(SocketCopy(here.fileno()))
            receive()
            received.extend(piece)
        receive()
        return bytes(received)


def segments(place: Place) -> list[Path]:
    return sorted(place.directory.glob("*.log"))


def run(scenario: object) -> None:
    asyncio.run(scenario)  # type: ignore[arg-type]


def test_what_was_read_from_the_files_leaves_from_them_and_what_was_not_does_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        shared = budgets()
        async with filled(tmp_path, shared) as (place, log, written):
            assert ranges(log, 1, 12) == []
            await read_all(log, Index(7))
            # A run ends with its segment, and a fetch may end there, too.
            assert [len(ranges(log, first, 12)) for first in range(1, 13)] == [3, 2, 1, 3, 2, 1, 1, 0, 0, 0, 0, 0]
            assert [len(ranges(log, 1, last)) for last in (0, 1, 2, 3)] == [0, 1, 2, 3]
            place.disk.calls.clear()
            for first in (1, 2, 4, 7):
                found = ranges(log, first, 12)
                wanted = written[first - 1 : first - 1 + len(found)]
                assert [each.record_count for each in found] == [entry.record_count for entry in wanted]
                assert await sent(found) == b"".join(bytes(entry.payload) for entry in wanted)
            assert not any(call == "pread" for call, _ in place.disk.calls)
            assert shared.verified.sent.total == sum(
                len(each) for first in (1, 2, 4, 7) for each in ranges(log, first, 12)
            )
        assert shared.verified.used == 0

    run(scenario())


def test_bytes_are_bounded_but_one_range_comes_whatever_its_size(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with filled(tmp_path, budgets()) as (_, log, written):
            await read_all(log, Index(12))
            size = len(written[0].payload)
            assert [len(ranges(log, 1, 12, bound)) for bound in (1, size, 2 * size - 1, 2 * size)] == [1, 1, 1, 2]

    run(scenario())


def test_small_payloads_and_entries_without_records_do_not_leave_from_files(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=100_000)
        async with place.opened(caches=budgets()) as log:
            await append(log, Spec(size=200), Spec(size=SMALL), Spec(size=200), barrier(2), Spec(term=2, size=200))
            await append(log, Spec(term=2, size=200))
            await read_all(log, Index(6))
            assert [len(ranges(log, first, 6)) for first in range(1, 7)] == [1, 0, 1, 0, 2, 1]

    run(scenario())


def test_what_is_in_memory_does_not_leave_from_files(tmp_path: Path) -> None:
    async def scenario() -> None:
        # The last three large ones and the small one stay in memory.
        async with filled(tmp_path, budgets(tail=1300), tail_cache_bytes=1300) as (_, log, _):
            # A read that begins in the files takes them from there, too.
            await read_all(log, Index(12))
            assert [len(ranges(log, first, 12)) for first in (7, 9, 10, 11, 12)] == [3, 1, 0, 0, 0]

    run(scenario())


def test_a_truncation_forgets_what_was_verified(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with filled(tmp_path, budgets()) as (_, log, _written):
            await read_all(log, Index(12))
            await log.truncate(Index(5))
            new = await append(log, Spec(term=2, size=200), Spec(term=2, size=SMALL))
            assert [len(ranges(log, first, 5)) for first in range(1, 6)] == [0, 0, 0, 0, 0]
            await read_all(log, Index(5))
            (found,) = ranges(log, 5, 5)
            assert await sent([found]) == bytes(new[0].payload)

    run(scenario())


def test_other_entries_would_be_sent_if_uncommitted_ranges_were(tmp_path: Path) -> None:
    """Why a range is that of a committed entry: a truncation may put other entries where it lies."""

    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=100_000)
        async with place.opened(caches=budgets()) as log:
            written = await append(log, *[Spec(size=200) for _ in range(4)])
            await read_all(log, Index(4))
            sender = RangeSender(ranges(log, 3, 4))
            await log.truncate(Index(3))
            await append(log, Spec(term=2, kind=EntryKind.CONFIGURATION, records=0, size=1000))
            piece = await sender.send(None)
            assert len(piece) == len(written[2].payload)
            assert piece != written[2].payload

    run(scenario())


def test_damage_that_is_found_anywhere_makes_all_be_checked_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with filled(tmp_path, budgets()) as (place, log, written):
            await read_all(log, Index(6))
            assert ranges(log, 1, 6)
            flip(segments(place)[2], 100)
            with pytest.raises(CorruptLogError):
                await log.read(Index(7), EVERYTHING)
            assert ranges(log, 1, 6) == []
            assert (await log.read(Index(1), 1))[0].payload == written[0].payload
            assert ranges(log, 1, 6)

    run(scenario())


def test_a_segment_that_is_removed_while_it_is_sent_ends_the_response(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with filled(tmp_path, budgets()) as (_, log, written):
            await read_all(log, Index(12))
            begun = RangeSender(ranges(log, 1, 3))
            start = LogStart(Index(7), written[5].end_offset, written[5].end_offset, Term(1))
            log.advance_start(start)
            await log.save_snapshot(Snapshot(start, Index(12), Term(1), b"state"))
            await steps()
            assert [len(ranges(log, first, 12)) for first in (1, 4, 7)] == [0, 0, 3]
            with pytest.raises(LogTruncatedError, match="removed"):
                await begun.send(None)

    run(scenario())


def test_what_is_remembered_is_bounded_over_all_logs(tmp_path: Path) -> None:
    async def scenario() -> None:
        # A run of three entries costs 19.
        shared = budgets(2 * 19)
        async with filled(tmp_path / "a", shared) as (_, one, _), filled(tmp_path / "b", shared) as (_, two, _):
            await read_all(one, Index(6))
            assert shared.verified.used == 38
            await read_all(two, Index(3))
            assert shared.verified.used == 38
            assert [len(ranges(one, first, 6)) for first in (1, 4)] == [0, 3]
            assert len(ranges(two, 1, 3)) == 3
        assert shared.verified.used == 0
        tiny = budgets(5)
        async with filled(tmp_path / "c", tiny) as (_, log, _):
            await read_all(log, Index(6))
            assert (tiny.verified.used, ranges(log, 1, 6)) == (0, [])

    run(scenario())


def test_what_is_in_the_page_cache_is_sent_without_a_worker(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with filled(tmp_path, budgets()) as (place, log, written):
            await read_all(log, Index(12))
            here, there = socket.socketpair()
            with here, there:
                here.setblocking(False)
                copy = SocketCopy(here.fileno())
                sender = RangeSender(ranges(log, 1, 3))
                sender.send_cached(copy)
                assert sender, "nothing is in the page cache"
                place.disk.caches = True
                sender.send_cached(copy)
                assert not sender
                assert there.recv(10_000) == b"".join(bytes(entry.payload) for entry in written[:3])
                # A socket that is full: the next piece is returned, without a worker, too.
                sender = RangeSender(ranges(log, 1, 3))
                place.disk.fail("send", ".log", errno.EAGAIN)
                assert sender.send_cached(copy) == written[0].payload
                # One that failed and a disk that hangs leave the rest to a worker.
                place.disk.fail("send", ".log", errno.EPIPE)
                assert sender.send_cached(copy) == b""
                assert sender
                log._jobs._hung[asyncio.get_running_loop().create_future()] = None
                sender.send_cached(copy)
                assert sender
                log._jobs._hung.clear()
                sender.send_cached(copy)
                assert not sender

    run(scenario())


@pytest.mark.parametrize("size", [300_000, 65_536, 65_537])
def test_a_socket_that_is_full_gets_the_rest_in_pieces(tmp_path: Path, size: int) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=2_000_000)
        async with place.opened(caches=budgets()) as log:
            written = await append(log, Spec(size=size), Spec(size=size + 1), Spec(size=SMALL))
            await read_all(log, Index(2))
            found = ranges(log, 1, 2)
            assert await sent(found, buffer_bytes=4096) == b"".join(bytes(entry.payload) for entry in written[:2])

    run(scenario())


def test_without_a_socket_all_bytes_come_in_pieces(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=2_000_000)
        async with place.opened(caches=budgets()) as log:
            written = await append(log, Spec(size=150_000), Spec(size=70_000), Spec(size=SMALL))
            await read_all(log, Index(2))
            sender = RangeSender(ranges(log, 1, 2))
            pieces = []
            while sender:
                pieces.append(await sender.send(None))
            assert b"".join(pieces) == b"".join(bytes(entry.payload) for entry in written[:2])
            assert max(map(len, pieces)) == 1024

    run(scenario())


def test_a_file_that_became_shorter_is_damage(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with filled(tmp_path, budgets()) as (place, log, _):
            await read_all(log, Index(12))
            sender = RangeSender(ranges(log, 2, 3))
            os.truncate(segments(place)[0], 400)
            told: list[CorruptLogError] = []
            log.health.on_damage = told.append
            with pytest.raises(CorruptLogError, match="shorter"):
                await sender.send(None)
            assert len(told) == 1

    run(scenario())


def test_a_disk_that_cannot_be_read_is_damage_and_ends_the_response(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with filled(tmp_path, budgets()) as (place, log, _):
            await read_all(log, Index(12))
            sender = RangeSender(ranges(log, 1, 3))
            place.disk.fail("send", ".log")
            place.disk.fail("pread", ".log")
            here, there = socket.socketpair()
            with here, there, pytest.raises(CorruptLogError, match="cannot be read"):
                await sender.send(SocketCopy(here.fileno()))

    run(scenario())


def test_a_closed_log_sends_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with filled(tmp_path, budgets()) as (_, log, _):
            await read_all(log, Index(12))
            sender = RangeSender(ranges(log, 1, 3))
        with pytest.raises(StorageError, match="closed"):
            await sender.send(None)
        assert ranges(log, 1, 3) == []

    run(scenario())


def test_a_copied_descriptor_is_closed_with_its_last_user() -> None:
    here, there = socket.socketpair()
    with here, there:
        copy = SocketCopy(here.fileno())
        number = copy.descriptor
        os.fstat(number)
        del copy
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(number)


def test_a_copy_without_a_descriptor_left_is_refused_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("storage.file_range.os.dup", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        SocketCopy(1)
