"""When the active segment of a compacted topic is closed, so that a pass may read it (RFC 0022, section 5)."""

from dataclasses import replace

import pytest
from test_compaction import Node

from cluster.partition import log_options
from model.topic_config import TopicConfig
from tests.simulation.scenarios.compacted_story import KEYS, put, table
from tests.simulation.scenarios.scenario import Scenario

_HOUR, _MINUTE = 3_600_000, 60_000
_NEVER = 2**63 - 1
# Policy, segment.ms, max.compaction.lag.ms, and after which time the active segment is closed.
CASES = [
    ("compact", _HOUR, _MINUTE, _MINUTE),
    ("compact,delete", _HOUR, _MINUTE, _MINUTE),
    ("compact", _MINUTE, _HOUR, _MINUTE),
    ("compact", _HOUR, _NEVER, _HOUR),
    # No pass will read them, so there is no reason to close them.
    ("delete", _HOUR, _MINUTE, _HOUR),
    ("", _HOUR, _MINUTE, _HOUR),
]


def config_of(policy: str, segment_ms: int, max_lag_ms: int) -> TopicConfig:
    return TopicConfig(cleanup_policy=policy, segment_ms=segment_ms, max_compaction_lag_ms=max_lag_ms)


@pytest.mark.parametrize(("policy", "segment_ms", "max_lag_ms", "expected"), CASES)
def test_a_segment_of_a_compacted_topic_is_closed_by_the_smaller_of_both_times(
    policy: str, segment_ms: int, max_lag_ms: int, expected: int
) -> None:
    assert log_options(config_of(policy, segment_ms, max_lag_ms)).segment_ms == expected


@pytest.mark.parametrize(("policy", "segment_ms", "max_lag_ms", "expected"), CASES)
def test_the_append_after_that_time_closes_the_segment_and_makes_its_records_cleanable(
    policy: str, segment_ms: int, max_lag_ms: int, expected: int
) -> None:
    with Scenario(83, segment_bytes=1 << 20) as story:
        leader = story.leader
        node, log = Node(story, leader), story.replica(leader).log
        changes = {"cleanup_policy": policy, "segment_ms": segment_ms, "max_compaction_lag_ms": max_lag_ms}
        node.partition.apply_config(replace(node.partition.config, **changes))
        for number in range(6):
            put(story, leader, KEYS[number % 3], b"%d" % number, producer=8, sequence=number)
        story.run_for(50.0)
        put(story, leader, KEYS[0], b"young", producer=8, sequence=6)
        assert (len(log._segments), log.closed_index) == (1, 0)
        closed = log.dirty_index
        story.run_for(15.0)
        put(story, leader, KEYS[0], b"late", producer=8, sequence=7)
        is_closed = expected == _MINUTE
        assert log.closed_index == (closed if is_closed else 0)
        story.run_for(60.0)
        assert node.cleaner.passes == int(is_closed)
        assert node.clean_index == (closed if is_closed else 0)
        # What was overwritten in the closed segment is gone; the rest waits in the active one.
        assert set(table(story, leader)) == set(KEYS)
        story.converge()
