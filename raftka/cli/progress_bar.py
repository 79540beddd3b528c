"""How far long work is, on a terminal; anywhere else nothing is drawn."""

import shutil
import sys
import time
from types import TracebackType
from typing import Self

_REDRAW_SECONDS = 0.1
_BAR_COLUMNS = 24
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
        line = progress_line(self._unit, done, self._total, now - self._began)
        columns = shutil.get_terminal_size().columns
        sys.stderr.write(_CLEAR + line[: max(1, columns - 1)])
        sys.stderr.flush()

    def clear(self) -> None:
        """Take the line away, for something else to be written."""
        if self.is_shown:
            sys.stderr.write(_CLEAR)
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
