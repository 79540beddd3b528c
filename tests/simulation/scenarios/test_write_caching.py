"""RFC 0003, levels: what acks=all loses under write.caching, and that it loses nothing without it (counterexample 2)."""

from dataclasses import replace

import pytest

from raft.replica_state import ReplicaState
from runtime.workers import Pool
from tests.simulation.scenarios.scenario import LEADER, QUORUM, Scenario, Write

_CACHED: dict[str, str | None] = {"write.caching": "true"}
_SEEDS = range(152, 157)


def _acknowledged_on_two(story: Scenario) -> tuple[Write, int, int, int]:
    """Return an acks=all write that the leader and one follower hold, and leader, holder, and the one without it."""
    old, [holder, new] = story.leader, story.followers
    story.run_for(0.5)
    story.connect({old, holder})
    write = story.write(old, QUORUM)
    story.wait(lambda: write.is_answered)
    assert write.result is not None
    assert story.holds(holder, write), "written on a majority when it was answered"
    return write, old, holder, new


def _is_lost(seed: int, configs: dict[str, str | None]) -> bool:
    """One holder loses power at once, the other is away at the election."""
    with Scenario(seed, topic_configs=configs) as story:
        write, old, holder, new = _acknowledged_on_two(story)
        story.lose_power(old)
        story.connect({old, new})
        story.restart(old)
        if story.holds(old, write):
            # Fsynced, or by chance on the disk: whoever wins here has it.
            story.elect_into_office(old)
            story.converge()
            return False
        story.elect_into_office(new)
        assert story.holds(holder, write)
        story.converge()
        return not any(story.holds(node_id, write) for node_id in story.world.nodes)


def test_an_acknowledged_write_is_lost_with_one_power_loss_and_one_holder_away() -> None:
    assert any(_is_lost(seed, _CACHED) for seed in _SEEDS)


def _nothing_is_lost_without_write_caching() -> None:
    assert not any(_is_lost(seed, {}) for seed in _SEEDS)


def test_without_write_caching_the_same_schedule_loses_nothing() -> None:
    _nothing_is_lost_without_write_caching()


def test_the_same_schedule_loses_data_if_copies_in_the_page_cache_count_as_safe(monkeypatch) -> None:
    whole = ReplicaState.set_levels
    monkeypatch.setattr(
        ReplicaState, "set_levels", lambda state, policy, *, write_caching: whole(state, policy, write_caching=True)
    )
    with pytest.raises(AssertionError):
        _nothing_is_lost_without_write_caching()


def test_a_kill_without_a_power_loss_loses_nothing() -> None:
    with Scenario(158, topic_configs=_CACHED) as story:
        write, old, _, new = _acknowledged_on_two(story)
        story.kill(old)
        story.connect({old, new})
        story.restart(old)
        story.elect_into_office(old)
        story.converge()
        assert story.holds(new, write)


def _answers_while_fsyncs_hang() -> None:
    with Scenario(159, topic_configs=_CACHED) as story:
        leader = story.leader
        story.run_for(0.5)
        for node_id in story.world.nodes:
            story.machine(node_id).workers.stall(Pool.FSYNC, 2.0)
        write = story.write(leader, QUORUM)
        story.wait(lambda: write.is_answered, 0.1)
        state, log = story.replica(leader).state, story.replica(leader).log
        assert write.result is not None
        assert state.visible_index >= write.result.last_index > log.flushed_index, "readable and on no platter"
        assert state.commit_index < write.result.last_index, "commit is always fsynced"
        story.wait(lambda: state.commit_index >= write.result.last_index, 4.0)
        story.converge()


def test_row_p10_answers_come_before_any_fsync_and_the_fsync_follows() -> None:
    _answers_while_fsyncs_hang()


def test_row_p10_fails_where_write_caching_is_ignored(monkeypatch) -> None:
    whole = ReplicaState.set_levels
    monkeypatch.setattr(
        ReplicaState, "set_levels", lambda state, policy, *, write_caching: whole(state, policy, write_caching=False)
    )
    with pytest.raises(AssertionError):
        _answers_while_fsyncs_hang()


def test_a_barrier_is_fsynced_before_it_counts_also_under_write_caching() -> None:
    with Scenario(160, topic_configs=_CACHED) as story:
        new = story.followers[0]
        story.run_for(0.5)
        story.elect(new)
        for node_id in story.world.nodes:
            story.machine(node_id).workers.stall(Pool.FSYNC, 0.5)
        early = story.write(new, QUORUM)
        story.run_for(0.3)
        assert not story.replica(new).is_in_office
        assert not early.is_answered, "nothing is answered before its term's barrier is committed"
        story.wait(lambda: early.is_answered, 1.0)
        assert story.replica(new).is_in_office
        story.converge()


def test_the_level_changes_at_run_time_and_keeps_what_was_promised() -> None:
    with Scenario(161) as story:
        leader = story.leader
        story.run_for(0.5)
        for node_id in story.world.nodes:
            story.machine(node_id).workers.stall(Pool.FSYNC, 1.0)
        durable = story.written(leader, QUORUM)[0]
        _set_caching(story, True)
        cached = story.written(leader, QUORUM)[0]
        relaxed = story.written(leader, LEADER)[0]
        story.run_for(0.3)
        assert relaxed.is_answered
        assert not durable.is_answered, "it was sent when answers were fsynced"
        assert not cached.is_answered, "visible only behind it"
        story.wait(lambda: durable.is_answered and cached.is_answered, 2.0)
        story.run_for(0.5)
        for node_id in story.world.nodes:
            story.machine(node_id).workers.stall(Pool.FSYNC, 1.0)
        cached = story.write(leader, QUORUM)
        story.wait(lambda: cached.is_answered, 0.1)
        _set_caching(story, False)
        durable = story.write(leader, QUORUM)
        story.run_for(0.3)
        assert not durable.is_answered
        story.converge()


def _set_caching(story: Scenario, write_caching: bool) -> None:
    """Alter the topic on every node, as its configuration would be."""
    for node_id in story.world.nodes:
        partition = story.cluster.partition(node_id, story.group)
        assert partition is not None
        config = replace(partition.config, write_caching=write_caching)
        story.machine(node_id).loop.post(lambda partition=partition, config=config: partition.apply_config(config))
    story.run_for(0.01)
