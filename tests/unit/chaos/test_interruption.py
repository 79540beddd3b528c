"""Ctrl-C: once for the load, once for what comes behind it."""

import os
import signal
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from raftka.chaos.errors import ChaosError
from raftka.chaos.history import History
from raftka.chaos.interruption import GivenUpError, Interruption, join_thread, result_of


def test_the_first_interruption_ends_the_load_and_the_second_gives_up():
    interruption = Interruption()
    interruption.interrupt()
    assert (interruption.ends_load.is_set(), interruption.gives_up.is_set()) == (True, False)
    interruption.interrupt()
    assert interruption.gives_up.is_set()


def test_behind_the_load_the_first_interruption_gives_up():
    interruption = Interruption()
    interruption.load_is_over()
    interruption.interrupt()
    assert (interruption.ends_load.is_set(), interruption.gives_up.is_set()) == (False, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_interrupt_and_are_what_they_were_afterwards(number: signal.Signals):
    before = signal.getsignal(number)
    interruption = Interruption()
    with interruption.by_signals():
        os.kill(os.getpid(), number)
        assert interruption.ends_load.wait(5)
    assert signal.getsignal(number) == before


def test_a_result_is_waited_for():
    future: Future[int] = Future()
    threading.Timer(0.05, future.set_result, [7]).start()
    assert result_of(future, 5, "seven", threading.Event()) == 7


def test_whoever_gives_up_waits_for_nothing():
    gives_up = threading.Event()
    threading.Timer(0.05, gives_up.set).start()
    future: Future[None] = Future()
    began = time.monotonic()
    with pytest.raises(GivenUpError, match="the end: given up"):
        result_of(future, 600, "the end", gives_up)
    assert future.cancelled()
    with pytest.raises(GivenUpError):
        join_thread(threading.current_thread(), 600, gives_up)
    assert time.monotonic() - began < 10


def test_what_takes_too_long_is_named():
    with pytest.raises(ChaosError, match="metadata: not done in 0 s"):
        result_of(Future[None](), 0, "metadata", threading.Event())


def test_a_thread_that_goes_on_is_told_from_one_that_has_ended():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    assert not join_thread(thread, 0.01, threading.Event())
    stop.set()
    assert join_thread(thread, 5, threading.Event())


def test_what_ends_after_the_history_was_closed_stays_unknown(tmp_path: Path):
    with History(tmp_path / "history.jsonl") as history:
        line = history.begin("send", history.process(), tp="t-0", val="a")
    history.end(line, "ok", off=0)
    history.note("seek", proc=1, tp="t-0", off=0)
    history.polled(1, 1, [("t-0", [(0, "a")])], final=True)
    (only,) = (tmp_path / "history.jsonl").read_text().splitlines()
    assert '"info"' in only
    assert history.counts == {}
