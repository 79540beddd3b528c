"""A pass of compaction puts a placeholder into the log between the two steps of a read."""

import asyncio
from types import SimpleNamespace

import pytest

from cluster.partition import Partition
from cluster.partition_reader import PartitionReader
from model.ids import Index, Offset, Term
from storage.entry import Entry, EntryKind
from storage.placeholder import placeholder


def data(index):
    return Entry(Index(index), Term(1), EntryKind.DATA, Offset(10 * index), 10, b"batch %d" % index)


class SwappedLog:
    """Entries 1 to 9 of ten records each, of which 3 to `last` become a placeholder once somebody has looked."""

    def __init__(self, last=8):
        self.entries = {index: data(index) for index in range(1, 10)}
        self.gone = placeholder(Index(3), Index(last), Term(1), Offset(30), Offset(10 * (last + 1)))
        self.is_swapped = False
        self.dirty_index = Index(9)
        self.next_offset = Offset(100)
        self.reader = self

    def holds(self, index):
        return True

    def term_at(self, index):
        return Term(1)

    def _found(self, index):
        found = self.gone if self.is_swapped and 3 <= index <= self.gone.last_index else self.entries.get(index)
        self.is_swapped = True
        return found

    async def index_of_offset(self, offset):
        return self._found(offset // 10).index

    async def offset_of_timestamp(self, timestamp_ms, visible, *, first):
        found = self._found(timestamp_ms)
        found = found if found.kind is EntryKind.DATA else self.entries[found.last_index + 1]
        return found.base_offset, timestamp_ms, found.index

    async def read(self, first, max_bytes, last):
        run = []
        while first <= last:
            run.append(self._found(first))
            first = run[-1].last_index + 1
        return run


def reader_of(log, visible=9):
    state = SimpleNamespace(visible_index=Index(visible), commit_index=Index(visible))
    consensus = SimpleNamespace(log=log, state=state, term=Term(1), is_in_office=True)
    return PartitionReader(consensus, SimpleNamespace(last_read=lambda *, read_committed: Index(visible)))


@pytest.mark.parametrize(
    ("last", "visible", "expected"), [(8, 9, [b"batch 9"]), (6, 9, [b"batch 7", b"batch 8", b"batch 9"]), (8, 6, [])]
)
def test_a_fetch_goes_on_behind_a_placeholder_that_has_come_meanwhile(last, visible, expected):
    reader = reader_of(SwappedLog(last), visible)
    assert asyncio.run(reader.fetch(Offset(55), 1000, from_files=True)) == expected


def test_a_lookup_by_time_takes_no_placeholder_for_a_batch():
    hit = asyncio.run(reader_of(SwappedLog()).find_timestamp(5, first=Index(0), read_committed=False))
    assert (hit.batch, hit.log_index) == (b"batch 9", 9)


def test_a_new_start_of_the_log_begins_where_the_placeholder_begins():
    start = asyncio.run(Partition._start_at(SimpleNamespace(_log=SwappedLog()), Offset(55)))
    assert (start.index, start.base_offset, start.offset, start.prev_term) == (3, 30, 55, 1)
