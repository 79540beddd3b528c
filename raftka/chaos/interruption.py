"""Ctrl-C and SIGTERM during a run: the first ends the load, the next one gives up what comes behind it.

What comes behind the load (the last answers, a cluster that becomes well, the final reads) takes seconds where all is
well and many minutes where it is not; whoever has seen enough need not wait for it.
"""

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any, TypeVar

from raftka.chaos.errors import ChaosError

_LOOK_SECONDS = 0.1

T = TypeVar("T")


class GivenUpError(ChaosError):
    """Somebody has interrupted what was waited for."""


class Interruption:
    """Which of the two has been asked for.

    Attributes:
        ends_load: Clients and faults are to stop; what was seen is judged.
        gives_up: Nothing is to be waited for any more.
    """

    def __init__(self) -> None:
        self.ends_load = threading.Event()
        self.gives_up = threading.Event()
        self._is_load_over = False

    def load_is_over(self) -> None:
        """From here on the first interruption gives up."""
        self._is_load_over = True

    def interrupt(self) -> None:
        """Ask for the next of the two."""
        if self._is_load_over or self.ends_load.is_set():
            self.gives_up.set()
        else:
            self.ends_load.set()

    @contextmanager
    def by_signals(self) -> Iterator[None]:
        """Let SIGINT and SIGTERM interrupt, instead of what they did before."""
        handlers: dict[signal.Signals, Any] = {}
        for number in (signal.SIGINT, signal.SIGTERM):
            handlers[number] = signal.signal(number, lambda *_: self.interrupt())
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)


def result_of(future: "Future[T]", seconds: float, what: str, gives_up: threading.Event) -> T:
    """Wait for a result.

    Raises:
        GivenUpError: `gives_up` was set first.
        ChaosError: It took longer.
    """
    deadline = time.monotonic() + seconds
    while not future.done():
        if gives_up.is_set():
            future.cancel()
            raise GivenUpError(f"{what}: given up")
        if time.monotonic() > deadline:
            future.cancel()
            raise ChaosError(f"{what}: not done in {seconds:g} s")
        wait([future], _LOOK_SECONDS)
    return future.result()


def join_thread(thread: threading.Thread, seconds: float, gives_up: threading.Event) -> bool:
    """Wait for a thread that was told to stop; returns whether it has.

    Raises:
        GivenUpError: `gives_up` was set first.
    """
    deadline = time.monotonic() + seconds
    while thread.is_alive() and time.monotonic() < deadline:
        if gives_up.is_set():
            raise GivenUpError(f"{thread.name}: given up")
        thread.join(_LOOK_SECONDS)
    return not thread.is_alive()
