"""Clients that end with an error that nobody has thought of: a run without them proves less than it says."""

import threading
from types import TracebackType


class DeadThreads:
    """A context manager. Threads that end with an error meanwhile are noted, and told as they were before.

    Attributes:
        problems: A line for each.
    """

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._before = threading.excepthook

    def __enter__(self) -> "DeadThreads":
        self._before = threading.excepthook
        threading.excepthook = self._note
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        threading.excepthook = self._before

    def _note(self, died: threading.ExceptHookArgs) -> None:
        name = "a thread" if died.thread is None else died.thread.name
        self.problems.append(f"{name} of the run itself died: {died.exc_type.__name__}: {died.exc_value}")
        self._before(died)
