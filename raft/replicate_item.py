"""One `replicate` call on its way through the batcher."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from model.ids import ConsistencyLevel, Index, Offset, Term
from raft.errors import RaftError
from raft.replica_counts import ReplicaCounts
from storage.entry import EntryKind


class NewEntry(NamedTuple):
    """An entry that has no place in the log yet.

    `payload` belongs to the engine from the call on: a data payload (a Kafka v2 batch) is stamped in place with its
    base offset and leader epoch, so it must be a bytearray that nobody else writes to.

    `guard` is what the group's log state compares when the entry gets its place (RFC 0021, section 4). An entry of a
    transaction is `is_durable`: at quorum_ack it waits for fsyncs, whatever the topic says of its other data. A marker
    `is_urgent`, too: it goes on where producers are held back, or refused for a full disk.
    """

    kind: EntryKind
    payload: bytearray | bytes
    record_count: int
    guard: int | None = None
    is_durable: bool = False
    is_urgent: bool = False


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
    """Entries, level and stages of one call. Ends exactly once, and is counted then."""

    __slots__ = (
        "_began",
        "_counts",
        "_timer",
        "asks_flush",
        "entries",
        "expected_term",
        "is_data",
        "is_durable",
        "is_urgent",
        "kind",
        "level",
        "result",
        "size",
        "stages",
        "units",
    )

    def __init__(
        self,
        entries: Sequence[NewEntry],
        level: ConsistencyLevel,
        expected_term: Term | None,
        counts: ReplicaCounts | None = None,
    ) -> None:
        assert entries
        loop = asyncio.get_running_loop()
        self.entries = entries
        self.level = level
        self.expected_term = expected_term
        self.stages = ReplicateStages(loop.create_future(), loop.create_future())
        # No caller mixes kinds.
        self.kind = entries[0].kind
        self.is_data = self.kind is EntryKind.DATA
        self.is_durable, self.is_urgent = entries[0].is_durable, entries[0].is_urgent
        # Nearly every call has one entry, and a generator costs more than the rest of this line.
        self.size = len(entries[0].payload) if len(entries) == 1 else sum(len(entry.payload) for entry in entries)
        self.units = 0
        # Whether the answer waits for fsyncs, as it was decided when the entries got their place.
        self.asks_flush = level is ConsistencyLevel.QUORUM_ACK
        self.result: ReplicateResult | None = None
        self._timer: asyncio.TimerHandle | None = None
        # Nobody waits for a call at no_ack: what it takes says nothing.
        self._counts = None if level is ConsistencyLevel.NO_ACK else counts
        self._began = loop.time()

    @property
    def is_done(self) -> bool:
        """Whether the caller has been told."""
        return self.stages.replicated.done()

    def expire_with(self, timer: asyncio.TimerHandle) -> None:
        """Keep the timer of the call's deadline, to cancel it at the end."""
        self._timer = timer

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
            if self._counts is not None:
                now = self.stages.replicated.get_loop().time()
                self._counts.replicated(self.level, self.kind, now - self._began, now)
            self.stages.replicated.set_result(self.result)
        self._end()

    def fail(self, error: RaftError) -> None:
        """Tell the caller; a caller that does not listen (acks=0) leaves no trace in the logs."""
        if not self.is_done:
            if self._counts is not None:
                self._counts.replicate_failed(self.level, self.kind)
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
