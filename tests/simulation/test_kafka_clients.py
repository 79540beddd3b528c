"""Kafka clients on the wire, under faults: what they saw is judged by the checker, the brokers by the invariants."""

from collections import Counter

import pytest

from tests.simulation.campaign import run_seeds

# What it must have seen at least once: a verdict on a history in which nothing happens says nothing.
_SOMETIMES = (
    *("client send ok", "client send info", "client poll ok", "client poll info", "client latest ok"),
    *("client produce NOT_LEADER_OR_FOLLOWER", "client fetch NOT_LEADER_OR_FOLLOWER", "client create topic 0"),
    *("client delete topic 0", "allowed unseen", "leader_ack lost", "transfers", "truncations"),
)


def _check(seeds: range) -> None:
    totals: Counter[str] = Counter()
    failures = []
    for result in run_seeds(seeds, 60.0, jobs=2, kafka=True):
        totals.update(result.counts)
        if result.error is not None:
            failures.append(f"make sim SEED={result.seed} KAFKA=1: {result.error}")
    assert not failures, "\n".join(failures)
    missing = [name for name in _SOMETIMES if not totals[name]]
    assert not missing, f"the campaign never saw: {missing}"


@pytest.mark.timeout(600)
def test_what_kafka_clients_see_under_faults_is_valid() -> None:
    _check(range(1, 25))


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_what_kafka_clients_see_in_many_more_runs_is_valid() -> None:
    _check(range(1000, 1500))
