"""Placeholders (RFC 0022, section 2): a log that has them against the log of the single entries."""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_harness import Place, Spec, barrier, entries_after, flip, plain, steps

from model.ids import Index, Offset, Term
from storage.entry import (
    HEADER,
    HEADER_BYTES,
    HEADER_CRC,
    PLACEHOLDER,
    Entry,
    EntryKind,
    pack_header,
    parse_entry,
    parse_head,
    parse_mark,
)
from storage.errors import CorruptEntryError, LogTruncatedError
from storage.log import Log
from storage.log_start import LogStart
from storage.placeholder import placeholder, rest_of
from storage.snapshot_file import Snapshot

T = TypeVar("T")


def covering(entries: list[Entry]) -> Entry:
    """The placeholder for these entries."""
    first, last = entries[0], entries[-1]
    assert {each.term for each in entries} == {first.term}
    return placeholder(first.index, last.index, first.term, first.base_offset, last.end_offset)


def packed(entry: Entry, flushed: int = 0) -> bytes:
    return pack_header(entry, Index(flushed)) + bytes(entry.payload)


# -- the bytes of one ---------------------------------------------------------------------------------------------


def test_a_placeholder_tells_where_it_ends_as_a_whole_by_its_header_and_by_its_mark() -> None:
    entry = placeholder(Index(5), Index(11), Term(3), Offset(40), Offset(47))
    content = memoryview(packed(entry, flushed=4))
    parsed, head, mark = parse_entry(content, 0), parse_head(content, 0), parse_mark(content, 0)
    assert parsed is not None
    assert head is not None
    assert mark is not None
    assert plain([parsed.entry]) == plain([entry])
    assert parsed.entry.last_index == head.last_index == mark.last_index == 11
    assert (parsed.entry.end_offset, parsed.entry.size) == (47, HEADER_BYTES + 8)


@pytest.mark.parametrize("size", range(HEADER_BYTES + PLACEHOLDER.size))
def test_a_placeholder_that_is_cut_off_is_a_torn_tail(size: int) -> None:
    content = memoryview(packed(placeholder(Index(5), Index(6), Term(1), Offset(0), Offset(2))))[:size]
    assert parse_entry(content, 0) is None
    assert parse_head(content, 0) is None


def test_a_damaged_payload_is_refused_and_the_mark_tells_the_first_entry() -> None:
    content = bytearray(packed(placeholder(Index(5), Index(6), Term(1), Offset(0), Offset(2)), flushed=3))
    content[HEADER_BYTES + 3] ^= 1
    for parse in (parse_entry, parse_head):
        with pytest.raises(CorruptEntryError, match="entry 5: wrong payload checksum"):
            parse(memoryview(content), 0)
    mark = parse_mark(memoryview(content), 0)
    assert mark is not None
    assert (mark.last_index, mark.flushed) == (5, 3)


@pytest.mark.parametrize(
    ("payload", "what"),
    [
        (b"", "a placeholder with a payload of 0 bytes, not 8"),
        (bytes(12), "a placeholder with a payload of 12 bytes, not 8"),
        (PLACEHOLDER.pack(0, 0), "a placeholder for 0 entries, reserved field 0"),
        (PLACEHOLDER.pack(3, 1), "a placeholder for 3 entries, reserved field 1"),
    ],
)
def test_a_placeholder_that_cannot_be_is_refused_by_name(payload: bytes, what: str) -> None:
    head = HEADER.pack(0x52464B31, len(payload), 7, 1, 6, 1, 0, 0, 0, 0, crc32c.crc32c(payload))
    content = memoryview(head + HEADER_CRC.pack(crc32c.crc32c(head)) + payload)
    for parse in (parse_entry, parse_head):
        with pytest.raises(CorruptEntryError, match=f"entry 7: {what}"):
            parse(content, 0)


def test_the_rest_of_a_placeholder_ends_where_it_ends() -> None:
    whole = placeholder(Index(5), Index(11), Term(3), Offset(40), Offset(47))
    rest = rest_of(whole, Index(9), Offset(44))
    assert (rest.index, rest.last_index, rest.term) == (9, 11, 3)
    assert (rest.base_offset, rest.end_offset) == (44, 47)


# -- a log with some, against the log without -----------------------------------------------------------------------


class Pair:
    """The same log twice: `single` has all entries, `merged` has placeholders for some of them."""

    def __init__(self, folder: Path, **options: int) -> None:
        self.runner = asyncio.Runner()
        self.places = [Place(folder / name, **options) for name in ("single", "merged")]
        self.entries: list[Entry] = []
        self.merged_entries: list[Entry] = []
        self.start: LogStart | None = None
        self.open()

    def run(self, what: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(what)

    def open(self) -> None:
        self.single, self.merged = (self.run(place.open()) for place in self.places)

    def close(self) -> None:
        for log in (self.single, self.merged):
            self.run(log.close())

    def append(self, specs: list[Spec], cuts: list[bool]) -> None:
        """Append `specs`; in `merged` each that is not behind a cut is in one placeholder with what follows."""
        last = self.entries[-1] if self.entries else None
        made = entries_after(0 if last is None else last.index, 0 if last is None else last.end_offset, specs)
        merged = merge(made, cuts)
        self.run(self.single.append(made))
        self.run(self.merged.append(merged))
        self.entries += made
        self.merged_entries += merged
        for log in (self.single, self.merged):
            self.run(log.flush())
            self.run(steps())

    def holder(self, index: int) -> Entry:
        """The entry of `merged` that stands for an index, as far as the start lets it be read."""
        entry = next(each for each in self.merged_entries if each.index <= index <= each.last_index)
        if self.start is not None and entry.index < self.start.index:
            return rest_of(entry, self.start.index, self.start.base_offset)
        return entry


def merge(entries: list[Entry], cuts: list[bool]) -> list[Entry]:
    """Return entries of which neighbours of one term are merged where no cut is between them."""
    groups: list[list[Entry]] = []
    for entry, is_cut in zip(entries, cuts, strict=True):
        if groups and not is_cut and groups[-1][-1].term == entry.term:
            groups[-1].append(entry)
        else:
            groups.append([entry])
    return [group[0] if len(group) == 1 else covering(group) for group in groups]


SPECS = st.lists(
    st.builds(
        Spec,
        term=st.sampled_from([0] * 6 + [1]),
        records=st.integers(1, 3),
        size=st.sampled_from([0, 30, 200]),
        kind=st.sampled_from([EntryKind.DATA] * 4 + [EntryKind.BARRIER]),
    ),
    min_size=1,
    max_size=12,
)


def with_terms(specs: list[Spec], first: int) -> list[Spec]:
    term, made = first, []
    for spec in specs:
        term += spec.term
        made.append(replace(spec, term=term))
    return made


def compare(pair: Pair) -> None:
    single, merged = pair.single, pair.merged
    for name in ("start_index", "start_offset", "dirty_index", "flushed_index", "next_offset", "last_term"):
        assert getattr(single, name) == getattr(merged, name)
    first, last = int(single.start_index), int(single.dirty_index)
    for index in range(first, last + 1):
        assert single.term_at(Index(index)) == merged.term_at(Index(index))
        holder = pair.holder(index)
        for size in (1, 300, 1 << 20):
            found = pair.run(merged.read(Index(index), size))
            assert plain(found[:1]) == plain([holder])
            expected = [each for each in pair.merged_entries if each.index > holder.index][: len(found) - 1]
            assert plain(found[1:]) == plain(expected)
            assert size < 1 << 20 or found[-1].last_index == last
        recent = merged.recent(Index(index), 1 << 20)
        assert recent is None or recent[0].index <= index <= recent[0].last_index
        if holder.last_index == index:
            end = pair.run(single.reader.locate_end_offset(Index(index)))
            assert pair.run(merged.reader.locate_end_offset(Index(index))) == end == holder.end_offset
            assert merged.end_offset(Index(index)) in (None, end)
    assert merged.end_offset(Index(last)) == single.end_offset(Index(last))
    for offset in range(int(single.start_offset), int(single.next_offset)):
        found_at = pair.run(merged.reader.index_of_offset(Offset(offset)))
        one = pair.run(single.reader.index_of_offset(Offset(offset)))
        assert pair.holder(one).index == found_at, f"offset {offset} is looked up in the wrong entry"
        assert single.term_of_offset(Offset(offset)) == merged.term_of_offset(Offset(offset))
    for term in range(int(single.last_term) + 2):
        assert single.epoch_end(Term(term)) == merged.epoch_end(Term(term))


@settings(deadline=None, max_examples=120)
@given(
    data=st.data(),
    batches=st.lists(SPECS, min_size=1, max_size=4),
    segment_bytes=st.sampled_from([150, 700, 4000]),
    interval=st.sampled_from([1, 150, 5000]),
    cache=st.sampled_from([1, 400, 100_000]),
)
def test_a_log_with_placeholders_answers_as_the_log_of_the_single_entries(
    data: st.DataObject, batches: list[list[Spec]], segment_bytes: int, interval: int, cache: int
) -> None:
    folder = tempfile.mkdtemp(prefix="placeholders-")
    options = {"segment_bytes": segment_bytes, "index_interval_bytes": interval, "tail_cache_bytes": cache}
    pair = Pair(Path(folder), **options)
    try:
        for specs in batches:
            term = max(1, int(pair.single.last_term))
            cuts = data.draw(st.lists(st.booleans(), min_size=len(specs), max_size=len(specs)))
            pair.append(with_terms(specs, term), cuts)
            compare(pair)
            what = data.draw(st.sampled_from(["nothing", "restart", "start", "truncate"]))
            if what == "restart":
                pair.close()
                pair.open()
            elif what == "start":
                move_start(pair, data)
            elif what == "truncate":
                truncate(pair, data)
            compare(pair)
    finally:
        pair.close()
        pair.runner.close()
        shutil.rmtree(folder)


def move_start(pair: Pair, data: st.DataObject) -> None:
    """Let both logs begin at an entry that may lie inside a placeholder; it is durable after that."""
    entry = data.draw(st.sampled_from([each for each in pair.entries if each.index >= pair.single.start_index]))
    offset = data.draw(st.integers(max(entry.base_offset, pair.single.start_offset), entry.end_offset))
    start = LogStart(entry.index, entry.base_offset, Offset(offset), pair.single.term_at(Index(entry.index - 1)))
    if start.flaw():
        return
    for log in (pair.single, pair.merged):
        log.advance_start(start)
        pair.run(log.save_snapshot(Snapshot(start, Index(log.dirty_index), log.last_term, b"")))
    pair.start = pair.single.start if pair.single.start.index > 1 else pair.start


def truncate(pair: Pair, data: st.DataObject) -> None:
    """Cut both at the beginning of an entry of `merged`: nothing that a placeholder stands for is ever cut."""
    start = pair.single.start_index
    bounds = [each.index for each in pair.merged_entries if each.index > start]
    if not bounds:
        return
    first_removed = data.draw(st.sampled_from(bounds))
    for log in (pair.single, pair.merged):
        pair.run(log.truncate(first_removed))
    pair.entries = [each for each in pair.entries if each.index < first_removed]
    pair.merged_entries = [each for each in pair.merged_entries if each.index < first_removed]


# -- what a start finds ---------------------------------------------------------------------------------------------


def run(what: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(what)


def test_a_placeholder_whose_segment_is_torn_behind_it_is_kept(tmp_path: Path) -> None:
    async def test() -> None:
        place = Place(tmp_path)
        log = await place.open()
        made = entries_after(0, 0, [Spec(), Spec(), Spec(), barrier(1)])
        await log.append([covering(made[:3]), made[3]])
        await place.crash(log)
        path, begin, _ = place.spans()[4]
        flip(path, begin + 4)
        again = await place.open()
        assert (again.dirty_index, again.next_offset) == (3, 3)
        assert await everything_of(again) == plain([covering(made[:3])])
        await again.close()

    run(test())


async def everything_of(log: Log) -> list[tuple[int, int, int, int, int, bytes]]:
    found: list[Entry] = []
    index = log.start_index
    while index <= log.dirty_index:
        found += await log.read(index, 1 << 20)
        index = Index(found[-1].last_index + 1)
    return plain(found)


def test_below_the_start_a_placeholder_cannot_be_read(tmp_path: Path) -> None:
    async def test() -> None:
        async with Place(tmp_path).opened() as log:
            made = entries_after(0, 0, [Spec(), Spec(records=3), Spec(), Spec()])
            await log.append([covering(made[:3]), made[3]])
            await log.flush()
            log.advance_start(LogStart(Index(2), Offset(1), Offset(2), Term(1)))
            with pytest.raises(LogTruncatedError):
                await log.read(Index(1), 1)
            [entry] = await log.read(Index(2), 1)
            assert (entry.index, entry.last_index, entry.base_offset, entry.end_offset) == (2, 3, 1, 5)
            assert await log.reader.index_of_offset(Offset(2)) == 2

    run(test())
