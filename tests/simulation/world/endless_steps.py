"""A step of a loop that never ends: no handle runs any more, so only a timer of the process itself can see it."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

# Of processor time. Whole runs take less; a step takes milliseconds.
_LOOK_SECONDS = 10.0


class EndlessStepError(KeyboardInterrupt):
    """Nothing has happened between two looks: a step of a loop does not end.

    A task keeps every other exception for whoever awaits it; this kind comes out of the loop at once.
    """


@contextmanager
def endless_steps_end(progress: Callable[[], object], look_seconds: float = _LOOK_SECONDS) -> Iterator[None]:
    """Raise EndlessStepError where `progress` stays the same between two looks; from the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen: object = None

    def look(_number: int, _frame: FrameType | None) -> None:
        nonlocal seen
        before, seen = seen, progress()
        if before == seen:
            raise EndlessStepError(f"nothing has happened since {seen}: a step of a loop does not end")

    former = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, look_seconds, look_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, former)
