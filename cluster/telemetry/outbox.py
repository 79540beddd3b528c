"""What one partition of `__raftka_telemetry` still has to take: batches of a few seconds, in order."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from cluster.telemetry.telemetry_batch import Sample, batches

# An election takes two seconds or three, and readers take what is ten seconds late (`watermark`, RFC 0015).
KEPT_SECONDS = 8.0
_BYTES_MAX = 4 * 1024 * 1024


class Part(NamedTuple):
    """One batch.

    Attributes:
        at_ms: Wall clock when its replicas were read.
        now: Loop time then.
    """

    samples: Sequence[Sample]
    at_ms: int
    now: float

    @property
    def size(self) -> int:
        """Bytes of its records."""
        return sum(len(each.record.key) + len(each.record.value or b"") for each in self.samples)


class Outbox:
    """One partition's; the first batch stays until it is taken or too old.

    Attributes:
        is_busy: Whether the first batch is on its way.
    """

    def __init__(self, bytes_max: int = _BYTES_MAX) -> None:
        self._parts: deque[Part] = deque()
        self._bytes = 0
        self._bytes_max = bytes_max
        self.is_busy = False

    def __len__(self) -> int:
        return len(self._parts)

    def add(self, samples: Sequence[Sample], at_ms: int, now: float) -> None:
        """Take what was read; what there is no room for goes into the replicas' next records."""
        for batch in batches(samples):
            part = Part(batch, at_ms, now)
            if self._parts and self._bytes + part.size > self._bytes_max:
                _put_back(part)
            else:
                self._parts.append(part)
                self._bytes += part.size

    def first(self, now: float) -> Part | None:
        """Return the batch whose turn it is, without those that are too old: they go into the next records."""
        while self._parts and self._parts[0].now < now - KEPT_SECONDS:
            _put_back(self._parts[0])
            self.drop_first()
        return self._parts[0] if self._parts else None

    def drop_first(self) -> None:
        """Forget the first batch."""
        self._bytes -= self._parts.popleft().size


def _put_back(part: Part) -> None:
    for sample in part.samples:
        sample.put_back()
