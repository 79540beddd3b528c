"""Which offsets of a partition `raftka archive verify` looks at, and what it only tells."""

import msgspec
import pytest

from raftka.pipeline.archive.blocks import Span
from raftka.pipeline.archive.findings import Tally, conclude, render
from raftka.pipeline.archive.findings import Verification as Found
from raftka.pipeline.archive.records import OffsetRange
from raftka.pipeline.archive.scope import Scope, refuse_inverted, refuse_nowhere, scope
from raftka.pipeline.errors import PipelineError
from tests.unit.pipeline.archives import offset_range

FIRST, SECOND = offset_range(0, 50), offset_range(50, 100)


def seen(
    *ranges: OffsetRange,
    log: tuple[int, int] = (0, 100),
    begins: int | None = 0,
    begin: int | None = None,
    end: int | None = None,
) -> Scope:
    return scope(ranges, begins, Span(*log), begin, end)


def test_without_a_range_all_that_is_archived_is_verified() -> None:
    found = seen(FIRST, SECOND)
    assert (found.span, found.beyond, found.later, found.left_out) == (Span(0, 100), 0, 0, 0)
    assert (found.is_all, found.is_archived, found.holes) == (True, True, ())


def test_an_archive_that_follows_a_growing_log_is_told_to_be_behind() -> None:
    found = seen(FIRST, log=(0, 80))
    assert (found.span, found.later) == (Span(0, 50), 30)


def test_what_retention_took_before_it_was_archived_is_a_hole_and_not_behind() -> None:
    found = seen(FIRST, log=(60, 80))
    assert (found.span, found.later, found.holes) == (Span(0, 60), 20, (Span(50, 60),))


def test_what_the_log_has_below_the_archive_belongs_to_it_unless_it_was_left_out() -> None:
    assert seen(SECOND).span == Span(0, 100)
    assert seen(SECOND, begins=None).span == Span(0, 100)
    assert seen(SECOND, begins=None, log=(20, 100)).span == Span(20, 100)
    told = seen(SECOND, begins=50)
    assert (told.span, told.left_out) == (Span(50, 100), 50)
    # No longer in the log, and never archived: a lost record of a batch.
    assert seen(SECOND, log=(70, 100)).holes == (Span(0, 50),)


def test_a_partition_of_which_nothing_is_archived_is_all_missing() -> None:
    found = seen(begins=None, log=(0, 30))
    assert (found.span, found.is_archived, found.is_empty) == (Span(0, 30), False, False)
    assert seen(begins=30, log=(0, 30)).left_out == 30
    assert seen(log=(0, 0)).is_empty


def test_a_range_that_was_asked_for_is_not_clipped() -> None:
    assert seen(FIRST, begin=0, end=100).span == Span(0, 100)
    assert seen(FIRST, begin=60, end=90).span == Span(60, 90)
    assert seen(SECOND, begins=50, begin=0, end=100).left_out == 0
    above = seen(FIRST, log=(0, 80), begin=20, end=1000)
    assert (above.span, above.beyond) == (Span(20, 1000), 920)
    assert seen(FIRST, SECOND, begin=10, end=20).is_all is False


def test_a_range_in_which_nothing_can_be_is_refused() -> None:
    refuse_inverted(None, None)
    refuse_inverted(10, None)
    refuse_inverted(10, 11)
    for begin, end in ((40, 10), (40, 40), (None, 0)):
        with pytest.raises(PipelineError, match="the range is empty"):
            refuse_inverted(begin, end)


def test_a_range_above_all_that_there_is_is_refused_and_one_that_some_partition_has_is_not() -> None:
    long, short = seen(FIRST, SECOND, begin=60, end=70), seen(FIRST, log=(0, 50), begin=60, end=70)
    refuse_nowhere(60, 70, [long, short])
    refuse_nowhere(None, None, [])
    above = seen(FIRST, SECOND, begin=1000, end=2000)
    with pytest.raises(PipelineError, match="from 1000 to 1999: the archive ends before 100, the log before 100"):
        refuse_nowhere(1000, 2000, [above, short])
    with pytest.raises(PipelineError, match="from 60 on: the archive ends before 50, the log before 100"):
        refuse_nowhere(60, None, [seen(FIRST, begin=60)])


def test_a_person_is_told_of_what_lies_around_the_range() -> None:
    def line(found: Scope, archived: int) -> str:
        tally = Tally(scope=found, log_begin=0, archived=archived)
        verdict = conclude(("orders", 0), tally)
        assert verdict == msgspec.convert(msgspec.to_builtins(verdict), type(verdict))
        return render(Found(partitions=[verdict], faults=[], seconds=1.0))[0]

    assert line(seen(FIRST), 50) == "orders-0 [0, 50): whole: 50 proven, 50 behind it in the log, not archived yet"
    assert line(seen(SECOND, begins=50), 50).endswith("50 proven, 50 before it left out by the starting offsets")
    assert line(seen(FIRST, SECOND, begin=90, end=120), 10) == (
        "orders-0 [90, 120): whole: 10 proven, 20 not written yet"
    )
    assert line(seen(begins=100), 0).endswith("nothing of this partition is archived")
