"""A bucket grants what its rate lets pass, on a clock of the test."""

import random

import pytest

from raft.token_bucket import BURST_SECONDS, UNLIMITED, WAIT_SECONDS_MAX, TokenBucket


def spend(bucket: TokenBucket, sizes: list[int], now: float = 0.0) -> list[tuple[float, int]]:
    """Send these requests one after the other, each as soon as it may be; return when each was."""
    sent = []
    for size in sizes:
        while True:
            granted, seconds = bucket.reserve(size, now)
            now += seconds
            if granted:
                break
        sent.append((now, size))
    return sent


def test_the_first_request_goes_at_once_and_the_next_ones_wait_for_those_before_them() -> None:
    assert spend(TokenBucket(100), [50, 50, 100, 10]) == [(0.0, 50), (0.5, 50), (1.0, 100), (2.0, 10)]


def test_a_bucket_without_a_bound_grants_everything() -> None:
    bucket = TokenBucket(UNLIMITED)
    assert not bucket.is_limited
    assert [bucket.reserve(2**40, 0.0) for _ in range(3)] == [(True, 0.0)] * 3


def test_a_rate_of_0_grants_nothing_and_asks_to_come_back() -> None:
    assert TokenBucket(0).reserve(1, 5.0) == (False, WAIT_SECONDS_MAX)


def test_no_wait_is_longer_than_a_second_and_a_request_beyond_it_counts_nothing() -> None:
    bucket = TokenBucket(10)
    assert bucket.reserve(100, 0.0) == (True, 0.0)
    assert [bucket.reserve(1, float(second)) for second in range(9)] == [(False, WAIT_SECONDS_MAX)] * 9
    assert bucket.reserve(1, 9.0) == (True, 1.0)


@pytest.mark.parametrize("seed", range(20))
def test_a_period_never_sees_more_than_its_rate_a_burst_and_one_request(seed: int) -> None:
    rng = random.Random(seed)
    rate = rng.choice([1_000, 100_000, 20_000_000])
    bucket, now, sent = TokenBucket(rate), 0.0, []
    for _ in range(300):
        now += rng.choice([0.0, 0.0, 0.0, 2.0]) * rng.random()
        size = rng.randrange(1, rate)
        granted, seconds = bucket.reserve(size, now)
        if granted:
            sent.append((now + seconds, size))
    sent.sort()
    for first, (begin, _) in enumerate(sent):
        total = 0
        for at, size in sent[first:]:
            total += size
            assert total <= rate * (at - begin + BURST_SECONDS) + rate + 1


def test_unused_time_is_a_burst_of_half_a_second_at_most() -> None:
    bucket = TokenBucket(100)
    bucket.reserve(10, 0.0)
    assert spend(bucket, [50, 50, 50], 100.0) == [(100.0, 50), (100.0, 50), (100.5, 50)]


def test_what_was_sent_without_being_asked_for_is_waited_for() -> None:
    bucket = TokenBucket(100)
    bucket.count(70, 0.0)
    assert bucket.reserve(1, 0.0) == (True, 0.7)


def test_a_lower_rate_makes_nobody_wait_longer_than_a_second_for_what_was_sent_before() -> None:
    bucket = TokenBucket(1_000_000)
    bucket.reserve(900_000, 0.0)
    bucket.change(10, 0.0)
    assert bucket.reserve(1, 0.0) == (True, 1.0)
    bucket.change(1_000_000, 0.0)
    granted, seconds = bucket.reserve(1, 0.0)
    assert granted
    assert seconds < 0.001


def test_a_bucket_that_was_bound_and_cleared_begins_anew_when_it_is_bound_again() -> None:
    bucket = TokenBucket(10)
    bucket.reserve(1_000, 0.0)
    bucket.change(UNLIMITED, 1.0)
    assert bucket.reserve(1_000, 1.0) == (True, 0.0)
    bucket.change(10, 2.0)
    assert bucket.reserve(5, 2.0) == (True, 0.0)
    assert bucket.reserve(5, 2.0) == (True, 0.5)
