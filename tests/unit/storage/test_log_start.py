"""The start of a log: moving it, what can be read after, snapshots, and what a restart makes of them."""

import asyncio
import errno
from pathlib import Path

import msgspec
import pytest
from log_harness import Place, Spec, append, barrier, entries_after, plain, steps

from model.ids import Index, Offset, Term
from storage.entry import Entry
from storage.errors import CorruptEntryError, CorruptLogError, DiskFullError, LogTruncatedError, UnknownFormatError
from storage.log import Log
from storage.log_start import ORIGIN, LogStart, decode_log_start, encode_log_start
from storage.snapshot_file import Snapshot


def start_at(written: list[Entry], index: int, into: int = 0) -> LogStart:
    """The start at an entry of a log that was written whole; `into` records lie before it inside the entry."""
    before = written[index - 2] if index > 1 else None
    base = before.end_offset if before else Offset(0)
    return LogStart(Index(index), base, Offset(base + into), before.term if before else Term(0))


def snapshot_of(written: list[Entry], start: LogStart, applied: int | None = None, state: bytes = b"state") -> Snapshot:
    index = applied if applied is not None else len(written)
    return Snapshot(start, Index(index), written[index - 1].term if index else Term(0), state)


async def story(log: Log) -> list[Entry]:
    """Twelve entries in terms 1, 2 and 4; entries 1, 5 and 9 are barriers; two records in every other batch."""
    written = []
    for term in (1, 2, 4):
        written += await append(
            log, barrier(term), *[Spec(term=term, records=1 + n % 2, timestamp=10 * term + n) for n in range(3)]
        )
    await log.flush()
    await steps()
    return written


def test_nothing_below_the_start_can_be_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Place(tmp_path).opened() as log:
            written = await story(log)
            start = start_at(written, 7, into=1)
            log.advance_start(start)
            assert (log.start, log.start_index, log.start_offset) == (start, 7, start.offset)
            for index in range(1, 7):
                with pytest.raises(LogTruncatedError):
                    await log.read(Index(index), 1)
            for offset in range(start.offset):
                with pytest.raises(LogTruncatedError):
                    await log.reader.index_of_offset(Offset(offset))
            assert plain(await log.read(Index(7), 1 << 20)) == plain(written[6:])
            assert await log.reader.index_of_offset(start.offset) == 7
            assert log.term_at(Index(6)) == start.prev_term == 2
            with pytest.raises(LogTruncatedError):
                log.term_at(Index(5))
            assert log.end_offset(Index(6)) == start.base_offset

    asyncio.run(scenario())


def test_a_start_never_moves_back_and_must_fit(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Place(tmp_path).opened() as log:
            written = await story(log)
            await append(log, Spec(term=4))
            start = start_at(written, 7)
            log.advance_start(start)
            for older in (ORIGIN, start_at(written, 6), start):
                log.advance_start(older)
                assert log.start == start
            wrong = [
                msgspec.structs.replace(start_at(written, 9), prev_term=Term(1)),
                msgspec.structs.replace(start_at(written, 9), base_offset=Offset(0)),
                msgspec.structs.replace(start_at(written, 9), offset=Offset(99)),
                msgspec.structs.replace(start_at(written, 9), offset=Offset(0)),
                LogStart(Index(14), Offset(14), Offset(14), Term(4)),
            ]
            for each in wrong:
                with pytest.raises(CorruptLogError):
                    log.advance_start(each)
            assert log.start == start
            log.advance_start(start_at(written, 13))
            assert log.dirty_index == 13

    asyncio.run(scenario())


def test_epochs_and_terms_behind_a_moved_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        log = await place.open()
        written = await story(log)
        first_of_two = written[4].base_offset
        first_of_four = written[8].base_offset

        def check() -> None:
            start = log.start_offset
            assert [log.epoch_end(Term(term)) for term in range(6)] == [
                (0, start),
                (0, start),
                (2, first_of_four),
                (2, first_of_four),
                (4, log.next_offset),
                (4, log.next_offset),
            ]
            assert log.term_of_offset(start) == 2
            assert log.term_of_offset(first_of_four) == 4
            assert [log.term_at(Index(index)) for index in range(6, 13)] == [2, 2, 2, 4, 4, 4, 4]

        assert first_of_two < written[6].base_offset
        log.advance_start(start_at(written, 7))
        check()
        await log.save_snapshot(snapshot_of(written, log.start))
        check()
        await log.close()
        log = await place.open()
        assert log.start == start_at(written, 7)
        check()
        await log.truncate(Index(7))
        assert (log.dirty_index, log.last_term, log.next_offset) == (6, 2, log.start.base_offset)
        assert log.epoch_end(Term(2)) == (0, log.start_offset)
        await log.close()

    asyncio.run(scenario())


def test_a_saved_snapshot_is_found_once_and_removes_whole_segments_below_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        log = await place.open()
        written = await story(log)
        bases = place.bases()
        assert len(bases) > 4
        start = start_at(written, bases[3][0] - 1)
        log.advance_start(start)
        place.disk.calls.clear()
        await log.save_snapshot(snapshot_of(written, start))
        effects = [
            each for each in place.disk.calls if each[0] in ("pwritev", "fsync", "rename", "unlink", "fsync_dir")
        ]
        removed = [f"{base:020d}-{term}" for base, term in bases[:2]]
        assert effects == [
            ("pwritev", "snapshot.tmp"),
            ("fsync", "snapshot.tmp"),
            ("rename", "snapshot"),
            ("fsync_dir", "0123-7"),
            *[("unlink", f"{name}.{kind}") for name in removed for kind in ("index", "log")],
            ("fsync_dir", "0123-7"),
        ]
        assert place.bases() == bases[2:]
        assert (log.snapshot_index, log.pop_snapshot()) == (12, None)
        await log.close()
        log = await place.open()
        assert log.start == start
        assert log.pop_snapshot() == snapshot_of(written, start)
        assert log.pop_snapshot() is None
        assert log.snapshot_index == 12
        assert plain(await log.read(start.index, 1 << 20)) == plain(written[start.index - 1 :])
        await log.close()

    asyncio.run(scenario())


def test_an_older_snapshot_is_not_written(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            written = await story(log)
            log.advance_start(start_at(written, 5))
            await log.save_snapshot(snapshot_of(written, log.start, 9))
            content = place.content()["snapshot"]
            await log.save_snapshot(snapshot_of(written, log.start, 8))
            await log.save_snapshot(snapshot_of(written, ORIGIN, 10))
            assert place.content()["snapshot"] == content
            await log.save_snapshot(snapshot_of(written, log.start, 10))
            assert log.snapshot_index == 10

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("call", ["create", "pwritev", "fsync"])
def test_a_snapshot_that_finds_no_room_changes_nothing_and_is_written_later(
    tmp_path: Path, call: str, error: int
) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            written = await story(log)
            await log.save_snapshot(snapshot_of(written, ORIGIN, 3))
            log.advance_start(start_at(written, 9))
            before = place.content()
            place.disk.fail(call, "snapshot.tmp", error)
            with pytest.raises(DiskFullError):
                await log.save_snapshot(snapshot_of(written, log.start))
            assert place.content() == before
            assert (log.snapshot_index, log.is_poisoned) == (3, False)
            written += await append(log, Spec(term=4))
            await log.save_snapshot(snapshot_of(written, log.start))
            assert log.snapshot_index == 13
            assert len(place.names()) < len([name for name in before if name.endswith(".log")])

    asyncio.run(scenario())


@pytest.mark.parametrize(("call", "name"), [("fsync", "snapshot.tmp"), ("rename", "snapshot"), ("fsync_dir", "0123-7")])
def test_a_disk_error_in_a_save_poisons(tmp_path: Path, call: str, name: str) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            written = await story(log)
            place.disk.fail(call, name)
            with pytest.raises(Exception, match="this replica stops"):
                await log.save_snapshot(snapshot_of(written, ORIGIN))
            assert log.is_poisoned

    asyncio.run(scenario())


@pytest.mark.parametrize("call", ["create", "pwritev", "fsync"])
def test_an_index_file_that_finds_no_room_leaves_nothing_and_is_written_by_a_later_start(
    tmp_path: Path, call: str
) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        log = await place.open()
        place.disk.fail(call, ".index.tmp", errno.ENOSPC, times=99)
        written = await story(log)
        assert (place.names(".index"), place.names(".tmp")) == ([], [])
        assert not log.is_poisoned
        place.disk.faults.clear()
        written += await append(log, Spec(term=4))
        await log.close()
        async with place.opened() as log:
            assert plain(await log.read(Index(1), 1 << 20)) == plain(written)
            await steps(80)
            assert len(place.names(".index")) == len(place.names()) - 1

    asyncio.run(scenario())


@pytest.mark.parametrize(("call", "name"), [("create", ".log"), ("fsync_dir", "0123-7"), ("pwritev", ".log")])
def test_a_roll_that_finds_no_room_loses_nothing_and_is_done_later(tmp_path: Path, call: str, name: str) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            written = await append(log, Spec(size=200))
            await log.flush()
            before = place.content()
            place.disk.fail(call, name, errno.ENOSPC, half_done=call == "pwritev")
            with pytest.raises(DiskFullError):
                await append(log, Spec(size=200))
            assert place.content() == before
            written += await append(log, Spec(size=200))
            await log.flush()
            assert len(place.bases()) == 2
        async with place.opened() as log:
            assert plain(await log.read(Index(1), 1 << 20)) == plain(written)

    asyncio.run(scenario())


def test_an_install_replaces_a_log_that_ends_before_its_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        log = await place.open()
        await story(log)
        await append(log, Spec(term=4), Spec(term=4))
        start = LogStart(Index(101), Offset(500), Offset(503), Term(6))
        snapshot = Snapshot(start, Index(120), Term(7), b"far")
        assert await log.install(snapshot)
        for _ in range(2):
            assert (log.start, log.snapshot_index) == (start, 120)
            assert log.dirty_index == log.pending_index == log.flushed_index == 100
            assert (log.last_term, log.pending_term, log.next_offset, log.unflushed_bytes) == (6, 6, 500, 0)
            assert (log.term_at(Index(100)), log.end_offset(Index(100))) == (6, 500)
            assert (log.size_bytes, log.closed_index, place.names()) == (0, 0, [])
            assert await log.reader.index_of_offset(Offset(503)) == 101
            assert await log.reader.max_timestamp(Index(100)) is None
            await log.close()
            log = await place.open()
        assert log.pop_snapshot() == snapshot
        made = entries_after(100, 500, [Spec(term=7, records=9), Spec(term=7)])
        await log.append(made)
        assert plain(await log.read(Index(101), 1 << 20)) == plain(made)
        assert await log.reader.index_of_offset(Offset(503)) == 101
        await log.flush()
        await log.close()
        async with place.opened() as log:
            assert plain(await log.read(Index(101), 1 << 20)) == plain(made)

    asyncio.run(scenario())


def test_an_install_keeps_a_log_that_holds_the_entry_before_its_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            written = await story(log)
            written += await append(log, Spec(term=4), Spec(term=4))
            start = start_at(written, 14)
            assert await log.install(snapshot_of(written, start, 13))
            assert (log.start, log.dirty_index, log.truncations) == (start, 14, 0)
            assert log.flushed_index >= 13
            assert not await log.install(snapshot_of(written, start_at(written, 3), 13))
        async with place.opened() as log:
            assert plain(await log.read(Index(14), 1)) == plain(written[13:])

    asyncio.run(scenario())


def test_an_install_keeps_a_log_that_lacks_the_entry_in_which_it_starts(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            written = await story(log)
            last = written[-1]
            # Records of the next entry are deleted, too.
            start = LogStart(Index(13), last.end_offset, Offset(last.end_offset + 2), last.term)
            assert await log.install(snapshot_of(written, start))
            assert (log.start, log.dirty_index, log.truncations) == (start, 12, 0)
        async with place.opened() as log:
            assert (log.start, log.dirty_index, log.next_offset) == (start, 12, last.end_offset)
            written += await append(log, Spec(term=4, records=4))
            assert plain(await log.read(Index(13), 1)) == plain(written[12:])
            assert await log.reader.index_of_offset(start.offset) == 13

    asyncio.run(scenario())


def test_an_install_replaces_a_log_with_another_term_before_its_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            await story(log)
            start = LogStart(Index(8), Offset(5), Offset(5), Term(3))
            assert await log.install(Snapshot(start, Index(7), Term(3), b""))
            assert (log.dirty_index, log.last_term, log.truncations) == (7, 3, 1)

    asyncio.run(scenario())


def test_timestamps_count_from_the_start_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=1 << 20, index_interval_bytes=100)
        async with place.opened() as log:
            written = await append(log, *[Spec(timestamp=stamp) for stamp in (90, 20, 50, 30, 40)])
            await log.flush()
            assert await log.reader.max_timestamp(Index(5)) == 90
            log.advance_start(start_at(written, 2))
            assert await log.reader.max_timestamp(Index(5)) == 50
            assert await log.reader.max_timestamp(Index(2)) == 20
            assert await log.reader.max_timestamp(Index(1)) is None
            assert await log.reader.offset_of_timestamp(0, Index(5)) == (1, 20, 2)
            assert await log.reader.offset_of_timestamp(51, Index(5)) is None
            log.advance_start(start_at(written, 4))
            assert await log.reader.offset_of_timestamp(35, Index(5)) == (4, 40, 5)

    asyncio.run(scenario())


def test_what_retention_is_told_of_the_segments(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        log = await place.open()
        written = []
        for _ in range(5):
            place.clock.ms += 1000
            written += await append(log, Spec(timestamp=place.clock.ms - 7, size=60))
        await log.flush()
        await steps()
        facts = log.segments_for_retention()
        assert [each.base_index for each in facts] == [1, 2, 3, 4, 5] or [each.base_index for each in facts] == [
            1,
            3,
            5,
        ]
        following = [*facts[1:], None]
        for each, after in zip(facts, following, strict=True):
            assert each.base_offset == each.base_index - 1
            assert each.max_timestamp == 1_000_000 + 1000 * each.last_index - 7
            assert each.closed_ms == (None if after is None else 1_000_000 + 1000 * after.base_index)
        assert log.closed_index == facts[-2].last_index
        await log.close()
        place.clock.ms += 50_000
        log = await place.open()
        assert log.segments_for_retention() == facts, "index files keep when their segments were closed"
        log.advance_start(start_at(written, int(facts[1].base_index)))
        assert log.segments_for_retention() == facts[1:]
        await log.close()

    asyncio.run(scenario())


def test_options_change_while_the_log_is_open(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=1 << 20)
        async with place.opened() as log:
            await append(log, Spec(), Spec())
            log.configure(Place(tmp_path, segment_bytes=1).options)
            await append(log, Spec(), Spec())
            assert [base for base, _ in place.bases()] == [1, 3, 4]

    asyncio.run(scenario())


def test_a_saved_snapshot_beside_appends_reads_and_truncations(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            written = await story(log)
            log.advance_start(start_at(written, 6))

            async def work() -> None:
                nonlocal written
                written += await append(log, Spec(term=4))
                await log.truncate(Index(12))
                del written[11:]
                written += await append(log, Spec(term=5), Spec(term=5))

            reads = [log.read(Index(index), 1 << 20) for index in (6, 8, 11)]
            looks = [log.reader.max_timestamp(Index(11)), log.reader.offset_of_timestamp(40, Index(11))]
            await asyncio.gather(*reads, log.save_snapshot(snapshot_of(written, log.start, 11)), work(), *looks)
            assert plain(await log.read(Index(6), 1 << 20)) == plain(written[5:])

    asyncio.run(scenario())


def test_a_log_start_travels_as_a_payload() -> None:
    start = LogStart(Index(7), Offset(9), Offset(11), Term(3))
    payload = encode_log_start(start)
    assert decode_log_start(payload) == decode_log_start(memoryview(payload)) == start
    with pytest.raises(UnknownFormatError, match="format 2"):
        decode_log_start(msgspec.msgpack.encode([2, "whatever", 7]))
    for bad in (
        b"",
        b"\xc1",
        msgspec.msgpack.encode([]),
        msgspec.msgpack.encode([1, [7, 9]]),
        msgspec.msgpack.encode(7),
    ):
        with pytest.raises(CorruptEntryError):
            decode_log_start(bad)
    for fields in ([0, 0, 0, 0], [7, 9, 8, 3], [7, -1, 8, 3], [7, 9, 9, 0], [1, 0, 0, 4], [7, 9, 9, -1]):
        with pytest.raises(CorruptEntryError, match="impossible"):
            decode_log_start(msgspec.msgpack.encode([1, fields]))
