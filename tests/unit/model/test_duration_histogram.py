"""Buckets that can be added up, and what they say of a duration."""

from hypothesis import given
from hypothesis import strategies as st

from model.duration_histogram import DurationHistogram, Durations, bucket_bound

_MAX_US = 2**32
_seconds = st.lists(st.floats(min_value=0, max_value=5000, allow_nan=False), min_size=1, max_size=50)


def taken(durations: list[float]) -> Durations:
    histogram = DurationHistogram()
    for duration in durations:
        histogram.observe(duration)
    result = histogram.take()
    assert result is not None
    return result


@given(st.integers(min_value=1, max_value=_MAX_US))
def test_a_bound_is_at_most_a_quarter_above_what_it_bounds(duration_us: int):
    bound = bucket_bound(duration_us)
    assert duration_us <= bound <= duration_us + max(duration_us // 4, 0)
    assert bucket_bound(bound) == bound, "a bound lies in its own bucket"


@given(st.integers(min_value=1, max_value=_MAX_US - 1))
def test_bounds_grow_with_what_they_bound(duration_us: int):
    assert bucket_bound(duration_us) <= bucket_bound(duration_us + 1)


def test_a_histogram_of_everything_has_few_buckets():
    bounds = {bucket_bound(2**power + step * 2**power // 16) for power in range(32) for step in range(16)}
    assert len(bounds) < 140


@given(_seconds)
def test_every_duration_is_counted_once(durations: list[float]):
    result = taken(durations)
    assert result.n == sum(count for _, count in result.buckets) == len(durations)
    assert [bound for bound, _ in result.buckets] == sorted({bound for bound, _ in result.buckets})
    assert 1 <= result.max_us <= result.buckets[-1][0]
    assert result.max_us <= result.sum_us <= result.max_us * result.n


@given(_seconds, _seconds)
def test_what_is_put_back_is_counted_as_if_it_had_never_been_taken(first: list[float], second: list[float]):
    histogram = DurationHistogram()
    for duration in first:
        histogram.observe(duration)
    early = histogram.take()
    for duration in second:
        histogram.observe(duration)
    histogram.put_back(early)
    assert histogram.take() == taken(first + second)


def test_nothing_is_left_after_a_take():
    histogram = DurationHistogram()
    histogram.observe(0.5)
    assert histogram.take() is not None
    assert histogram.take() is None
    histogram.put_back(None)
    assert histogram.take() is None


def test_a_duration_of_no_time_and_one_without_end_have_a_bucket():
    assert taken([0.0]).buckets == [(1, 1)]
    assert taken([1e9]).buckets == [(_MAX_US, 1)]
