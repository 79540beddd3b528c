"""Signals that end no broker, from the first moment of its process on.

By default SIGHUP, SIGUSR1 and SIGUSR2 end a process. A broker has handlers for them once its packages are imported,
which takes a second. Whoever starts it blocks them (the process inherits that, without a gap), and its first step is to
ignore them.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

HARMLESS_SIGNALS = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


@contextmanager
def harmless_signals_blocked() -> Iterator[None]:
    """Block them in this thread, and in the process that it starts or becomes meanwhile."""
    # A mask, not SIG_IGN: it is the thread's own, so the handlers of a process that goes on stay what they are.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HARMLESS_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_harmless_signals() -> None:
    """Ignore them in this process, those that wait among them, until it has handlers; block none of them."""
    for number in HARMLESS_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HARMLESS_SIGNALS)
