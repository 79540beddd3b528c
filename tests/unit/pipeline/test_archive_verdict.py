"""The arithmetic of `raftka archive verify`: sums of blocks, and what counts mean."""

from typing import Any

import msgspec
import pytest

from raftka.pipeline.archive.blocks import BLOCK_OFFSETS, Block, BlockSum, Span, common, differing, never_read, spans
from raftka.pipeline.archive.findings import (
    Difference,
    Fault,
    FaultKind,
    PartitionFinding,
    Tally,
    Verification,
    conclude,
    render,
    unrecorded,
)
from raftka.pipeline.archive.gaps import Cause, Gaps, Told
from raftka.pipeline.archive.scope import scope
from tests.unit.pipeline.archives import offset_range

P = ("orders", 0)
SCOPE = scope([offset_range(0, 100)], 0, Span(0, 100), None, None)
WHOLE = Tally(scope=SCOPE, log_begin=0, recorded=100, archived=100, bytes=5_000)


def finding(holes: tuple[Span, ...] = (), **changes: Any) -> PartitionFinding:
    return conclude(P, msgspec.structs.replace(WHOLE, **{"scope": SCOPE._replace(holes=holes)} | changes))


def difference(kind: FaultKind, offsets: int, rows: int) -> Difference:
    return Difference(kind=kind, offsets=offsets, rows=rows, first=7, last=9)


def told(cause: Cause, offsets: int) -> Told:
    return Told(cause=cause, offsets=offsets, first=20, last=40)


MISSING = [("missing", 2, 20, 40)]
LEFT = [("unexplained", 1, None, None)]


def faults(found: PartitionFinding) -> list[tuple[str, int, int | None, int | None]]:
    return [(fault.kind.value, fault.count, fault.first, fault.last) for fault in found.faults]


def test_blocks_differ_in_numbers_digests_damage_or_when_one_side_has_none() -> None:
    same, other = BlockSum(5, 123), BlockSum(5, 124)
    archive = {Block(P, 0): same, Block(P, 1): same, Block(P, 2): BlockSum(5, 123, 1), Block(P, 3): same}
    log = {Block(P, 0): same, Block(P, 1): other, Block(P, 2): same, Block(P, 4): BlockSum(0, 0)}
    assert [block.number for block in differing(archive, log)] == [1, 2, 3]
    assert spans(differing(archive, log)) == {P: Span(BLOCK_OFFSETS, 4 * BLOCK_OFFSETS)}


def test_what_two_spans_share_may_be_nothing() -> None:
    assert common(Span(0, 10), Span(5, 20)) == Span(5, 10)
    assert common(Span(0, 10), Span(20, 30)).offsets == 0
    assert common(Span(20, 30), Span(0, 10)).offsets == 0


def test_what_no_batch_was_asked_to_read_is_a_hole_where_it_is_looked_for() -> None:
    ranges = [offset_range(0, 10), offset_range(10, 20, 5), offset_range(25, 30)]
    assert never_read(ranges, Span(0, 30)) == [Span(20, 25)]
    assert never_read(ranges, Span(0, 22)) == [Span(20, 22)]
    assert never_read(ranges, Span(0, 20)) == []
    assert never_read(ranges[1:], Span(5, 40)) == [Span(5, 10), Span(20, 25), Span(30, 40)]
    assert never_read([], Span(5, 40)) == [Span(5, 40)]
    assert never_read([], Span(5, 5)) == []


def test_a_partition_in_which_all_is_equal_is_whole() -> None:
    found = finding()
    assert found.is_whole
    assert (found.proven, found.expired, found.gaps, found.compacted) == (100, 0, Gaps(), 0)
    assert unrecorded(WHOLE) == 0


def test_offsets_without_a_record_on_both_sides_are_gaps_by_their_cause() -> None:
    causes = (told(Cause.CONTROL, 5), told(Cause.ABORTED, 3), told(Cause.COMPACTED, 2))
    found = finding(archived=90, recorded=90, told=causes)
    assert found.is_whole
    assert (found.proven, found.gaps) == (90, Gaps(control=5, aborted=3, compacted=2))


@pytest.mark.parametrize(
    ("causes", "expected"),
    [
        ((), [("unexplained", 10, None, None)]),
        ((told(Cause.CONTROL, 9),), [("unexplained", 1, None, None)]),
        ((told(Cause.CONTROL, 9), told(Cause.UNKNOWN, 1)), [("unexplained", 1, 20, 40)]),
        ((told(Cause.COMPACTED, 8), told(Cause.RECORD, 2)), [("missing", 2, 20, 40)]),
        ((told(Cause.RECORD, 2), told(Cause.UNKNOWN, 7)), [*MISSING, ("unexplained", 7, 20, 40), *LEFT]),
    ],
)
def test_an_offset_without_a_record_and_without_a_cause_is_a_fault(
    causes: tuple[Told, ...], expected: list[tuple[str, int, int | None, int | None]]
) -> None:
    found = finding(archived=90, recorded=90, told=causes)
    assert not found.is_whole
    assert faults(found) == expected
    assert found.proven == 90


def test_of_offsets_that_the_log_no_longer_has_nobody_can_tell_why_a_batch_had_no_record_there() -> None:
    gone = {"log_begin": 30, "expired": 25, "expired_distinct": 25, "archived": 93, "recorded": 93}
    assert unrecorded(msgspec.structs.replace(WHOLE, **gone)) == 2
    found = finding(**gone, told=(told(Cause.CONTROL, 1), told(Cause.EXPIRED, 1)))
    assert found.is_whole
    assert found.gaps == Gaps(control=1, expired=6)


@pytest.mark.parametrize(
    ("kind", "rows", "archived", "proven"),
    [
        (FaultKind.MISSING, 0, 98, 98),
        (FaultKind.DUPLICATED, 4, 102, 98),
        (FaultKind.DIFFERENT, 2, 100, 98),
        (FaultKind.DAMAGED, 2, 100, 98),
        (FaultKind.SURPLUS, 2, 100, 98),
    ],
)
def test_every_kind_of_difference_is_a_fault_and_what_it_touches_is_not_proven(
    kind: FaultKind, rows: int, archived: int, proven: int
) -> None:
    found = finding(archived=archived, recorded=archived, differences=(difference(kind, 2, rows),))
    assert faults(found) == [(kind.value, 2, 7, 9)]
    assert (found.proven, found.gaps) == (proven, Gaps())


def test_what_the_log_has_compacted_away_is_explained_and_not_proven() -> None:
    found = finding(differences=(difference(FaultKind.COMPACTED, 40, 40),))
    assert found.is_whole
    assert (found.proven, found.compacted, found.gaps) == (60, 40, Gaps())


def test_what_the_log_no_longer_has_is_held_against_records_and_checksums() -> None:
    gone = {"log_begin": 30, "expired": 30, "expired_distinct": 30}
    found = finding(**gone)
    assert found.is_whole
    assert (found.expired, found.proven) == (30, 70)
    assert faults(finding(**gone | {"expired_damaged": 2})) == [("damaged", 2, 0, 29)]
    twice = finding(**gone | {"expired": 31}, archived=101)
    assert faults(twice) == [("duplicated", 1, 0, 29), ("rows", 1, None, None)]
    hole = finding(**gone | {"expired": 20, "expired_distinct": 20}, archived=90, recorded=90, holes=(Span(10, 20),))
    assert faults(hole) == [("hole", 10, 10, 19)]
    assert (hole.expired, hole.proven, hole.gaps) == (20, 70, Gaps())


def test_files_with_fewer_records_than_committed_are_a_fault_and_a_part_of_a_range_is_not_held_against_them() -> None:
    assert faults(finding(recorded=101)) == [("rows", 1, None, None)]
    assert finding(recorded=None).is_whole


def test_a_person_is_told_what_is_proven_and_what_is_not() -> None:
    causes = (told(Cause.CONTROL, 5), told(Cause.ABORTED, 3), told(Cause.COMPACTED, 1), told(Cause.EXPIRED, 1))
    good = finding(archived=90, recorded=90, told=causes)
    bad = finding(archived=98, recorded=98, differences=(difference(FaultKind.MISSING, 2, 0),))
    whole = [
        Fault(kind=FaultKind.FORMER, count=1, why="topic orders was deleted and created again"),
        Fault(kind=FaultKind.FILES, count=1),
        Fault(kind=FaultKind.UNREADABLE, count=1, path="topic=orders/day=2026-01-01/a.parquet"),
    ]
    by_cause = "5 control records, 3 of aborted transactions, 1 compacted away, 1 no longer in the log"
    lines = render(Verification(partitions=[good, bad], faults=whole, seconds=2.0))
    assert lines == [
        f"orders-0 [0, 100): whole: 90 proven, 10 offsets without a record ({by_cause})",
        "orders-0 [0, 100): NOT WHOLE: 98 proven",
        "  missing: 2 in the log and not in the archive, from 7 to 9",
        "former: topic orders was deleted and created again",
        "files: 1 files that no commit record has, or that are gone",
        "unreadable: file topic=orders/day=2026-01-01/a.parquet cannot be read",
        "the archive is NOT whole: 188 offsets proven, 10,000 bytes in 2.0 s (0.0 MB/s)",
    ]
