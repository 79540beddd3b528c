"""Jobs that are quick run on the loop, and only as long as they are quick."""

import time
from collections.abc import Iterator

import pytest

from runtime.workers import ThreadWorkers


@pytest.fixture
def workers() -> Iterator[ThreadWorkers]:
    made = ThreadWorkers()
    yield made
    made.close()


def test_a_job_that_was_slow_sends_the_next_ones_to_threads_for_a_while(workers, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    done = []

    def slow() -> None:
        now[0] += 0.010
        done.append("slow")

    assert workers.run_now(lambda: done.append("quick"))
    assert workers.run_now(slow)
    assert not workers.run_now(lambda: done.append("refused"))
    now[0] += 1.1
    assert workers.run_now(lambda: done.append("quick again"))
    assert done == ["quick", "slow", "quick again"]


def test_a_job_that_hung_sends_the_next_ones_to_threads_for_a_hundred_times_as_long(workers, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def hung() -> None:
        now[0] += 5.0

    assert workers.run_now(hung)
    now[0] += 499.0
    assert not workers.run_now(lambda: None)
    now[0] += 1.1
    assert workers.run_now(lambda: None)


def test_what_a_job_raises_reaches_the_caller(workers):
    with pytest.raises(ZeroDivisionError):
        workers.run_now(lambda: 1 // 0)
