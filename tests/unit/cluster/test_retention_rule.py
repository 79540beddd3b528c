"""Which segments have outlived their topic's retention."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.retention_rule import UNLIMITED, RetentionPolicy, expired_segments
from model.ids import Index, Offset
from storage.segment import SegmentFacts

NOW = 1_000_000
FOREVER = RetentionPolicy(UNLIMITED, UNLIMITED)


def segment(last_index: int, max_timestamp: int, closed_ms: int | None, size: int = 100) -> SegmentFacts:
    return SegmentFacts(Index(1), Offset(0), Index(last_index), size, max_timestamp, closed_ms)


AGES = [
    segment(10, 100_000, 110_000),
    segment(20, 200_000, 210_000),
    segment(30, 300_000, None),
]


def expired(policy: RetentionPolicy, segments: list[SegmentFacts] = AGES, commit: int = 30, now: int = NOW) -> int:
    return expired_segments(segments, Index(commit), now, policy)


def test_without_limits_everything_stays() -> None:
    assert expired(FOREVER) == 0


@pytest.mark.parametrize(("ms", "count"), [(900_000, 0), (899_999, 1), (799_999, 2), (700_000, 2), (699_999, 3)])
def test_a_segment_goes_when_its_newest_record_is_older_than_the_limit(ms: int, count: int) -> None:
    assert expired(RetentionPolicy(ms, UNLIMITED)) == count


def test_a_timestamp_in_the_future_counts_from_when_the_segment_was_closed() -> None:
    ahead = [segment(10, NOW * 10, 110_000), AGES[2]]
    assert expired(RetentionPolicy(800_000, UNLIMITED), ahead) == 1


def test_a_segment_without_records_counts_from_when_it_was_closed() -> None:
    empty = [segment(10, -1, 500_000), segment(20, -1, None)]
    assert expired(RetentionPolicy(499_999, UNLIMITED), empty) == 1, (
        "the one that is written to holds nothing to delete"
    )


@pytest.mark.parametrize(("size", "count"), [(301, 0), (300, 0), (201, 0), (200, 1), (101, 1), (100, 2), (0, 2)])
def test_by_size_closed_segments_go_while_the_others_hold_enough(size: int, count: int) -> None:
    assert expired(RetentionPolicy(UNLIMITED, size)) == count


def test_what_is_not_committed_stays() -> None:
    assert expired(RetentionPolicy(0, 0), commit=20) == 2
    assert expired(RetentionPolicy(0, 0), commit=19) == 1
    assert expired(RetentionPolicy(0, 0), commit=0) == 0


@given(
    st.lists(st.tuples(st.integers(1, 100), st.integers(-1, 2 * NOW), st.integers(0, NOW)), max_size=6),
    st.integers(-1, NOW),
    st.integers(-1, 400),
)
def test_a_tighter_limit_never_keeps_more(facts: list[tuple[int, int, int]], ms: int, limit: int) -> None:
    segments = [segment(at + 1, timestamp, closed, size) for at, (size, timestamp, closed) in enumerate(facts)]
    policy = RetentionPolicy(ms, limit)
    count = expired(policy, segments)
    assert count >= expired(FOREVER, segments)
    if ms > 0:
        assert expired(RetentionPolicy(ms - 1, limit), segments) >= count
    if limit > 0:
        assert expired(RetentionPolicy(ms, limit - 1), segments) >= count
