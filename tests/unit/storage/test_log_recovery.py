"""Recovery: what was fsynced is there or the log is refused untouched; what was not is a prefix."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from log_harness import IDENTITY, Place, Spec, append, barrier, entries_after, everything, flip, plain, steps

from model.ids import Index
from storage.entry import HEADER_BYTES, Entry, pack_header
from storage.errors import CorruptLogError, MismatchedLogError
from storage.index_file import read_index_file
from storage.log import Log

# What a header's checksum covers beyond the header itself, for data.
HEADER_AND_BATCH_START = HEADER_BYTES + 21


async def refused_untouched(place: Place, match: str) -> None:
    before = place.content()
    with pytest.raises(CorruptLogError, match=match):
        await place.open()
    assert place.content() == before, "a refused directory is left as it is"
    assert place.disk.opened == {}


async def filled(place: Place, flushed: int, total: int) -> list[Entry]:
    """Write `total` entries, the first `flushed` of them flushed and so marked in the next header; then crash."""
    log = await place.open()
    written = await append(log, *[Spec(size=13)] * flushed)
    await log.flush()
    await steps()
    for _ in range(total - flushed):
        written += await append(log, Spec(size=13))
    await place.crash(log)
    return written


def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        written = await filled(place, 2, 9)
        async with place.opened() as log:
            assert (log.dirty_index, log.flushed_index, log.unflushed_bytes) == (9, 9, 0)
            assert await everything(log) == plain(written)

    asyncio.run(scenario())


@pytest.mark.parametrize("tail", [b"\0", b"RFK1", b"RFK1" + bytes(200), bytes(5000), b"x" * 56])
def test_a_torn_tail_is_cut(tmp_path: Path, tail: bytes) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        written = await filled(place, 2, 4)
        with (place.directory / place.names()[-1]).open("ab") as file:
            file.write(tail)
        async with place.opened() as log:
            assert await everything(log) == plain(written)
            written.extend(await append(log, Spec()))
        async with place.opened() as log:
            assert await everything(log) == plain(written)

    asyncio.run(scenario())


def test_a_hole_above_the_mark_is_cut_even_if_valid_entries_follow(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        written = await filled(place, 2, 9)
        path, start, end = place.spans()[5]
        content = bytearray(path.read_bytes())
        content[start:end] = bytes(end - start)
        path.write_bytes(content)
        async with place.opened() as log:
            assert (log.dirty_index, log.flushed_index) == (4, 4)
            assert place.bases() == [(1, 1), (3, 1)]
            assert await everything(log) == plain(written[:4])

    asyncio.run(scenario())


def test_damage_at_the_mark_is_refused_although_only_a_header_behind_it_tells(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        await filled(place, 2, 3)
        spans = place.spans()
        path, start, _ = spans[2]
        flip(path, start + HEADER_AND_BATCH_START)
        await refused_untouched(place, f"byte {start}.*entries up to 2 had been fsynced")
        # Entry 3's payload is torn as well: its header still says how far the log was fsynced.
        flip(path, spans[3][2] - 1)
        await refused_untouched(place, "entries up to 2 had been fsynced")
        # Now nothing says so any more.
        flip(path, spans[3][1] + 40)
        async with place.opened() as log:
            assert log.dirty_index == 1

    asyncio.run(scenario())


def test_the_mark_is_found_in_a_later_segment(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        await filled(place, 4, 5)
        for path in place.directory.glob("*.index"):
            path.unlink()
        path, start, _ = place.spans()[2]
        flip(path, start)
        await refused_untouched(place, f"byte {start}.*entries up to 4 had been fsynced")

    asyncio.run(scenario())


def test_an_entry_inside_a_payload_says_nothing(tmp_path: Path) -> None:
    """A producer may send anything, also the bytes of a segment with a large mark."""

    async def scenario() -> None:
        place = Place(tmp_path)
        log = await place.open()
        await append(log, Spec())
        inner = entries_after(99, 0, [barrier(1)])[0]
        trap = Entry(Index(2), inner.term, inner.kind, log.next_offset, 0, pack_header(inner, Index(98)) * 3)
        await log.append([trap])
        await append(log, Spec(), Spec())
        await place.crash(log)
        path, start, _ = place.spans()[1]
        flip(path, start)
        async with place.opened() as log:
            assert log.dirty_index == 0

    asyncio.run(scenario())


def test_a_file_that_ends_early_before_the_next_one_is_cut_there(tmp_path: Path) -> None:
    """What a power loss leaves: the size of the last fsync, which is an entry's end, and the next file's name."""

    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        log = await place.open()
        written = await append(log, *[Spec(size=13)] * 3)
        await log.flush()
        await append(log, *[Spec(size=13)] * 4)
        await place.crash(log)
        first, second, third, fourth = [place.directory / name for name in place.names()]
        second.write_bytes(second.read_bytes()[:130])
        third.write_bytes(b"")
        fourth.write_bytes(b"")
        async with place.opened() as log:
            assert place.names() == [first.name, second.name]
            assert await everything(log) == plain(written)

    asyncio.run(scenario())


def test_a_gap_below_the_mark_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        await filled(place, 6, 7)
        (place.directory / place.names()[1]).unlink()
        await refused_untouched(place, "begins at 5, entry 3 is missing")

    asyncio.run(scenario())


def test_overlapping_segments_are_refused_by_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        await filled(place, 2, 5)
        stranger = place.directory / "00000000000000000004-9.log"
        stranger.write_bytes((place.directory / place.names()[1]).read_bytes())
        await refused_untouched(place, r"00000000000000000004-9\.log overlaps")

    asyncio.run(scenario())


def test_a_term_that_falls_is_damage(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        log = await place.open()
        await append(log, Spec(term=5))
        await place.crash(log)
        false = entries_after(1, 1, [Spec(term=4)])[0]
        with (place.directory / place.names()[0]).open("ab") as file:
            file.write(pack_header(false, Index(0)) + false.payload)
        async with place.opened() as log:
            assert (log.dirty_index, log.last_term) == (1, 5)

    asyncio.run(scenario())


def test_closed_segments_with_index_files_are_not_scanned(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        written = await filled(place, 9, 10)
        place.disk.calls.clear()
        log = await place.open()
        read = [name for call, name in place.disk.calls if call == "pread" and name.endswith(".log")]
        assert set(read) == {place.names()[-1]}
        assert await everything(log) == plain(written)
        await log.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("torn", [b"", b"RFK1", b"x" * 60])
def test_a_closed_segment_is_read_before_it_is_the_active_one_again(tmp_path: Path, torn: bytes) -> None:
    """Only its index file, which goes then, tells that all of it had been fsynced."""

    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        written = await filled(place, 5, 6)
        *_, closed, active = place.names()
        assert len(place.names(".index")) == len(place.names()) - 1
        (place.directory / active).write_bytes(torn)
        whole = place.content()
        async with place.opened() as log:
            kept = await everything(log)
        assert kept == plain(written)[: len(kept)]
        async with place.opened() as log:
            assert await everything(log) == kept
        for name, content in whole.items():
            (place.directory / name).write_bytes(content)
        flip(place.directory / closed, len(whole[closed]) - 1)
        await refused_untouched(place, "had been fsynced")

    asyncio.run(scenario())


def test_closed_segments_that_had_to_be_scanned_get_their_index_files(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        written = await filled(place, 9, 10)
        first, second, *_ = place.names(".index")
        (place.directory / first).unlink()
        flip(place.directory / second, 7)
        log = await place.open()
        await steps(50)
        assert len(place.names(".index")) == len(place.names()) - 1
        await log.close()
        place.disk.calls.clear()
        async with place.opened() as log:
            read = {name for call, name in place.disk.calls if call == "pread" and name.endswith(".log")}
            assert read == {place.names()[-1]}
            assert await everything(log) == plain(written)

    asyncio.run(scenario())


@pytest.mark.parametrize("at_entry_end", [False, True])
def test_a_segment_shorter_than_its_index_file_says_is_refused(tmp_path: Path, at_entry_end: bool) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        await filled(place, 4, 4)
        assert place.names(".index") == ["00000000000000000001-1.index"]
        path, start, end = place.spans()[2]
        path.write_bytes(path.read_bytes()[: start if at_entry_end else end - 1])
        await refused_untouched(place, "entries up to [23] had been fsynced")

    asyncio.run(scenario())


def test_leftovers_are_removed(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        written = await filled(place, 4, 4)
        good = place.names(".index")
        last = place.names()[-1].replace(".log", ".index")
        for name in ("00000000000000000001-1.index.tmp", "00000000000000000099-3.index", last):
            (place.directory / name).write_bytes(b"left over")
        async with place.opened() as log:
            assert place.names(".tmp") == []
            assert place.names(".index") == good
            assert await everything(log) == plain(written)

    asyncio.run(scenario())


def test_the_tail_above_the_mark_is_written_again_in_place_and_synced(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300, index_interval_bytes=1)
        await filled(place, 3, 7)
        before = {name: content for name, content in place.content().items() if name.endswith(".log")}
        place.disk.calls.clear()
        log = await place.open()
        tail = place.names()[1:]  # The mark is 3: it lies in the second file.
        written = [name for call, name in place.disk.calls if call == "pwritev" and name.endswith(".log")]
        synced = [name for call, name in place.disk.calls if call == "fsync" and name.endswith(".log")]
        assert written == synced == tail
        assert {name: content for name, content in place.content().items() if name.endswith(".log")} == before
        await log.close()

    asyncio.run(scenario())


# -- any byte -----------------------------------------------------------------------------------------------------

STORY = st.lists(
    st.one_of(
        st.just("flush"),
        st.builds(
            Spec,
            term=st.sampled_from([1, 1, 2]),
            records=st.integers(1, 3),
            size=st.sampled_from([0, 13, 40, 90, 300]),
        ),
    ),
    min_size=3,
    max_size=14,
)


class Ruin:
    """A log that was written and killed, and what is known about its files."""

    def __init__(self, folder: str, story: list[Spec | str], segment_bytes: int) -> None:
        self.place = Place(Path(folder), segment_bytes=segment_bytes)
        self.written: list[Entry] = []
        self.headers: dict[int, int] = {}
        asyncio.run(self.write(story))
        self.spans = self.place.spans()
        self.indexed = self.find_indexed()

    async def write(self, story: list[Spec | str]) -> None:
        log, term = await self.place.open(), 1
        for each in story:
            if isinstance(each, Spec):
                term = max(term, each.term)
                self.headers[len(self.written) + 1] = int(log.flushed_index)
                self.written += await append(log, Spec(term, each.records, 5, each.size))
            else:
                await log.flush()
                await steps()
        await self.place.crash(log)

    def find_indexed(self) -> int:
        """The last entry that an index file covers."""
        last = 0
        for name in self.place.names(".index"):
            path = str(self.place.directory / name)
            record = read_index_file(self.place.disk, path, IDENTITY.group, int(name[:20]))
            assert record is not None
            last = max(last, record.last_index)
        return last

    def mark(self, lost_headers: set[int]) -> int:
        held = [flushed for index, flushed in self.headers.items() if index not in lost_headers]
        return max([self.indexed, *held], default=0)

    def is_covered(self, index: int) -> bool:
        path = self.spans[index][0]
        return path.with_suffix(".index").exists()

    async def check(self, first_damaged: int, mark: int) -> None:
        if first_damaged > mark:
            async with self.place.opened() as log:
                assert log.dirty_index == log.flushed_index == first_damaged - 1
                assert await everything(log) == plain(self.written[: first_damaged - 1])
        elif self.is_covered(first_damaged):
            async with self.place.opened() as log:
                assert log.dirty_index >= mark
                with pytest.raises(CorruptLogError):
                    await log.read(Index(first_damaged), 1)
        else:
            await refused_untouched(self.place, "had been fsynced")


def every_ruin(test):
    return settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))(
        given(STORY, st.sampled_from([200, 500, 5000]), st.data())(test)
    )


@every_ruin
def test_any_flipped_bit_is_found_and_treated_by_the_rule_of_the_mark(
    story: list[Spec | str], segment_bytes: int, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ruin = Ruin(folder, story, segment_bytes)
        assume(ruin.written)
        index = data.draw(st.integers(1, len(ruin.written)), label="entry")
        path, start, end = ruin.spans[index]
        at = data.draw(st.integers(start, end - 1), label="at byte")
        flip(path, at, data.draw(st.integers(0, 7), label="bit"))
        is_header = at - start < HEADER_AND_BATCH_START
        asyncio.run(ruin.check(index, ruin.mark({index} if is_header else set())))


@every_ruin
def test_any_cut_file_is_found_and_treated_by_the_rule_of_the_mark(
    story: list[Spec | str], segment_bytes: int, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ruin = Ruin(folder, story, segment_bytes)
        assume(ruin.written)
        index = data.draw(st.integers(1, len(ruin.written)), label="entry")
        path, start, end = ruin.spans[index]
        at = data.draw(st.integers(start, end - 1), label="cut at byte")
        path.write_bytes(path.read_bytes()[:at])
        lost = {each for each, (file, begin, _) in ruin.spans.items() if file == path and each >= index}
        if at - start >= HEADER_AND_BATCH_START:
            lost.discard(index)
        mark = ruin.mark(lost)
        if ruin.is_covered(index):
            # The index file says that the file was longer, and durable.
            asyncio.run(refused_untouched(ruin.place, "had been fsynced"))
        else:
            asyncio.run(ruin.check(index, mark))


@pytest.mark.parametrize("left", ["nothing", "index files", "an empty segment"])
def test_a_log_that_ends_before_what_it_is_known_to_hold_is_refused_untouched(tmp_path: Path, left: str) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        await filled(place, 12, 14)
        names = sorted(path.name for path in place.directory.glob("*.log"))
        assert list(place.directory.glob("*.index"))
        for path in [*place.directory.glob("*.log"), *(place.directory.glob("*.index") if left == "nothing" else ())]:
            path.unlink()
        if left == "an empty segment":
            (place.directory / names[0]).write_bytes(b"")
            for path in place.directory.glob("*.index"):
                path.unlink()
        before = place.content()
        with pytest.raises(MismatchedLogError, match=r"lost or moved away.*bring the whole data directory back"):
            await Log.open(place.env, str(place.directory), IDENTITY, place.options, known_index=Index(1))
        assert place.content() == before
        assert place.disk.opened == {}

    asyncio.run(scenario())


def test_a_first_entry_that_is_known_to_be_durable_is_never_cut_as_a_torn_tail(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        await filled(place, 1, 1)
        [path] = place.directory.glob("*.log")
        path.write_bytes(path.read_bytes()[:-1])
        before = place.content()
        with pytest.raises(CorruptLogError, match="entries up to 1 had been fsynced"):
            await Log.open(place.env, str(place.directory), IDENTITY, place.options, known_index=Index(1))
        assert place.content() == before
        async with place.opened() as log:
            assert log.dirty_index == 0, "without that knowledge it looks like one"

    asyncio.run(scenario())


def test_a_log_that_reaches_what_is_known_is_opened(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        written = await filled(place, 1, 1)
        log = await Log.open(place.env, str(place.directory), IDENTITY, place.options, known_index=Index(1))
        assert await everything(log) == plain(written)
        await log.close()

    asyncio.run(scenario())
