"""Worker processes for many runs: they begin fresh, are replaced after some, and end with whoever has started them."""

import argparse
import contextlib
import os
import signal
from collections.abc import Callable, Generator, Iterable, Iterator
from multiprocessing import get_context
from multiprocessing.pool import Pool
from types import FrameType
from typing import NoReturn, TypeVar

Work = TypeVar("Work")
Result = TypeVar("Result")


@contextlib.contextmanager
def worker_processes(jobs: int, runs_per_process: int, niceness: int = 0) -> Iterator[Pool]:
    """Have at most `jobs` processes (1 or more), each replaced after so many runs.

    With a niceness of 19 they take only the time that nobody else wants.
    """
    context = get_context("spawn")
    size = min(jobs, os.cpu_count() or 1)
    pool = context.Pool(size, _begin_as_a_worker, (niceness,), maxtasksperchild=runs_per_process)
    try:
        yield pool
    finally:
        # Waited for: what they share is gone before this process is.
        pool.terminate()
        pool.join()


def results(
    run: Callable[[Work], Result], work: Iterable[Work], *, jobs: int, runs_per_process: int
) -> Generator[Result, None, None]:
    """Yield what `run` returns for each piece of work, as they end, from at most `jobs` processes (1 or more)."""
    with worker_processes(jobs, runs_per_process) as pool:
        yield from pool.imap_unordered(run, work)


def number_of_processes(text: str) -> int:
    """Read it from a command line.

    Raises:
        ArgumentTypeError: It is no number, or less than 1.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes, 1 or more")
    return int(text)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let a command that is told to end (SIGTERM of a time-out, Ctrl-C) end its processes before itself."""
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _begin_as_a_worker(niceness: int) -> None:
    # Ctrl-C is for the parent to act on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(niceness)
