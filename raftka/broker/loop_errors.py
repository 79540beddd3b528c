"""What asyncio reports of its own accord: what ends the broker, and what it survives."""

import asyncio
import errno
import logging
from collections.abc import Callable
from typing import Any

from model.error_text import reason_of
from runtime.gate import CONTAINED

_logger = logging.getLogger("broker")

# accept() finds no room for one more socket; asyncio tries again a second later by itself.
_OUT_OF_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_SECONDS_BETWEEN_LINES = 60.0


class LoopErrors:
    """The loop's exception handler.

    The death of a background task, and whatever else nobody foresaw, ends the broker: a part of it does not run any
    more. What ended one replica only (`report_contained`) is said in full, and the broker goes on. So it does where a
    connection could not be accepted, which is said at most once a minute.

    Attributes:
        died: What ended the broker, in words.
    """

    def __init__(self, on_death: Callable[[], None]) -> None:
        self._on_death = on_death
        self._last_line: float | None = None
        self.died: list[str] = []

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Take what `loop.call_exception_handler` was called with."""
        error: Any = context.get("exception")
        if _is_refused_accept(context):
            self._say_refused(loop.time(), error)
            return
        _logger.critical("%s", context.get("message"), exc_info=error)
        if context.get(CONTAINED):
            return
        self.died.append(str(context.get("message")))
        self._on_death()

    def _say_refused(self, now: float, error: BaseException) -> None:
        if self._last_line is not None and now - self._last_line < _SECONDS_BETWEEN_LINES:
            return
        self._last_line = now
        _logger.error("connections wait, because no more can be accepted (%s): raise `ulimit -n`", reason_of(error))


def _is_refused_accept(context: dict[str, Any]) -> bool:
    """Return whether a listener, and no task, ran out of descriptors or of the kernel's memory."""
    error = context.get("exception")
    is_listener = "socket" in context and "task" not in context and "transport" not in context
    return is_listener and isinstance(error, OSError) and error.errno in _OUT_OF_ROOM
