"""The owner of background tasks."""

import asyncio

import pytest

from runtime.gate import Gate


def run(test):
    async def bounded():
        async with asyncio.timeout(10):
            await test()

    asyncio.run(bounded())


def test_close_cancels_what_runs_and_waits_until_it_has_ended():
    async def test():
        gate = Gate("test")
        events = []

        async def work():
            events.append("started")
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                # Cleaning up takes several steps of the loop.
                for _ in range(3):
                    await asyncio.sleep(0)
                events.append("cleaned up")

        gate.spawn(work(), name="one")
        gate.spawn(work(), name="two")
        await asyncio.sleep(0)
        await gate.close()
        assert events == ["started", "started", "cleaned up", "cleaned up"]

    run(test)


def test_tasks_are_cancelled_in_the_order_they_were_spawned():
    async def test():
        gate = Gate("test")
        ended = []

        async def work(number):
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                ended.append(number)

        for number in range(20):
            gate.spawn(work(number), name=str(number))
        await asyncio.sleep(0)
        await gate.close()
        assert ended == list(range(20))

    run(test)


def test_a_closed_gate_starts_nothing():
    async def test():
        gate = Gate("test")
        assert not gate.is_closed
        await gate.close()
        assert gate.is_closed
        ran = []

        async def work():
            ran.append(1)

        # Not even "was never awaited" is left of it: warnings are errors here.
        gate.spawn(work(), name="late")
        await asyncio.sleep(0)
        assert ran == []

    run(test)


def test_what_a_dying_task_spawns_during_close_is_dropped():
    async def test():
        gate = Gate("test")
        ran = []

        async def late():
            ran.append(1)

        async def work():
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                gate.spawn(late(), name="late")

        gate.spawn(work(), name="work")
        await asyncio.sleep(0)
        await gate.close()
        await asyncio.sleep(0)
        assert ran == []

    run(test)


def test_a_task_that_dies_reaches_the_loops_exception_handler():
    async def test():
        reports = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
        gate = Gate("pump")
        error = RuntimeError("broken")

        async def work():
            raise error

        gate.spawn(work(), name="left")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [report["exception"] for report in reports] == [error]
        assert reports[0]["message"] == "background task pump/left died"
        await gate.close()
        assert len(reports) == 1

    run(test)


def test_a_task_that_dies_while_it_is_being_cancelled_is_reported_too():
    async def test():
        reports = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
        gate = Gate("pump")

        async def work():
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                raise RuntimeError("in the clean-up")

        gate.spawn(work(), name="left")
        await asyncio.sleep(0)
        await gate.close()
        await asyncio.sleep(0)
        assert [str(report["exception"]) for report in reports] == ["in the clean-up"]

    run(test)


def test_neither_an_end_nor_a_cancellation_is_reported():
    async def test():
        reports = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
        gate = Gate("test")

        async def ends():
            pass

        async def waits():
            await asyncio.get_running_loop().create_future()

        gate.spawn(ends(), name="ends")
        gate.spawn(waits(), name="waits")
        await asyncio.sleep(0)
        await gate.close()
        await asyncio.sleep(0)
        assert reports == []

    run(test)


def test_a_task_may_close_its_own_gate():
    async def test():
        gate = Gate("test")
        closed = asyncio.Event()
        other_ended = []

        async def other():
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                other_ended.append(1)

        async def closer():
            await gate.close()
            closed.set()

        gate.spawn(other(), name="other")
        gate.spawn(closer(), name="closer")
        await closed.wait()
        assert other_ended == [1]

    run(test)


def test_close_may_be_called_twice():
    async def test():
        gate = Gate("test")
        await gate.close()
        await gate.close()
        assert gate.is_closed

    run(test)


@pytest.mark.parametrize("count", [1, 100])
def test_ended_tasks_are_let_go(count):
    async def test():
        gate = Gate("test")

        async def work():
            await asyncio.sleep(0)

        for number in range(count):
            gate.spawn(work(), name=str(number))
        assert len(gate._tasks) == count
        for _ in range(3):
            await asyncio.sleep(0)
        assert len(gate._tasks) == 0

    run(test)
