"""How far long work is, on a terminal; anywhere else nothing is drawn."""

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

_REDRAW_SECONDS = 0.1
# Seconds are all that such a line counts.
_TICK_SECONDS = 1.0
_BAR_COLUMNS = 24
STARTING_SPARK = "starting Spark"
# The cursor to the first column, and the line cleared.
_CLEAR = "\r\x1b[K"


class ProgressBar:
    """A line on stderr that says how much is done, how fast, and how long the rest will take.

    Args:
        unit: What is counted, as in `records`; `bytes` are shown as MB, and `s` are seconds, which need no speed.
        total: How many there will be; None where nobody knows.
        is_wanted: False draws nothing on a terminal either, as when records are printed to the same one.
    """

    def __init__(self, unit: str, total: int | None, *, is_wanted: bool = True) -> None:
        self._unit = unit
        self._total = total
        self.is_shown = is_wanted and sys.stderr.isatty()
        self._began = self._drawn = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.clear()

    def show(self, done: int) -> None:
        """Say how much is done by now; cheap enough to be called for each record."""
        if not self.is_shown:
            return
        now = time.monotonic()
        if now - self._drawn < _REDRAW_SECONDS:
            return
        self._drawn = now
        _draw(progress_line(self._unit, done, self._total, now - self._began))

    def clear(self) -> None:
        """Take the line away, for something else to be written."""
        if self.is_shown:
            _draw("")


@contextmanager
def underway(what: str) -> Iterator[None]:
    """Say on a terminal what is being done, and for how long by now, where nobody knows how much of it there is.

    Args:
        what: As in `comparing the archive with the log`.
    """
    if not sys.stderr.isatty():
        yield
        return
    is_done = threading.Event()
    # What is waited for calls nothing that could draw meanwhile.
    clock = threading.Thread(target=_tick, args=(what, is_done), daemon=True)
    clock.start()
    try:
        yield
    finally:
        is_done.set()
        clock.join()
        _draw("")


def _tick(what: str, is_done: threading.Event) -> None:
    began = time.monotonic()
    while not is_done.is_set():
        _draw(f"{what}  {time.monotonic() - began:.0f} s")
        is_done.wait(_TICK_SECONDS)


def _draw(line: str) -> None:
    columns = shutil.get_terminal_size().columns
    sys.stderr.write(_CLEAR + line[: max(1, columns - 1)])
    sys.stderr.flush()


def progress_line(unit: str, done: int, total: int | None, seconds: float) -> str:
    """Return the words of a progress bar; `seconds` have passed."""
    speed = done / seconds if seconds > 0 else 0.0
    if unit == "bytes":
        amounts = f"{done / 1e6:,.1f} MB  {speed / 1e6:,.1f} MB/s"
    else:
        amounts = f"{done:,} {unit}  {speed:,.0f}/s"
    if not total:
        return amounts
    share = min(1.0, done / total)
    bar = ("#" * int(share * _BAR_COLUMNS)).ljust(_BAR_COLUMNS, ".")
    if unit == "s":
        return f"{share:4.0%} [{bar}] {done} of {total} s"
    rest = f"  {(total - done) / speed:.0f} s left" if speed and done < total else ""
    return f"{share:4.0%} [{bar}] {amounts}{rest}"
