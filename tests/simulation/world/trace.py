"""What happened: a running hash over all events, and the last ones in readable form."""

import hashlib
import marshal
from collections import deque
from typing import Protocol

# What marshal writes without looking at reference counts or identities.
Scalar = int | float | str | bytes | bool | None
Detail = Scalar | tuple[Scalar, ...]

_BATCH = 1024
# From version 3 on marshal's output depends on reference counts: equal events would hash differently.
_MARSHAL_VERSION = 2


class Clock(Protocol):
    """What the trace needs of the scheduler: virtual seconds."""

    time: float


class Trace:
    """Two runs did the same, in the same order and at the same virtual instants, iff their digests are equal."""

    __slots__ = ("_batch", "_clock", "_count", "_hash", "_recent")

    def __init__(self, clock: Clock, recent: int = 2000) -> None:
        self._clock = clock
        self._hash = hashlib.blake2b(digest_size=16)
        self._recent: deque[tuple[float, str, int | None, Detail]] = deque(maxlen=recent)
        self._batch: list[tuple[float, str, int | None, Detail]] = []
        self._count = 0

    def record(self, kind: str, node: int | None, detail: Detail) -> None:
        """Add an event. `detail` holds plain scalars only: no object whose bytes depend on an address."""
        event = (self._clock.time, kind, node, detail)
        self._recent.append(event)
        self._batch.append(event)
        self._count += 1
        if len(self._batch) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        # Each event is marshalled by itself: where a batch ends is not to be seen in the digest.
        self._hash.update(b"".join([marshal.dumps(event, _MARSHAL_VERSION) for event in self._batch]))
        self._batch.clear()

    @property
    def count(self) -> int:
        """Events recorded so far."""
        return self._count

    @property
    def hexdigest(self) -> str:
        """Hash of all events so far, as 32 hex digits."""
        self._flush()
        return self._hash.hexdigest()

    def lines(self) -> list[str]:
        """Return the last events, oldest first."""
        return [
            f"{time:12.6f} {'-' if node is None else node:>3} {kind:<10} {detail!r}"
            for time, kind, node, detail in self._recent
        ]
