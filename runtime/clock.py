"""Wall-clock time, used only for record timestamps, retention and expiry (design: four seams)."""

import time
from typing import Protocol


class WallClock(Protocol):
    """Milliseconds since the epoch; may jump in either direction."""

    def now_ms(self) -> int:
        """Return the wall-clock time in milliseconds since 1970-01-01 UTC."""
        ...


class SystemWallClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return the wall-clock time in milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000
