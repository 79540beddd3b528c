"""The fair semaphore in bytes."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.byte_budget import ByteBudget


def run(test):
    async def bounded():
        async with asyncio.timeout(10):
            await test()

    asyncio.run(bounded())


async def _settle():
    """Let every task that can run reach its next wait."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_what_is_free_is_taken_at_once_and_comes_back():
    async def test():
        budget = ByteBudget(10)
        assert await budget.acquire(4) == 4
        assert await budget.acquire(6) == 6
        assert budget.taken == 10
        budget.release(6)
        assert budget.taken == 4

    run(test)


def test_try_acquire_takes_nothing_when_too_little_is_free():
    budget = ByteBudget(10)
    assert budget.try_acquire(7) == 7
    assert budget.try_acquire(4) == 0
    assert budget.taken == 7
    assert budget.try_acquire(3) == 3


def test_try_acquire_does_not_overtake_who_waits():
    async def test():
        budget = ByteBudget(10)
        await budget.acquire(6)
        waiting = asyncio.create_task(budget.acquire(8))
        await _settle()
        assert budget.try_acquire(1) == 0
        budget.release(6)
        assert await waiting == 8
        assert budget.try_acquire(1) == 1

    run(test)


def test_waiters_are_served_in_the_order_they_came_even_if_a_later_one_would_fit():
    async def test():
        budget = ByteBudget(10)
        await budget.acquire(8)
        served = []

        async def take(name, size):
            units = await budget.acquire(size)
            served.append(name)
            return units

        tasks = [asyncio.create_task(take(name, size)) for name, size in (("large", 9), ("small", 1), ("middle", 5))]
        await _settle()
        assert served == []
        budget.release(8)
        await _settle()
        assert served == ["large", "small"]
        budget.release(9)
        assert [await task for task in tasks] == [9, 1, 5]
        assert served == ["large", "small", "middle"]

    run(test)


def test_one_release_serves_all_who_fit():
    async def test():
        budget = ByteBudget(10)
        await budget.acquire(10)
        tasks = [asyncio.create_task(budget.acquire(3)) for _ in range(4)]
        await _settle()
        budget.release(10)
        await _settle()
        assert [task.done() for task in tasks] == [True, True, True, False]
        budget.release(3)
        assert await tasks[3] == 3

    run(test)


def test_more_than_the_limit_takes_all_there_is_once_everything_is_free():
    async def test():
        budget = ByteBudget(10)
        await budget.acquire(1)
        oversize = asyncio.create_task(budget.acquire(1000))
        await _settle()
        assert not oversize.done()
        budget.release(1)
        assert await oversize == 10
        assert budget.taken == 10
        budget.release(10)
        assert budget.taken == 0

    run(test)


def test_a_cancelled_waiter_takes_nothing_and_lets_the_next_one_pass():
    async def test():
        budget = ByteBudget(10)
        await budget.acquire(5)
        large = asyncio.create_task(budget.acquire(9))
        small = asyncio.create_task(budget.acquire(5))
        await _settle()
        large.cancel()
        assert await small == 5
        assert budget.taken == 10
        with pytest.raises(asyncio.CancelledError):
            await large

    run(test)


def test_a_waiter_cancelled_in_the_moment_it_was_served_gives_back():
    async def test():
        budget = ByteBudget(10)
        await budget.acquire(10)
        first = asyncio.create_task(budget.acquire(10))
        second = asyncio.create_task(budget.acquire(10))
        await _settle()
        budget.release(10)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await second == 10
        assert budget.taken == 10

    run(test)


def test_a_release_right_after_a_cancellation_serves_the_next_one():
    async def test():
        budget = ByteBudget(10)
        await budget.acquire(10)
        first = asyncio.create_task(budget.acquire(10))
        second = asyncio.create_task(budget.acquire(10))
        await _settle()
        first.cancel()
        budget.release(10)
        assert await second == 10
        assert budget.taken == 10
        with pytest.raises(asyncio.CancelledError):
            await first
        budget.release(10)
        assert budget.taken == 0

    run(test)


def test_giving_back_more_than_was_taken_is_a_programmers_error():
    budget = ByteBudget(10)
    budget.try_acquire(3)
    with pytest.raises(AssertionError):
        budget.release(4)


@given(
    st.integers(1, 50),
    st.lists(st.tuples(st.integers(1, 80), st.sampled_from(["keep", "cancel"])), max_size=30),
    st.data(),
)
def test_never_more_than_the_limit_is_out_and_in_the_end_all_of_it_is_back(limit, asks, data):
    async def test():
        budget = ByteBudget(limit)
        held = []
        tasks = []

        async def take(size):
            held.append(await budget.acquire(size))

        for size, fate in asks:
            tasks.append(asyncio.create_task(take(size)))
            await _settle()
            if fate == "cancel":
                tasks.pop(data.draw(st.integers(0, len(tasks) - 1))).cancel()
            if held and data.draw(st.booleans()):
                budget.release(held.pop(0))
            assert 0 <= budget.taken <= limit
        for _ in range(len(asks) + 1):
            await _settle()
            assert sum(held) == budget.taken
            while held:
                budget.release(held.pop())
        assert budget.taken == 0
        assert all(task.done() for task in tasks)

    run(test)
