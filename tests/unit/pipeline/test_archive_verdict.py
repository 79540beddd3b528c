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
)
from raftka.pipeline.archive.scope import scope
from tests.unit.pipeline.archives import offset_range

P = ("orders", 0)
SCOPE = scope([offset_range(0, 100)], 0, Span(0, 100), None, None)
WHOLE = Tally(scope=SCOPE, log_begin=0, recorded=100, archived=100, bytes=5_000)


def finding(holes: tuple[Span, ...] = (), **changes: Any) -> PartitionFinding:
    return conclude(P, msgspec.structs.replace(WHOLE, **{"scope": SCOPE._replace(holes=holes)} | changes))


def difference(kind: FaultKind, offsets: int, rows: int) -> Difference:
    return Difference(kind=kind, offsets=offsets, rows=rows, first=7, last=9)


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
    assert (found.proven, found.expired, found.gaps, found.compacted) == (100, 0, 0, 0)


def test_offsets_without_a_record_on_both_sides_are_gaps() -> None:
    found = finding(archived=90, recorded=90)
    assert found.is_whole
    assert (found.proven, found.gaps) == (90, 10)


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
    assert (found.proven, found.gaps) == (proven, 0)


def test_what_the_log_has_compacted_away_is_explained_and_not_proven() -> None:
    found = finding(is_compacted=True, differences=(difference(FaultKind.SURPLUS, 40, 40),))
    assert found.is_whole
    assert (found.proven, found.compacted, found.gaps) == (60, 40, 0)


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
    assert (hole.expired, hole.proven, hole.gaps) == (20, 70, 0)


def test_files_with_fewer_records_than_committed_are_a_fault_and_a_part_of_a_range_is_not_held_against_them() -> None:
    assert faults(finding(recorded=101)) == [("rows", 1, None, None)]
    assert finding(recorded=None).is_whole


def test_a_person_is_told_what_is_proven_and_what_is_not() -> None:
    good = finding(archived=90, recorded=90)
    bad = finding(archived=98, recorded=98, differences=(difference(FaultKind.MISSING, 2, 0),))
    whole = [
        Fault(kind=FaultKind.FORMER, count=1, why="topic orders was deleted and made anew"),
        Fault(kind=FaultKind.FILES, count=1),
        Fault(kind=FaultKind.UNREADABLE, count=1, path="topic=orders/day=2026-01-01/a.parquet"),
    ]
    lines = render(Verification(partitions=[good, bad], faults=whole, seconds=2.0))
    assert lines == [
        "orders-0 [0, 100): whole: 90 proven, 10 offsets without a record",
        "orders-0 [0, 100): NOT WHOLE: 98 proven",
        "  missing: 2 in the log and not in the archive, from 7 to 9",
        "former: topic orders was deleted and made anew",
        "files: 1 files that no commit record has, or that are gone",
        "unreadable: file topic=orders/day=2026-01-01/a.parquet cannot be read",
        "the archive is NOT whole: 188 offsets proven, 10,000 bytes in 2.0 s (0.0 MB/s)",
    ]
