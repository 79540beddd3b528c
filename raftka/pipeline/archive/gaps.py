"""Why offsets have no record, on neither side: what the log's own batches say of each. Pure: batches in, causes out."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from itertools import groupby
from typing import NamedTuple

import msgspec

from raftka.kafka.wire.fields import AnswerError
from raftka.kafka.wire.record_batches import BatchLayout
from raftka.pipeline.archive.blocks import Span


class Cause(StrEnum):
    """Why an offset has no record in the archive, and none in what Spark reads of the log.

    The last two are faults: the log has a record there, which Spark has left out twice; or nothing says why.
    """

    CONTROL = "control"
    ABORTED = "aborted"
    COMPACTED = "compacted"
    EXPIRED = "expired"
    RECORD = "record"
    UNKNOWN = "unknown"


class Gaps(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets that both sides have no record of, by cause: those that are in order.

    Attributes:
        control: Marks of the brokers' own, at the end of transactions.
        aborted: Records of transactions that were aborted, of which read_committed sees nothing.
        compacted: Compacted away before the archive read them.
        expired: The log begins behind them by now: nobody can tell.
    """

    control: int = 0
    aborted: int = 0
    compacted: int = 0
    expired: int = 0

    @property
    def offsets(self) -> int:
        """How many there are."""
        return self.control + self.aborted + self.compacted + self.expired


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets of a partition that have no record for the same cause; not all between first and last."""

    cause: Cause
    offsets: int
    first: int
    last: int


class Piece(NamedTuple):
    """A part of a log, from the offset that it was asked for on.

    Attributes:
        batches: In order; the first may begin before that offset.
        end: What lies before it is in the batches. Not above the offset that was asked for: nothing could be read.
        is_gone: Whether the log begins at `end`.
    """

    batches: list[BatchLayout]
    end: int
    is_gone: bool = False


def causes(gaps: Iterable[Span], read: Callable[[int], Piece], *, is_compacted: bool) -> Iterator[tuple[Cause, Span]]:
    """Yield the cause of each offset of these gaps.

    Args:
        gaps: In order, and apart from each other.
        read: Returns a piece of the log; it is called with offsets in ascending order, and only for gaps.
        is_compacted: Whether the topic's log may lose records to compaction.
    """
    nothing = Cause.COMPACTED if is_compacted else Cause.UNKNOWN
    batches: deque[BatchLayout] = deque()
    piece, is_stuck = Piece([], 0), False
    for gap in gaps:
        at = gap.begin
        while at < gap.end:
            if at >= piece.end and not is_stuck:
                piece = read(at)
                batches = deque(piece.batches)
                # What cannot be read here is not asked for again at each of the gaps behind.
                is_stuck = piece.end <= at
            while batches and batches[0].end <= at:
                batches.popleft()
            if is_stuck:
                until = gap.end
                yield Cause.UNKNOWN, Span(at, until)
            elif not batches or batches[0].begin > at:
                until = min(gap.end, batches[0].begin if batches else piece.end)
                yield Cause.EXPIRED if piece.is_gone else nothing, Span(at, until)
            else:
                until = min(gap.end, batches[0].end)
                yield from _within(batches[0], Span(at, until), nothing)
            at = until


def _within(batch: BatchLayout, span: Span, nothing: Cause) -> Iterator[tuple[Cause, Span]]:
    if batch.is_control or batch.is_aborted:
        yield Cause.CONTROL if batch.is_control else Cause.ABORTED, span
        return
    try:
        held = batch.offsets()
    except AnswerError:
        yield Cause.UNKNOWN, span
        return
    for is_held, group in groupby(range(span.begin, span.end), held.__contains__):
        offsets = list(group)
        yield Cause.RECORD if is_held else nothing, Span(offsets[0], offsets[-1] + 1)


def tallied(found: Iterable[tuple[Cause, Span]]) -> tuple[Told, ...]:
    """Return the sums of what `causes` yields, by cause."""
    sums: dict[Cause, Told] = {}
    for cause, span in found:
        before = sums.get(cause)
        sums[cause] = Told(
            cause=cause,
            offsets=span.offsets + (before.offsets if before else 0),
            first=before.first if before else span.begin,
            last=span.end - 1,
        )
    return tuple(sums[cause] for cause in Cause if cause in sums)
