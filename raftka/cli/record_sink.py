"""Where consumed records go: stdout, in bytes that a format made of them."""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from raftka.cli.progress_bar import ProgressBar

if TYPE_CHECKING:
    from confluent_kafka import Message

# How long a printed record may wait for more of them before whoever reads our output gets it.
_FLUSH_SECONDS = 0.2


class RecordSink:
    """Prints records and counts them.

    Attributes:
        printed: How many records there were.
    """

    def __init__(self, render: Callable[["Message"], bytes], bar: ProgressBar) -> None:
        self._render = render
        self._bar = bar
        self.printed = 0
        self._flushed_at = time.monotonic()

    def print(self, message: "Message") -> None:
        """Print one record; `flush` brings it to whoever reads our output."""
        sys.stdout.buffer.write(self._render(message))
        self.printed += 1
        self._bar.show(self.printed)

    @property
    def is_due(self) -> bool:
        """Whether it is time to `flush`: in a steady stream too nobody waits for long."""
        return time.monotonic() - self._flushed_at >= _FLUSH_SECONDS

    def flush(self) -> None:
        """Let whoever reads our output have what there is."""
        sys.stdout.flush()
        self._flushed_at = time.monotonic()

    def warn(self, words: str) -> None:
        """Say something on stderr."""
        self._bar.clear()
        print(f"raftka: {words}", file=sys.stderr)
