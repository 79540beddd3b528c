"""RFC 0011: what records tell of logs, calls, applies and sets in sync (rows R41 to R46), beside what really happened."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from model.ids import ConsistencyLevel
from raft.call_figures import CallFigures
from raft.interval_figures import IntervalFigures
from raft.options import RaftOptions
from raft.replica_counts import ReplicaCounts
from storage.entry import HEADER_BYTES, EntryKind
from tests.simulation.scenarios.scenario import LEADER, NO_ACK, QUORUM, Scenario
from tests.simulation.scenarios.telemetry_story import (
    Record,
    part_of_story,
    records_of,
    telemetry_story,
    told_in,
    wait_for_topic,
)

_LAG_SECONDS = 1.5
_ALL_THREE: dict[str, str | None] = {"min.insync.replicas": "3"}
# Of these the seed's rows speak: T-R41.
_QUORUM_WRITES, _LEADER_WRITES = 100, 50


def _figures(story: Scenario, node_id: int) -> CallFigures:
    return story.cluster.nodes[node_id].groups.call_figures


def _n(durations: dict[str, Any] | None) -> int:
    return 0 if durations is None else durations["n"]


def _records(story: Scenario, node_id: int) -> list[Record]:
    return records_of(told_in(story, part_of_story(story)), node_id)


def _sum(records: list[Record], key: str, *path: str) -> Counter[str]:
    """Add up counts or histograms by kind, of a key that may be null."""
    found: Counter[str] = Counter()
    for record in records:
        value = record[key]
        for name in path:
            value = None if value is None else value[name]
        for kind, each in (value or {}).items():
            found[kind] += each if isinstance(each, int) else each.get("n", each.get("entries"))
    return found


def _write_both(story: Scenario, node_id: int) -> None:
    for number in range(_QUORUM_WRITES):
        story.write(node_id, QUORUM)
        if number < _LEADER_WRITES:
            story.write(node_id, LEADER)
            story.write(node_id, NO_ACK)
        story.run_for(0.02)
    story.wait(lambda: all(write.is_answered for write in story.writes))


def _logs_and_calls_are_told() -> None:
    with telemetry_story(1201) as story:
        wait_for_topic(story)
        story.run_for(1.5)
        leader = story.leader
        before = {level: _figures(story, leader).replicate[level][EntryKind.DATA].count for level in (QUORUM, LEADER)}
        _write_both(story, leader)
        # R41, R43: the node's own counters. Other groups of the node get no data at leader_ack.
        figures = _figures(story, leader)
        assert figures.replicate[LEADER][EntryKind.DATA].count - before[LEADER] == _LEADER_WRITES
        assert figures.replicate[QUORUM][EntryKind.DATA].count - before[QUORUM] >= _QUORUM_WRITES
        assert figures.replicate[QUORUM][EntryKind.DATA].longest(story.world.time) > 0
        story.run_for(3.0)
        led = _records(story, leader)
        # R42, R43: durations by level, as many as there were calls.
        assert sum(_n(each["replicate"]["quorum_ack"]) for each in led) == _QUORUM_WRITES
        assert sum(_n(each["replicate"]["leader_ack"]) for each in led) == _LEADER_WRITES
        assert _sum(led, "replicate_other", "quorum_ack") == {"barrier": 1}
        # R44: healthy, so there is no series.
        assert all(each["replicate_failed"] is None and each["apply_failed"] is None for each in led)
        # R9, R41: entries by role and kind, and the log as long as it is.
        written = _QUORUM_WRITES + 2 * _LEADER_WRITES
        for node_id in story.world.nodes:
            own, role = _records(story, node_id), "leader" if node_id == leader else "follower"
            other = "follower" if role == "leader" else "leader"
            assert _sum(own, "appended", role) == {"barrier": 1, "data": written}
            assert _sum(own, "appended", other) == {}
            sizes = [
                each["appended"][role]["data"] for each in own if each["appended"] and "data" in each["appended"][role]
            ]
            assert all(HEADER_BYTES < each["bytes_max"] <= each["bytes"] for each in sizes)
            log = story.replica(node_id).log
            assert own[-1]["entries"] == log.dirty_index - log.start_index + 1 == written + 1
            assert own[-1]["unapplied"] == log.dirty_index - story.replica(node_id).applied_index == 0
            # R45: every replica applies both kinds.
            assert set(_sum(own, "apply")) == {"barrier", "data"}


def test_row_r41_logs_calls_and_applies_are_told_as_they_are() -> None:
    _logs_and_calls_are_told()


def _fails(monkeypatch: pytest.MonkeyPatch, where: type, name: str, planted: Callable[..., Any]) -> None:
    monkeypatch.setattr(where, name, planted)
    with pytest.raises(AssertionError):
        _logs_and_calls_are_told()


def test_row_r41_fails_if_a_follower_counts_as_a_leader(monkeypatch) -> None:
    counted = ReplicaCounts.appended_as_leader
    _fails(monkeypatch, ReplicaCounts, "appended_as_follower", lambda counts, entries: counted(counts, entries))


def test_row_r42_fails_if_every_call_counts_as_quorum_ack(monkeypatch) -> None:
    counted = ReplicaCounts.replicated

    def replicated(counts, level: ConsistencyLevel, kind: EntryKind, seconds: float, now: float) -> None:
        counted(counts, QUORUM, kind, seconds, now)

    _fails(monkeypatch, ReplicaCounts, "replicated", replicated)


def test_row_r43_fails_if_the_kind_of_a_call_is_lost(monkeypatch) -> None:
    counted = IntervalFigures.replicated

    def replicated(figures, level: ConsistencyLevel, _: EntryKind, seconds: float) -> None:
        counted(figures, level, EntryKind.DATA, seconds)

    _fails(monkeypatch, IntervalFigures, "replicated", replicated)


def test_row_r45_fails_if_nobody_counts_what_is_applied(monkeypatch) -> None:
    _fails(monkeypatch, ReplicaCounts, "applied", lambda *_: None)


def _failed_calls_are_told(seconds: float = 10.0) -> None:
    with telemetry_story(1202, raft=RaftOptions(replica_lag_max=_LAG_SECONDS), topic_configs=_ALL_THREE) as story:
        wait_for_topic(story)
        leader, dead = story.leader, story.followers[1]
        _write_some(story, leader)
        healthy = len(_records(story, leader))
        assert all(each["replicate_failed"] is None for each in _records(story, leader))
        story.kill(dead)
        story.run_for(2 * _LAG_SECONDS)
        for _ in range(int(seconds)):
            story.write(leader, QUORUM)
            story.run_for(1.0)
        stalled = [write for write in story.writes if write.error is not None]
        assert len(stalled) == int(seconds)
        story.restart(dead)
        story.candidates = None
        story.run_for(5.0)
        failed = _sum(_records(story, leader)[healthy:], "replicate_failed", "quorum_ack")
        assert failed == {"data": len(stalled)}
        assert _figures(story, leader).replicate_failures[QUORUM][EntryKind.DATA] >= len(stalled)
        # The partition works again: no more of them.
        assert _records(story, leader)[-1]["replicate_failed"] is None


def _write_some(story: Scenario, node_id: int) -> None:
    for _ in range(5):
        story.write(node_id, QUORUM)
        story.run_for(0.5)


def test_row_r44_there_are_as_many_failures_as_failed_calls_and_none_while_healthy() -> None:
    _failed_calls_are_told()


def test_row_r44_fails_if_a_refused_call_is_not_counted(monkeypatch) -> None:
    monkeypatch.setattr(ReplicaCounts, "replicate_failed", lambda *_: None)
    with pytest.raises(AssertionError):
        _failed_calls_are_told(3.0)


def _smallest_set_is_told() -> None:
    with telemetry_story(1203, raft=RaftOptions(replica_lag_max=_LAG_SECONDS)) as story:
        wait_for_topic(story)
        leader, away = story.leader, story.followers[0]
        story.run_for(3.0)
        told = _records(story, leader)[-1]
        assert (told["in_sync_min"], len(told["in_sync"]), told["min_in_sync"]) == (3, 3, 1)
        begun = len(_records(story, leader))
        story.connect([node_id for node_id in story.world.nodes if node_id != away])
        story.run_for(_LAG_SECONDS + 1.0)
        story.heal()
        story.run_for(4.0)
        told_since = _records(story, leader)[begun:]
        # The last second in which it was away: it is back when the record is made.
        back = [each for each in told_since if len(each["in_sync"]) == 3 and each["in_sync_min"] == 2]
        assert len(back) == 1
        assert told_since[-1]["in_sync_min"] == 3
        # The setting is that of the topic, from the next record on.
        for node_id in story.world.nodes:
            partition = story.cluster.partition(node_id, story.group)
            assert partition is not None
            config = replace(partition.config, min_insync_replicas=2)
            story.machine(node_id).loop.post(lambda partition=partition, config=config: partition.apply_config(config))
        story.run_for(2.5)
        for node_id in story.world.nodes:
            told = _records(story, node_id)[-1]
            assert told["min_in_sync"] == 2
            assert (told["in_sync_min"] is None) == (node_id != leader)


def test_row_r46_the_setting_and_the_smallest_set_in_sync_of_each_second_are_told() -> None:
    _smallest_set_is_told()


def test_row_r46_fails_if_only_the_moment_of_the_record_is_looked_at(monkeypatch) -> None:
    monkeypatch.setattr(IntervalFigures, "saw_in_sync", lambda *_: None)
    with pytest.raises(AssertionError):
        _smallest_set_is_told()
