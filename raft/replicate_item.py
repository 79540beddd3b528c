"""One `replicate` call on its way through the batcher."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from model.duration_histogram import DurationHistogram
from model.ids import ConsistencyLevel, Index, Offset, Term
from raft.errors import RaftError
from storage.entry import EntryKind


class NewEntry(NamedTuple):
    """An entry that has no place in the log yet.

    `payload` belongs to the engine from the call on: a data payload (a Kafka v2 batch) is stamped in place with its
    base offset and leader epoch, so it must be a bytearray that nobody else writes to.
    """

    kind: EntryKind
    payload: bytearray | bytes
    record_count: int


class ReplicateResult(NamedTuple):
    """Where the entries of one call went: indexes inclusive, `base_offset` of the first record, `term` = epoch.

    Of a duplicate it is where the original went, and `original_timestamp` the largest one in the original.
    """

    first_index: Index
    last_index: Index
    base_offset: Offset
    term: Term
    original_timestamp: int | None = None


class ReplicateStages(NamedTuple):
    """Two moments of one replicate call.

    Attributes:
        enqueued: Done once the entries have a fixed place in the order; the caller may then read its next request.
            Never fails: a call that is refused ends both stages, this one without an error.
        replicated: The result once the level is reached, or a RaftError.
    """

    enqueued: asyncio.Future[None]
    replicated: asyncio.Future[ReplicateResult]


class ReplicateItem:
    """Entries, level and stages of one call. Ends exactly once."""

    __slots__ = (
        "_began",
        "_durations",
        "_timer",
        "asks_flush",
        "entries",
        "expected_term",
        "is_data",
        "level",
        "result",
        "size",
        "stages",
        "units",
    )

    def __init__(self, entries: Sequence[NewEntry], level: ConsistencyLevel, expected_term: Term | None) -> None:
        assert entries
        loop = asyncio.get_running_loop()
        self.entries = entries
        self.level = level
        self.expected_term = expected_term
        self.size = sum(len(entry.payload) for entry in entries)
        self.stages = ReplicateStages(loop.create_future(), loop.create_future())
        self.is_data = all(entry.kind is EntryKind.DATA for entry in entries)
        self.units = 0
        # Whether the answer waits for fsyncs, as it was decided when the entries got their place.
        self.asks_flush = level is ConsistencyLevel.QUORUM_ACK
        self.result: ReplicateResult | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._began = 0.0
        self._durations: DurationHistogram | None = None

    @property
    def is_done(self) -> bool:
        """Whether the caller has been told."""
        return self.stages.replicated.done()

    def expire_with(self, timer: asyncio.TimerHandle) -> None:
        """Keep the timer of the call's deadline, to cancel it at the end."""
        self._timer = timer

    def measure(self, durations: DurationHistogram | None) -> None:
        """Count how long it takes from now on, if it ends well."""
        self._began, self._durations = self._now(), durations

    def _now(self) -> float:
        return self.stages.replicated.get_loop().time()

    def drop_entries(self) -> None:
        """The log has them: an item that waits for its answer keeps no batch in memory."""
        self.entries = ()

    def mark_enqueued(self) -> None:
        """The place in the order is fixed."""
        if not self.stages.enqueued.done():
            self.stages.enqueued.set_result(None)

    def succeed(self) -> None:
        """The level is reached."""
        assert self.result is not None
        if not self.is_done:
            if self._durations is not None:
                self._durations.observe(self._now() - self._began)
            self.stages.replicated.set_result(self.result)
        self._end()

    def fail(self, error: RaftError) -> None:
        """Tell the caller; a caller that does not listen (acks=0) leaves no trace in the logs."""
        if not self.is_done:
            self.stages.replicated.set_exception(error)
            self.stages.replicated.exception()
        self._end()

    def _end(self) -> None:
        self.mark_enqueued()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def refused_stages(error: RaftError) -> ReplicateStages:
    """Return the stages of a call that was refused at once."""
    loop = asyncio.get_running_loop()
    stages = ReplicateStages(loop.create_future(), loop.create_future())
    stages.enqueued.set_result(None)
    stages.replicated.set_exception(error)
    stages.replicated.exception()
    return stages
