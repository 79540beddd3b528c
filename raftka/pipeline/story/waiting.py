"""Waits with a deadline, for conditions that are asked again and again."""

import time
from collections.abc import Callable
from typing import TypeVar

from raftka.kafka.errors import KafkaClientError

# Nothing here takes that long, on a machine that is not busy with other things.
DEADLINE_SECONDS = 300.0
_POLL_SECONDS = 0.2

T = TypeVar("T")


class StoryError(Exception):
    """The story could not go on, or what it is to prove is not so; in words for the reader."""


def eventually(what: str, probe: Callable[[], T | None], seconds: float = DEADLINE_SECONDS) -> T:
    """Return the first answer of `probe` that is not None; brokers that do not answer it are asked again.

    Raises:
        StoryError: There was none in time; `what` was waited for.
    """
    deadline = time.monotonic() + seconds
    why = ""
    while True:
        try:
            if (found := probe()) is not None:
                return found
            why = ""
        except KafkaClientError as error:
            why = f" ({error})"
        if time.monotonic() >= deadline:
            raise StoryError(f"not within {seconds:.0f} s: {what}{why}")
        time.sleep(_POLL_SECONDS)


def pass_time(seconds: float, check: Callable[[], None]) -> None:
    """Let the load and the brokers do what they do for a while; `check` raises if something has ended meanwhile."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        check()
        time.sleep(min(left, _POLL_SECONDS))
