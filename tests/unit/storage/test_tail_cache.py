"""The newest entries of all logs of a node in memory, within one budget."""

from hypothesis import given
from hypothesis import strategies as st

from model.ids import Index, Offset, Term
from storage.entry import HEADER_BYTES, Entry, EntryKind
from storage.tail_cache import TailBudget, TailCache


def entry(index: int, size: int) -> Entry:
    return Entry(Index(index), Term(1), EntryKind.COMMAND, Offset(0), 0, bytes(size - HEADER_BYTES))


def push(cache: TailCache, count: int, size: int = 100, first: int = 1) -> None:
    for index in range(first, first + count):
        cache.push(entry(index, size))


def held(cache: TailCache, last: int) -> list[int]:
    """Return the indexes in the cache, found by asking for each."""
    found = [cache.read(Index(index), Index(index), 1) for index in range(1, last + 1)]
    return [run[0].index for run in found if run]


def test_the_log_that_was_written_longest_ago_gives_way():
    budget = TailBudget(1000)
    old, busy, new = (TailCache(1000, budget) for _ in range(3))
    push(old, 3)
    push(busy, 3)
    push(new, 3)
    push(busy, 1, first=4)
    push(new, 2, first=4)
    assert (held(old, 3), held(busy, 4), held(new, 5)) == ([3], [1, 2, 3, 4], [1, 2, 3, 4, 5])
    push(new, 2, first=6)
    assert (held(old, 3), held(busy, 4), held(new, 7)) == ([], [2, 3, 4], list(range(1, 8)))
    assert budget.used == 1000


def test_one_log_keeps_within_its_own_limit():
    budget = TailBudget(10_000)
    cache = TailCache(300, budget)
    push(cache, 5)
    assert held(cache, 5) == [3, 4, 5]
    assert budget.used == 300


def test_an_entry_above_the_budget_is_not_kept():
    budget = TailBudget(250)
    small, large = TailCache(1000, budget), TailCache(1000, budget)
    push(small, 2)
    push(large, 1, size=300)
    assert small.is_empty
    assert large.is_empty
    assert budget.used == 0


def test_what_a_truncation_cuts_is_free_again():
    budget = TailBudget(1000)
    cache = TailCache(1000, budget)
    push(cache, 5)
    cache.cut(Index(3))
    assert budget.used == 200
    cache.cut(Index(1))
    assert budget.used == 0
    push(cache, 2)
    assert held(cache, 2) == [1, 2]


def test_many_entries_are_dropped_in_steps_and_few_at_once():
    budget = TailBudget(100_000)
    cache = TailCache(100_000, budget)
    push(cache, 300)
    assert cache.forget_some(Index(270))
    assert held(cache, 300) == list(range(129, 301))
    assert cache.forget_some(Index(270))
    assert not cache.forget_some(Index(270))
    assert held(cache, 300) == list(range(257, 301))
    cache.forget_until(Index(270))
    assert (held(cache, 300), budget.used) == (list(range(271, 301)), 3_000)


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["push", "cut"]), st.integers(60, 500)), max_size=60))
def test_the_budget_knows_what_is_held(steps):
    budget = TailBudget(900)
    caches = [TailCache(600, budget) for _ in range(3)]
    lasts = [0, 0, 0]
    for which, step, size in steps:
        if step == "push":
            lasts[which] += 1
            caches[which].push(entry(lasts[which], size))
        elif lasts[which]:
            lasts[which] = max(0, lasts[which] - size % 3)
            caches[which].cut(Index(lasts[which] + 1))
        assert budget.used == sum(each.size for cache in caches for each in cache._entries) <= 900
        for cache, last in zip(caches, lasts, strict=True):
            indexes = [each.index for each in cache._entries]
            assert indexes == list(range(last - len(indexes) + 1, last + 1))
