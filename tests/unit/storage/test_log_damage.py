"""Damage below the mark: refused with what was lost, or set aside when the caller asks for it."""

import asyncio
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from log_harness import IDENTITY, Place, Spec, append, barrier, entries_after, flip, plain, steps

from model.ids import Index, Offset, Term
from storage.entry import Entry, pack_header
from storage.errors import (
    CorruptLogError,
    DamagedLogError,
    ForeignSegmentError,
    LogPoisonedError,
    MismatchedLogError,
    StorageError,
)
from storage.index_file import index_path
from storage.log_start import ORIGIN, LogStart
from storage.snapshot_file import Snapshot, decode_snapshot, encode_snapshot, snapshot_checksum


async def filled(place: Place) -> list[Entry]:
    """Terms 1, 3 and 5 with four entries each, all flushed, in several segments; the last header's mark is 12."""
    log = await place.open()
    written: list[Entry] = []
    for term in (1, 3, 5):
        written += await append(log, barrier(term), *[Spec(term=term, size=60)] * 3)
    await log.flush()
    await steps(50)
    written += await append(log, Spec(term=5))
    await place.crash(log)
    return written


def without_index_files(place: Place) -> None:
    for path in place.directory.glob("*.index"):
        path.unlink()


def damaged(place: Place) -> list[str]:
    return place.names(".damaged")


async def refused(place: Place, lost_end: tuple[int, int], **how: object) -> DamagedLogError:
    before = place.content()
    with pytest.raises(DamagedLogError) as caught:
        await place.open(**how)
    assert caught.value.lost_end == lost_end
    assert place.content() == before, "a refused directory is left as it is"
    assert place.disk.opened == {}
    return caught.value


@pytest.mark.parametrize("damaged_index", range(1, 13))
def test_what_is_damaged_below_the_mark_is_set_aside_with_all_behind_it(tmp_path: Path, damaged_index: int) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=500)
        written = await filled(place)
        without_index_files(place)
        path, at, _ = place.spans()[damaged_index]
        flip(path, at + 10)
        await refused(place, (13, 5))
        before = place.content()
        log = await place.open(isolate=True)
        assert log.dirty_index == log.flushed_index == damaged_index - 1
        assert log.has_damaged_copies
        assert log.last_term == (written[damaged_index - 2].term if damaged_index > 1 else 0)
        # Nothing is lost: what left the log lies in the copies.
        for name, content in before.items():
            if name.endswith(".log"):
                left = place.directory / name
                aside = place.directory / f"{name}.damaged"
                parts = [each.read_bytes() for each in (left, aside) if each.exists()]
                assert b"".join(parts) == content
        again = entries_after(log.dirty_index, log.next_offset, [Spec(term=6), Spec(term=6)])
        await log.append(again)
        await log.truncate(Index(log.dirty_index))
        await log.flush()
        await log.close()
        async with place.opened() as log:
            assert log.has_damaged_copies
            assert log.dirty_index == damaged_index
            assert plain(await log.read(Index(1), 1 << 20)) == plain([*written[: damaged_index - 1], again[0]])
            await log.forget_damaged()
            assert (damaged(place), log.has_damaged_copies) == ([], False)
        async with place.opened() as log:
            assert not log.has_damaged_copies

    asyncio.run(scenario())


def test_damage_that_a_read_found_behind_an_index_file_is_found_again_when_asked_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=500)
        await filled(place)
        path, at, _ = place.spans()[2]
        assert Path(index_path(str(path))).exists()
        flip(path, at + 60)
        log = await place.open()
        told: list[CorruptLogError] = []
        log.health.on_damage = told.append
        with pytest.raises(CorruptLogError):
            await log.read(Index(2), 1)
        await log.close()
        assert [each.path for each in told] == [str(path)]
        rescan = frozenset({str(path)})
        await refused(place, (13, 5), rescan=rescan)
        log = await place.open(isolate=True, rescan=rescan)
        assert log.dirty_index == 1
        await log.close()

    asyncio.run(scenario())


def test_a_segment_that_turns_out_whole_is_kept_by_a_rescan(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=500)
        written = await filled(place)
        names = [str(place.directory / name) for name in place.names()]
        log = await place.open(isolate=True, rescan=frozenset(names))
        assert plain(await log.read(Index(1), 1 << 20)) == plain(written)
        assert (log.has_damaged_copies, damaged(place)) == (False, [])
        await log.close()

    asyncio.run(scenario())


def test_a_lost_end_counts_entries_that_are_only_known_to_the_caller(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        log = await place.open()
        await append(log, *[Spec(term=2)] * 4)
        await log.close()
        path, at, _ = place.spans()[4]
        flip(path, at + 3)
        await refused(place, (4, 2), known_index=Index(4))
        async with place.opened() as log:
            assert log.dirty_index == 3, "without that knowledge it is a torn tail"

    asyncio.run(scenario())


def test_a_log_that_was_isolated_may_end_before_what_is_known_until_that_is_forgotten(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        await filled(place)
        without_index_files(place)
        path, at, _ = place.spans()[1]
        flip(path, at)
        await refused(place, (13, 5), known_index=Index(1))
        for isolate in (True, False):
            log = await place.open(known_index=Index(1), isolate=isolate)
            assert log.dirty_index == 0
            await log.close()
        log = await place.open()
        await log.forget_damaged()
        await log.close()
        with pytest.raises(MismatchedLogError):
            await place.open(known_index=Index(1), isolate=True)

    asyncio.run(scenario())


@pytest.mark.parametrize("call", ["unlink", "rename", "fsync_dir", "pwritev", "fsync", "truncate"])
def test_a_disk_that_refuses_while_damage_is_set_aside_leaves_it_to_the_next_start(tmp_path: Path, call: str) -> None:
    async def scenario() -> None:
        for skip in range(12):
            place = Place(tmp_path / str(skip), segment_bytes=500)
            written = await filled(place)
            path, at, _ = place.spans()[7]
            flip(path, at + 10)
            Path(index_path(str(path))).unlink(missing_ok=True)
            place.disk.fail(call, "", skip=skip)
            try:
                log = await place.open(isolate=True)
            except LogPoisonedError:
                place.disk.faults.clear()
                log = await place.open(isolate=True)
            assert log.dirty_index == 6
            assert plain(await log.read(Index(1), 1 << 20)) == plain(written[:6])
            place.disk.faults.clear()
            await log.close()

    asyncio.run(scenario())


# -- with a start ---------------------------------------------------------------------------------------------------


async def with_start(place: Place, index: int) -> tuple[list[Entry], Snapshot]:
    log = await place.open()
    written: list[Entry] = []
    for term in (1, 3, 5):
        written += await append(log, barrier(term), *[Spec(term=term, size=60)] * 3)
    await log.flush()
    await steps(50)
    before = written[index - 2]
    log.advance_start(LogStart(Index(index), before.end_offset, before.end_offset, before.term))
    snapshot = Snapshot(log.start, Index(11), Term(5), b"state of the replica")
    await log.save_snapshot(snapshot)
    await log.close()
    return written, snapshot


@pytest.mark.parametrize("start", [6, 8, 9])
@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_a_lost_snapshot_beside_segments_that_begin_late_empties_the_log(tmp_path: Path, how: str, start: int) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        await with_start(place, start)
        assert place.bases()[0][0] > 1
        snapshot = place.directory / "snapshot"
        if how == "missing":
            snapshot.unlink()
        else:
            flip(snapshot, 9)
        names = place.names()
        await refused(place, (12, 5))
        log = await place.open(isolate=True)
        assert (log.start, log.dirty_index, log.last_term, log.pop_snapshot()) == (ORIGIN, 0, 0, None)
        aside = [f"{name}.damaged" for name in names]
        assert damaged(place) == sorted([*aside, *(["snapshot.damaged"] if how == "damaged" else [])])
        await append(log, Spec(term=6))
        await log.close()
        async with place.opened() as log:
            assert log.dirty_index == 1

    asyncio.run(scenario())


def test_a_damaged_snapshot_beside_a_whole_log_loses_no_entry(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=1 << 20)
        written, _ = await with_start(place, 4)
        flip(place.directory / "snapshot", 9)
        await refused(place, (12, 5))
        log = await place.open(isolate=True)
        assert log.start == ORIGIN
        assert plain(await log.read(Index(1), 1 << 20)) == plain(written)
        assert damaged(place) == ["snapshot.damaged"]
        await log.close()

    asyncio.run(scenario())


def test_a_damaged_snapshot_alone_is_never_taken_for_an_empty_log(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            start = LogStart(Index(50), Offset(70), Offset(70), Term(3))
            await log.install(Snapshot(start, Index(49), Term(3), b""))
        flip(place.directory / "snapshot", 6)
        before = place.content()
        for isolate in (False, True):
            with pytest.raises(CorruptLogError, match="snapshot is damaged"):
                await place.open(isolate=isolate)
        assert place.content() == before

    asyncio.run(scenario())


def test_a_missing_first_segment_leaves_start_and_state(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        _, snapshot = await with_start(place, 6)
        (place.directory / place.names()[0]).unlink()
        await refused(place, (12, 5))
        log = await place.open(isolate=True)
        assert (log.start, log.dirty_index, log.last_term) == (snapshot.start, 5, snapshot.start.prev_term)
        assert log.pop_snapshot() == snapshot
        await log.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("damaged_index", range(6, 13))
def test_damage_behind_a_start_cuts_the_log_there(tmp_path: Path, damaged_index: int) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        written, snapshot = await with_start(place, 6)
        without_index_files(place)
        path, at, _ = place.spans()[damaged_index]
        flip(path, at + 10)
        await refused(place, (12, 5), known_index=Index(12))
        log = await place.open(isolate=True, known_index=Index(12))
        assert (log.start, log.dirty_index) == (snapshot.start, damaged_index - 1)
        if damaged_index > 6:
            assert plain(await log.read(Index(6), 1 << 20)) == plain(written[5 : damaged_index - 1])
        await log.close()

    asyncio.run(scenario())


def test_damage_below_the_start_in_its_own_segment_costs_the_segment(tmp_path: Path) -> None:
    """The entries are read one after the other: behind damage nothing of the segment is reached."""

    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=1 << 20)
        await with_start(place, 4)
        without_index_files(place)
        path, at, _ = place.spans()[2]
        flip(path, at + 10)
        await refused(place, (12, 5), known_index=Index(12))
        log = await place.open(isolate=True, known_index=Index(12))
        assert (log.start_index, log.dirty_index) == (4, 3)
        await log.close()

    asyncio.run(scenario())


def test_every_flipped_bit_and_every_cut_of_a_snapshot_is_found() -> None:
    start = LogStart(Index(7), Offset(9), Offset(11), Term(3))
    snapshot = Snapshot(start, Index(9), Term(3), b"what it holds")
    content = encode_snapshot(snapshot)
    assert decode_snapshot(content, "snapshot") == snapshot
    for position in range(len(content)):
        for bit in range(8):
            changed = bytearray(content)
            changed[position] ^= 1 << bit
            with pytest.raises(CorruptLogError, match="snapshot is damaged"):
                decode_snapshot(bytes(changed), "snapshot")
        with pytest.raises(CorruptLogError):
            decode_snapshot(content[:position], "snapshot")


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65535, 65536, 9 * 1024 * 1024])
def test_the_checksum_that_travels_with_a_snapshot_is_that_of_its_file(size: int) -> None:
    """Also where the state's length takes more bytes, and where it takes several steps."""
    start = LogStart(Index(7), Offset(9), Offset(11), Term(3))
    state = bytes(range(256)) * (size // 256) + bytes(size % 256)
    for configuration in (b"", b"who"):
        snapshot = Snapshot(start, Index(9), Term(3), state, configuration)
        content = encode_snapshot(snapshot)
        if not configuration:
            assert content[4:] == b"\x01" + msgspec.msgpack.encode([start, 9, 3, state])
        assert asyncio.run(snapshot_checksum(snapshot)) == int.from_bytes(content[:4], "big")
        assert decode_snapshot(content, "snapshot") == snapshot


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data(), st.sampled_from([200, 500, 5000]), st.integers(2, 12))
def test_any_flipped_bit_anywhere_is_refused_or_set_aside_or_never_read(
    data: st.DataObject, segment_bytes: int, start: int
) -> None:
    """Whatever file it hits: nothing wrong is ever read, and what is read is where it was."""

    async def scenario(folder: str) -> None:
        place = Place(Path(folder), segment_bytes=segment_bytes)
        written, snapshot = await with_start(place, start)
        names = [name for name in place.content() if name != "replica.id"]
        path = place.directory / data.draw(st.sampled_from(names), label="file")
        flip(path, data.draw(st.integers(0, path.stat().st_size - 1), label="byte"), data.draw(st.integers(0, 7)))
        before = place.content()
        try:
            log = await place.open(known_index=Index(12))
        except DamagedLogError as error:
            refusal = error
        else:
            refusal = None
        if refusal is not None:
            assert place.content() == before
            assert refusal.lost_end == (12, 5)
            log = await place.open(known_index=Index(12), isolate=True)
            assert log.dirty_index < 12 or path.name == "snapshot"
        assert log.start in (snapshot.start, ORIGIN)
        for index in range(log.start_index, log.dirty_index + 1):
            try:
                run = await log.read(Index(index), 1)
            except StorageError:
                assert place.disk.exists(index_path(str(path))), "an index file vouched for it"
            else:
                assert plain(run) == plain(written[index - 1 : index])
        await log.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(scenario(folder))


# -- another log's files ----------------------------------------------------------------------------------------------


def write_segment(path: Path, entries: list[Entry]) -> None:
    path.write_bytes(b"".join(pack_header(entry, Index(0)) + bytes(entry.payload) for entry in entries))


@pytest.mark.parametrize(
    ("base", "offset", "term"), [(14, 99, 5), (14, 10, 2), (14, 0, 9)], ids=["offset", "term", "offset and term"]
)
def test_a_segment_of_another_log_is_refused_by_name(tmp_path: Path, base: int, offset: int, term: int) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=500)
        await filled(place)
        stranger = place.directory / f"{base:020d}-{term}.log"
        write_segment(stranger, entries_after(base - 1, offset, [Spec(term=term)] * 3))
        before = place.content()
        for isolate in (False, True):
            with pytest.raises(ForeignSegmentError, match=stranger.name):
                await place.open(isolate=isolate)
        assert place.content() == before
        assert place.disk.opened == {}
        stranger.unlink()
        await (await place.open()).close()

    asyncio.run(scenario())


def test_a_renamed_segment_is_refused_by_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=500)
        await filled(place)
        last = place.directory / place.names()[-1]
        last.rename(last.with_name(last.name.replace("-5.log", "-6.log")))
        with pytest.raises(ForeignSegmentError, match=r"-6\.log: its first entry is of term 5"):
            await place.open()

    asyncio.run(scenario())


def test_a_segment_that_contradicts_the_snapshot_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        for into in (0, 2):
            place = Place(tmp_path / str(into))
            log = await place.open()
            start = LogStart(Index(50), Offset(70), Offset(70), Term(3))
            await log.install(Snapshot(start, Index(49), Term(3), b""))
            await log.close()
            stranger = place.directory / f"{50 - into:020d}-3.log"
            write_segment(stranger, entries_after(49 - into, 5, [Spec(term=3)] * 4))
            before = place.content()
            with pytest.raises(ForeignSegmentError, match=stranger.name):
                await place.open(isolate=True)
            assert place.content() == before

    asyncio.run(scenario())


def test_an_index_file_of_another_log_is_neither_used_nor_believed(tmp_path: Path) -> None:
    async def scenario() -> None:
        place, other = Place(tmp_path / "a", segment_bytes=500), Place(tmp_path / "b", segment_bytes=500)
        other_identity = type(IDENTITY)(type(IDENTITY.group)("another-1"), IDENTITY.directory_id)
        written = await filled(place)
        log = await other.open(other_identity)
        for term in (1, 3, 5):
            await append(log, barrier(term), *[Spec(term=term, size=60, timestamp=7)] * 3)
        await log.close()
        name = place.names(".index")[0]
        stranger = (other.directory / name).read_bytes()
        assert stranger != (place.directory / name).read_bytes()
        (place.directory / name).write_bytes(stranger)
        async with place.opened() as log:
            assert plain(await log.read(Index(1), 1 << 20)) == plain(written)
            await steps(50)
        assert (place.directory / name).read_bytes() != stranger, "the right one took its place"
        # Beside a torn tail it does not turn it into damage.
        torn = Place(tmp_path / "c", segment_bytes=500)
        log = await torn.open()
        await append(log, barrier(1), Spec(size=60))
        await torn.crash(log)
        (torn.directory / name).write_bytes(stranger)
        async with torn.opened() as log:
            assert log.dirty_index == 2

    asyncio.run(scenario())


def test_files_that_are_no_segments_are_left_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        written = await filled(place)
        (place.directory / "notes.txt").write_bytes(b"by a person")
        async with place.opened() as log:
            assert plain(await log.read(Index(1), 1 << 20)) == plain(written)
        assert (place.directory / "notes.txt").exists()

    asyncio.run(scenario())
