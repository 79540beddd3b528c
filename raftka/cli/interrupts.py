"""Ctrl-C while modules are imported, where a traceback tells nobody anything; SIGTERM that ends work like Ctrl-C."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from raftka.cli.exit_codes import INTERRUPTED


@contextmanager
def quiet_ctrl_c() -> Iterator[None]:
    """End the process at once and without a word if Ctrl-C comes inside.

    Somebody who starts us with Ctrl-C ignored, as nohup and `&` in a script do, means it, and a handler that a command
    has set stays as well.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt inside, so that what would clean up after Ctrl-C does.

    Somebody who starts us with SIGTERM ignored means it.
    """
    before = signal.getsignal(signal.SIGTERM)
    if before is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
