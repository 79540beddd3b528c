"""Fixed buckets count what Prometheus would, and the longest duration is forgotten after a minute."""

from hypothesis import given
from hypothesis import strategies as st

from model.fixed_histogram import BOUNDS, FixedHistogram

_seconds = st.floats(min_value=0, max_value=100, allow_nan=False)


@given(st.lists(_seconds, max_size=50))
def test_a_duration_is_in_the_first_bucket_whose_bound_it_does_not_exceed(durations: list[float]):
    histogram = FixedHistogram()
    for duration in durations:
        histogram.observe(duration, now=1.0)
    for place, bound in enumerate(BOUNDS):
        assert sum(histogram.counts[: place + 1]) == sum(1 for duration in durations if duration <= bound)
    assert histogram.count == len(durations)
    assert histogram.sum == sum(durations)


def test_there_are_fourteen_bounds_from_half_a_millisecond_to_ten_seconds():
    assert (len(BOUNDS), BOUNDS[0], BOUNDS[-1]) == (14, 0.0005, 10.0)
    assert list(BOUNDS) == sorted(set(BOUNDS))


@given(st.lists(st.tuples(_seconds, st.floats(min_value=0, max_value=300)), min_size=1, max_size=50))
def test_the_longest_is_that_of_the_last_minute(observed: list[tuple[float, float]]):
    observed.sort(key=lambda each: each[1])
    histogram = FixedHistogram()
    for seconds, at in observed:
        histogram.observe(seconds, at)
    now = observed[-1][1]
    surely = [seconds for seconds, at in observed if at >= now - 50]
    perhaps = [seconds for seconds, at in observed if at >= now - 60]
    assert max(surely) <= histogram.longest(now) <= max(perhaps)
    assert histogram.longest(now + 61) == 0.0
