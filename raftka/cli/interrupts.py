"""Ctrl-C while modules are imported, where a traceback tells nobody anything; signals that end work or its input."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Never, TypeVar

from raftka.cli.exit_codes import INTERRUPTED

_Result = TypeVar("_Result")


class TerminatedError(KeyboardInterrupt):
    """SIGTERM, for those who tell it from Ctrl-C."""


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
    signal.signal(signal.SIGTERM, _raise_terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _raise_terminated(*_: object) -> Never:
    raise TerminatedError


class InputEnd:
    """Ctrl-C and SIGTERM as the end of what is read.

    An exception that a signal raises wherever the program happens to be is lost in the callbacks of librdkafka, and a
    record on its way with it. So it comes only out of `call`, which is for what waits for input; anywhere else a signal
    is counted and looked at later.
    """

    def __init__(self) -> None:
        self._signals = 0
        self._patience = 1
        self._is_reading = False

    @property
    def is_reached(self) -> bool:
        """Whether a signal has come."""
        return self._signals > 0

    @property
    def is_urgent(self) -> bool:
        """Whether somebody does not want to wait for what was read: a signal has come after the end of the input."""
        return self._signals > self._patience

    def reach(self) -> None:
        """Nothing more is read; the next signal does not want to wait, also where none has come before."""
        self._patience = min(self._signals, 1)

    def call(self, read: Callable[..., _Result], *arguments: Any) -> _Result:
        """Return what `read` returns.

        Raises:
            KeyboardInterrupt: A signal has come, before or meanwhile.
        """
        self._is_reading = True
        try:
            if self._signals:
                raise KeyboardInterrupt
            return read(*arguments)
        finally:
            self._is_reading = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Have signals noticed inside; those that we were started without stay ignored."""
        defaults = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
        before = {number: signal.getsignal(number) for number in defaults}
        ours = [number for number, default in defaults.items() if before[number] is default]
        for number in ours:
            signal.signal(number, self._on_signal)
        try:
            yield
        finally:
            for number in ours:
                signal.signal(number, before[number])

    def _on_signal(self, *_: object) -> None:
        self._signals += 1
        # Never twice: the second could come where the first is being dealt with.
        if self._is_reading and self._signals == 1:
            raise KeyboardInterrupt
