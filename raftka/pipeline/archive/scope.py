"""Which offsets of a partition are verified, and which are only told of: pure arithmetic."""

from collections.abc import Sequence
from typing import NamedTuple

from raftka.pipeline.archive.blocks import Span, common, never_read
from raftka.pipeline.archive.records import OffsetRange
from raftka.pipeline.errors import PipelineError


class Scope(NamedTuple):
    """What of a partition is verified.

    Attributes:
        span: The range.
        beyond: Offsets of it that nobody has written yet: above the end of the log and of the archive.
        later: Offsets of the log behind the archive's end, where that end was not asked for.
        left_out: Offsets of the log below the pipeline's starting offsets.
        holes: Offsets that no batch was asked to read, and that the log no longer has.
        is_all: Whether all that the archive has lies in the range.
        is_archived: Whether the archive has anything of the partition.
        ends: Where archive and log end.
    """

    span: Span
    beyond: int
    later: int
    left_out: int
    holes: tuple[Span, ...]
    is_all: bool
    is_archived: bool
    ends: tuple[int, int]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to verify."""
        return self.span.offsets == self.beyond


def scope(ranges: Sequence[OffsetRange], begins: int | None, log: Span, begin: int | None, end: int | None) -> Scope:
    """Return what of a partition is verified.

    Without a begin that is where the pipeline was to begin, and where the archive does not know that, where the log
    does: what lies below was left out on purpose, what lies above was not. Without an end it is where the archive ends,
    for it follows a log that grows; what retention took before it came is not behind its end but lost, and a partition
    of which it has nothing is not one that it follows.

    Args:
        ranges: What batches have read, in order.
        begins: Where the archive was to begin; None: it does not know.
        log: What the log has.
        begin: As it was asked for, and taken as it is.
        end: As well.
    """
    archive_end = ranges[-1].end if ranges else 0
    if begin is None:
        begin = min([log.begin if begins is None else begins, *(each.begin for each in ranges[:1])])
        left_out = common(log, Span(0, begin)).offsets
    else:
        left_out = 0
    later = 0
    if end is None:
        end = max(archive_end, log.begin) if ranges else log.end
        later = common(log, Span(end, log.end)).offsets
    span = Span(begin, max(begin, end))
    return Scope(
        span=span,
        beyond=max(0, span.end - max(span.begin, log.end, archive_end)),
        later=later,
        left_out=left_out,
        holes=tuple(never_read(ranges, common(span, Span(0, log.begin)))),
        is_all=not ranges or (span.begin <= ranges[0].begin and span.end >= archive_end),
        is_archived=bool(ranges),
        ends=(archive_end, log.end),
    )


def refuse_inverted(begin: int | None, end: int | None) -> None:
    """Refuse a range in which no offset can be.

    Raises:
        PipelineError: It is one.
    """
    if end is not None and (begin or 0) >= end:
        raise PipelineError(f"no offset is from {begin or 0} on and before {end}: the range is empty")


def refuse_nowhere(begin: int | None, end: int | None, scopes: Sequence[Scope]) -> None:
    """Refuse a range that was asked for and lies above all that there is: nothing would be proven.

    Raises:
        PipelineError: It does, in every partition.
    """
    if (begin, end) == (None, None) or not all(each.is_empty for each in scopes):
        return
    archive, log = (max((each.ends[side] for each in scopes), default=0) for side in (0, 1))
    until = "on" if end is None else f"to {end - 1}"
    raise PipelineError(
        f"nothing can be verified from {begin or 0} {until}: the archive ends before {archive}, the log before {log}"
    )
