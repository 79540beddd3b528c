"""What comparing an archive with a log comes to: counts, faults, a verdict. Pure arithmetic."""

from enum import StrEnum

import msgspec

from raftka.pipeline.archive.blocks import Span, common
from raftka.pipeline.archive.gaps import Cause, Gaps, Told
from raftka.pipeline.archive.scope import Scope

Partition = tuple[str, int]


class FaultKind(StrEnum):
    """What is wrong with offsets of an archive; only COMPACTED is no fault."""

    MISSING = "missing"
    DUPLICATED = "duplicated"
    DIFFERENT = "different"
    DAMAGED = "damaged"
    SURPLUS = "surplus"
    COMPACTED = "compacted"
    HOLE = "hole"
    UNEXPLAINED = "unexplained"
    FORMER = "former"
    ROWS = "rows"
    FILES = "files"
    UNREADABLE = "unreadable"


WORDS = {
    FaultKind.MISSING: "in the log and not in the archive",
    FaultKind.DUPLICATED: "more than once in the archive",
    FaultKind.DIFFERENT: "with another value, key, timestamp or headers in the log",
    FaultKind.DAMAGED: "with a value that does not have the CRC32C it was archived with",
    FaultKind.SURPLUS: "in the archive and not in the log, and no later record of the key explains that",
    FaultKind.COMPACTED: "in the archive and compacted away in the log",
    FaultKind.HOLE: "never read by a batch, and no longer in the log",
    FaultKind.UNEXPLAINED: "without a record on either side, and nothing in the log says why",
    FaultKind.FORMER: "topics of which the archive has a former one",
    FaultKind.ROWS: "records more or fewer in the files than in their commit records",
    FaultKind.FILES: "files that no commit record has, or that are gone",
    FaultKind.UNREADABLE: "files that cannot be read",
}


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets with which the same thing is wrong.

    Attributes:
        count: How many.
        first: The lowest; None where offsets are not the point.
        last: The highest; those between may be in order.
        path: The file, of one that cannot be read.
        why: What is wrong, in words, where a number says too little.
    """

    kind: FaultKind
    count: int
    first: int | None = None
    last: int | None = None
    path: str | None = None
    why: str | None = None


class PartitionFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One partition.

    Attributes:
        begin: First offset of the range that was verified.
        end: The offset behind it.
        proven: Offsets that are in the archive once, with the CRC32C that their value has in the log, and the same key,
            timestamp and headers.
        expired: Offsets that the log no longer has; they are there once, with the CRC32C they were archived with.
        gaps: Offsets that neither side has, by their cause; without one they are a fault.
        compacted: Offsets that the log has compacted away since: each has a later record of its key, or deletes its key
            and is old, or has no key. They are there once, with the CRC32C as above.
        beyond: Offsets of the range that are not written yet.
        later: Offsets of the log behind the archive's end: no part of the range.
        left_out: Offsets of the log before the pipeline's starting offsets: no part of the range.
        is_archived: Whether the archive has anything of it.
        bytes: Size of the values in the archive.
    """

    topic: str
    partition: int
    begin: int
    end: int
    proven: int
    expired: int
    gaps: Gaps
    compacted: int
    beyond: int
    later: int
    left_out: int
    is_archived: bool
    bytes: int
    faults: list[Fault]

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """All partitions, and what is wrong with the archive's folder as a whole."""

    partitions: list[PartitionFinding]
    faults: list[Fault]
    seconds: float

    @property
    def is_whole(self) -> bool:
        """Whether every offset is proven or explained."""
        return not self.faults and all(each.is_whole for each in self.partitions)


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """What comparing record by record has found.

    Attributes:
        kind: MISSING, DUPLICATED, DIFFERENT, DAMAGED, SURPLUS or COMPACTED.
        offsets: How many offsets.
        rows: How many records the archive has of them.
        first: Lowest offset.
        last: Highest offset.
    """

    kind: FaultKind
    offsets: int
    rows: int
    first: int
    last: int


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """What has been counted of a partition.

    Attributes:
        scope: The range that is verified, and what lies around it.
        log_begin: First offset that the log still has.
        recorded: Records of the range, by the commit records; None where the range cuts a batch.
        archived: Records in the files, of the range.
        expired: ... of which lie below the log's start.
        expired_distinct: Different offsets of those.
        expired_damaged: How many of those have a value that does not fit its CRC32C.
        bytes: Size of the values.
        differences: What comparing with the log has found.
        told: What the log says of offsets that neither side has.
    """

    scope: Scope
    log_begin: int
    recorded: int | None = None
    archived: int = 0
    expired: int = 0
    expired_distinct: int = 0
    expired_damaged: int = 0
    bytes: int = 0
    differences: tuple[Difference, ...] = ()
    told: tuple[Told, ...] = ()


def unrecorded(tally: Tally) -> int:
    """Return of how many offsets neither side has a record, in what the log still has: it can tell why."""
    below = common(tally.scope.span, Span(0, tally.log_begin)).offsets
    return max(0, _without_record(tally) - max(0, below - tally.expired_distinct - _in_holes(tally)))


def conclude(partition: Partition, tally: Tally) -> PartitionFinding:
    """Return what the counts of a partition mean."""
    told = {each.cause: each.offsets for each in tally.told}
    span = tally.scope.span
    return PartitionFinding(
        topic=partition[0],
        partition=partition[1],
        begin=span.begin,
        end=span.end,
        proven=_proven(tally),
        expired=tally.expired_distinct - tally.expired_damaged,
        gaps=Gaps(
            control=told.get(Cause.CONTROL, 0),
            aborted=told.get(Cause.ABORTED, 0),
            compacted=told.get(Cause.COMPACTED, 0),
            # Below the log's start a batch was asked to read them, and had nothing there.
            expired=told.get(Cause.EXPIRED, 0) + _without_record(tally) - unrecorded(tally),
        ),
        compacted=sum(each.offsets for each in tally.differences if each.kind is FaultKind.COMPACTED),
        beyond=tally.scope.beyond,
        later=tally.scope.later,
        left_out=tally.scope.left_out,
        is_archived=tally.scope.is_archived,
        bytes=tally.bytes,
        faults=_faults(tally),
    )


def _proven(tally: Tally) -> int:
    return tally.archived - tally.expired - sum(each.rows for each in tally.differences)


def _in_holes(tally: Tally) -> int:
    return sum(hole.offsets for hole in tally.scope.holes)


def _without_record(tally: Tally) -> int:
    """Return of how many offsets neither side has a record."""
    known = tally.scope.beyond + tally.expired_distinct + _proven(tally) + _in_holes(tally)
    return max(0, tally.scope.span.offsets - known - sum(each.offsets for each in tally.differences))


def _faults(tally: Tally) -> list[Fault]:
    faults = [
        Fault(kind=each.kind, count=each.offsets, first=each.first, last=each.last)
        for each in tally.differences
        if each.kind is not FaultKind.COMPACTED
    ]
    span = tally.scope.span
    first, last = span.begin, max(span.begin, min(tally.log_begin, span.end) - 1)
    if again := tally.expired - tally.expired_distinct:
        faults.append(Fault(kind=FaultKind.DUPLICATED, count=again, first=first, last=last))
    if tally.expired_damaged:
        faults.append(Fault(kind=FaultKind.DAMAGED, count=tally.expired_damaged, first=first, last=last))
    faults += [
        Fault(kind=FaultKind.HOLE, count=hole.offsets, first=hole.begin, last=hole.end - 1)
        for hole in tally.scope.holes
    ]
    faults += _gap_faults(tally)
    if tally.recorded is not None and tally.recorded != tally.archived:
        faults.append(Fault(kind=FaultKind.ROWS, count=abs(tally.recorded - tally.archived)))
    return faults


def _gap_faults(tally: Tally) -> list[Fault]:
    told = {each.cause: each for each in tally.told}
    faults = []
    if skipped := told.get(Cause.RECORD):
        # Spark has left them out when it archived, and again when it read the log for this.
        faults.append(Fault(kind=FaultKind.MISSING, count=skipped.offsets, first=skipped.first, last=skipped.last))
    if unknown := told.get(Cause.UNKNOWN):
        faults.append(Fault(kind=FaultKind.UNEXPLAINED, count=unknown.offsets, first=unknown.first, last=unknown.last))
    # Nobody has looked at these: above the log's end, or more than were found one by one.
    if left := max(0, unrecorded(tally) - sum(each.offsets for each in tally.told)):
        faults.append(Fault(kind=FaultKind.UNEXPLAINED, count=left))
    return faults


def render(verification: Verification) -> list[str]:
    """Return lines for a person."""
    lines = []
    for each in verification.partitions:
        parts, gaps = [f"{each.proven:,} proven"], each.gaps
        parts += [f"{each.expired:,} no longer in the log"] if each.expired else []
        parts += [f"{each.compacted:,} compacted away in the log"] if each.compacted else []
        parts += [f"{gaps.offsets:,} offsets without a record ({_by_cause(gaps)})"] if gaps.offsets else []
        parts += [f"{each.beyond:,} not written yet"] if each.beyond else []
        parts += [f"{each.left_out:,} before it left out by the starting offsets"] if each.left_out else []
        parts += [f"{each.later:,} behind it in the log, not archived yet"] if each.later else []
        parts += [] if each.is_archived else ["nothing of this partition is archived"]
        verdict = "whole" if each.is_whole else "NOT WHOLE"
        lines.append(f"{each.topic}-{each.partition} [{each.begin}, {each.end}): {verdict}: {', '.join(parts)}")
        lines += [f"  {_line(fault)}" for fault in each.faults]
    lines += [_line(fault) for fault in verification.faults]
    proven = sum(each.proven for each in verification.partitions)
    size = sum(each.bytes for each in verification.partitions)
    rate = size / verification.seconds / 1e6 if verification.seconds > 0 else 0.0
    verdict = "the archive is whole" if verification.is_whole else "the archive is NOT whole"
    lines.append(
        f"{verdict}: {proven:,} offsets proven, {size:,} bytes in {verification.seconds:.1f} s ({rate:,.1f} MB/s)"
    )
    return lines


def _by_cause(gaps: Gaps) -> str:
    words = {
        "control records": gaps.control,
        "of aborted transactions": gaps.aborted,
        "compacted away": gaps.compacted,
        "no longer in the log": gaps.expired,
    }
    return ", ".join(f"{count:,} {what}" for what, count in words.items() if count)


def _line(fault: Fault) -> str:
    if fault.why is not None:
        return f"{fault.kind.value}: {fault.why}"
    if fault.path is not None:
        return f"{fault.kind.value}: file {fault.path} cannot be read"
    where = "" if fault.first is None else f", from {fault.first} to {fault.last}"
    return f"{fault.kind.value}: {fault.count:,} {WORDS[fault.kind]}{where}"
