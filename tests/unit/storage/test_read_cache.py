"""What left the tail cache of a led log, in memory for consumers, within one budget of the node."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from model.ids import Index, Offset, Term
from storage import read_cache
from storage.entry import HEADER_BYTES, Entry, EntryKind
from storage.read_cache import ENTRY_OVERHEAD_BYTES, ReadCache, ReadCacheBudget, free
from storage.tail_cache import TailBudget, TailCache

COST = 100 + ENTRY_OVERHEAD_BYTES


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_cache, "_BLOCK_ENTRIES", 3)


def entry(index: int, size: int = 100, records: int = 2) -> Entry:
    # Every third has no records, as a barrier.
    count = records if index % 3 else 0
    base = sum(records for before in range(1, index) if before % 3)
    return Entry(Index(index), Term(1), EntryKind.DATA, Offset(base), count, bytes(size - HEADER_BYTES))


def filled(budget: ReadCacheBudget, count: int, first: int = 1) -> ReadCache:
    cache = ReadCache(budget)
    cache.keep(is_kept=True)
    for index in range(first, first + count):
        cache.admit(entry(index))
    return cache


def held(cache: ReadCache, last: int = 50) -> list[int]:
    """Return the indexes in the cache, found by asking for each."""
    found = [cache.read(Index(index), Index(index), 1) for index in range(1, last + 1)]
    return [run[0].index for run in found if run]


def test_a_log_that_serves_nobody_keeps_nothing():
    budget = ReadCacheBudget(10 * COST)
    cache = ReadCache(budget)
    cache.admit(entry(1))
    assert (held(cache), budget.used) == ([], 0)
    cache = filled(budget, 4)
    assert (held(cache), budget.used) == ([1, 2, 3, 4], 4 * COST)
    given_up = cache.keep(is_kept=False)
    assert (held(cache), cache.is_empty, budget.used) == ([], True, 0)
    assert [len(block.entries) for block in given_up] == [3, 1]
    asyncio.run(free(given_up))
    assert given_up == []
    assert cache.keep(is_kept=False) == []


def test_many_blocks_are_dropped_in_steps_and_the_last_one_at_once():
    budget = ReadCacheBudget(20 * COST)
    cache = filled(budget, 11)
    assert cache.forget_some(Index(8))
    assert held(cache) == list(range(4, 12))
    assert cache.forget_some(Index(8))
    assert not cache.forget_some(Index(8))
    assert held(cache) == list(range(7, 12))
    cache.forget_until(Index(8))
    assert (held(cache), budget.used) == ([10, 11], 2 * COST)


def test_a_budget_of_nothing_and_an_entry_over_the_budget_keep_nothing():
    assert held(filled(ReadCacheBudget(0), 4)) == []
    budget = ReadCacheBudget(3 * COST)
    cache = filled(budget, 2)
    cache.admit(entry(3, size=1_000_000))
    assert held(cache) == [1, 2]
    # What follows it cannot be joined to what came before it.
    cache.admit(entry(4))
    assert held(cache) == [4]


def test_the_log_that_was_written_or_read_longest_ago_gives_way_by_whole_blocks():
    budget = ReadCacheBudget(12 * COST)
    first, second = filled(budget, 6), filled(budget, 6)
    # Read just now: the other one gives way.
    assert first.read(Index(1), Index(2), 1) is not None
    third = filled(budget, 1)
    assert (held(second), held(third)) == ([4, 5, 6], [1])
    assert held(first) == [1, 2, 3, 4, 5, 6]
    for index in range(2, 12):
        third.admit(entry(index))
    assert budget.used <= budget.limit
    assert held(third) == list(range(1, 12))


def test_one_log_gives_up_its_own_oldest():
    budget = ReadCacheBudget(7 * COST)
    assert held(filled(budget, 20)) == list(range(16, 21))
    assert budget.used == 5 * COST


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 1200))
def test_a_read_ends_with_its_last_entry_or_its_bytes_and_has_one_at_least(first, last, max_bytes):
    cache = filled(ReadCacheBudget(1 << 20), 10)
    run = cache.read(Index(first), Index(max(first, last)), max_bytes)
    if first > 10:
        assert run is None
        return
    wanted = list(range(first, min(max(first, last), 10) + 1))
    assert [each.index for each in run] == wanted[: max(1, max_bytes // 100)]


def test_an_offset_is_found_in_the_entry_that_holds_it():
    cache = filled(ReadCacheBudget(1 << 20), 12, first=4)
    records = {
        offset: each.index for each in map(entry, range(4, 16)) for offset in range(each.base_offset, each.end_offset)
    }
    assert {offset: cache.index_of_offset(Offset(offset)) for offset in records} == records
    assert cache.index_of_offset(Offset(min(records) - 1)) is None
    assert cache.index_of_offset(Offset(max(records) + 1)) is None
    assert filled(ReadCacheBudget(0), 3).index_of_offset(Offset(0)) is None


class TailAndRest(RuleBasedStateMachine):
    """A log's two caches together hold a dense run that ends at the log's end, whatever is cut and kept."""

    @initialize(limit=st.integers(0, 20), tail=st.integers(1, 6))
    def begin(self, limit: int, tail: int) -> None:
        self.budget = ReadCacheBudget(limit * COST)
        self.rest = ReadCache(self.budget)
        self.tail = TailCache(tail * 100, TailBudget(tail * 100), self.rest.admit)
        self.other = ReadCache(self.budget)
        self.other.keep(is_kept=True)
        self.entries: list[Entry] = []
        self.others = 0

    @rule(count=st.integers(1, 8))
    def append(self, count: int) -> None:
        for _ in range(count):
            new = entry(len(self.entries) + 1)
            self.entries.append(new)
            self.tail.push(new)

    @rule(count=st.integers(1, 3))
    def append_elsewhere(self, count: int) -> None:
        for _ in range(count):
            self.others += 1
            self.other.admit(entry(self.others))

    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        first = data.draw(st.integers(1, len(self.entries) + 1))
        del self.entries[first - 1 :]
        self.tail.cut(Index(first))
        self.rest.cut(Index(first))

    @rule(is_kept=st.booleans())
    def keep(self, is_kept: bool) -> None:
        self.rest.keep(is_kept=is_kept)

    @invariant()
    def both_tell_the_log(self) -> None:
        if not hasattr(self, "budget"):
            return
        assert 0 <= self.budget.used <= self.budget.limit
        last = Index(len(self.entries))
        found = []
        for each in self.entries:
            run = self.tail.read(each.index, last, 1) or self.rest.read(each.index, last, 1)
            if run is not None:
                assert run == [each]
                assert run[0] is each
                found.append(each.index)
        assert found == list(range(len(self.entries) - len(found) + 1, len(self.entries) + 1))


TestTailAndRest = TailAndRest.TestCase
