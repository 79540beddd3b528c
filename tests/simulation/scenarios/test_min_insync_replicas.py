"""RFC 0003 section 5: min.insync.replicas decides answers, never commit (counterexample 3)."""

from dataclasses import replace

import pytest

from model.ids import Index
from raft.errors import NotEnoughReplicasAfterAppendError, NotEnoughReplicasError
from raft.follower_index_metadata import FollowerIndexMetadata
from raft.options import RaftOptions
from raft.rules import agreement
from tests.simulation.scenarios.scenario import LEADER, QUORUM, Scenario

_MIN_IN_SYNC = 3
_ALL_THREE: dict[str, str | None] = {"min.insync.replicas": str(_MIN_IN_SYNC)}
_LAG_SECONDS = 1.0


def _story(seed: int, configs: dict[str, str | None]) -> Scenario:
    return Scenario(seed, raft=RaftOptions(replica_lag_max=_LAG_SECONDS), topic_configs=configs)


def _a_new_leader_works_with_one_replica_dead() -> None:
    with _story(171, _ALL_THREE) as story:
        old, [new, dead] = story.leader, story.followers
        story.run_for(0.5)
        story.kill(dead)
        story.machine(old).loop.post(lambda: story.replica(old).step_down("the story needs another leader"))
        story.elect_into_office(new)
        relaxed = story.write(new, LEADER)
        story.wait(lambda: relaxed.is_answered)
        log = story.replica(new).log
        story.wait(lambda: story.replica(new).state.commit_index == log.dirty_index, 2.0)
        assert story.holds(old, relaxed)
        refused = story.write(new, QUORUM)
        story.wait(lambda: refused.is_answered, 0.1)
        assert isinstance(refused.error, NotEnoughReplicasError)
        assert not story.holds(new, refused), "refused before the append"
        story.restart(dead)
        story.run_for(0.5)
        taken = story.write(new, QUORUM)
        story.wait(lambda: taken.is_answered, 1.0)
        assert taken.result is not None
        assert all(story.holds(node_id, taken) for node_id in story.world.nodes)
        story.converge()


def test_a_new_leader_commits_while_too_few_are_in_sync_for_an_answer() -> None:
    _a_new_leader_works_with_one_replica_dead()


def test_a_new_leader_would_not_commit_if_min_insync_replicas_decided_commit(monkeypatch) -> None:
    of_majority = agreement.commit_point

    def commit_point(quorums, *arguments) -> Index:
        raised = [each._replace(k=max(each.k, min(_MIN_IN_SYNC, len(each.members)))) for each in quorums]
        return of_majority(raised, *arguments)

    monkeypatch.setattr(agreement, "commit_point", commit_point)
    with pytest.raises(AssertionError, match="not reached within"):
        _a_new_leader_works_with_one_replica_dead()


def test_a_leader_would_append_what_it_cannot_answer_if_nobody_counted_who_is_in_sync(monkeypatch) -> None:
    monkeypatch.setattr("raft.replica_state.ReplicaState.has_enough_in_sync", lambda state, since: True)
    with pytest.raises(AssertionError):
        _a_new_leader_works_with_one_replica_dead()


def test_a_replica_that_died_just_now_is_waited_for_and_then_the_producer_is_told() -> None:
    with _story(172, _ALL_THREE) as story:
        leader, dead = story.leader, story.followers[1]
        story.run_for(0.5)
        story.kill(dead)
        appended = story.write(leader, QUORUM, within=0.5)
        story.wait(lambda: appended.is_answered, 1.0)
        assert isinstance(appended.error, NotEnoughReplicasAfterAppendError)
        assert story.holds(leader, appended)
        story.run_for(_LAG_SECONDS)
        refused = story.write(leader, QUORUM)
        story.wait(lambda: refused.is_answered, 0.1)
        assert isinstance(refused.error, NotEnoughReplicasError)
        story.converge()


def test_lowering_it_at_run_time_answers_who_waits() -> None:
    with _story(173, _ALL_THREE) as story:
        leader, dead = story.leader, story.followers[1]
        story.run_for(0.5)
        story.kill(dead)
        waiting = story.write(leader, QUORUM)
        story.run_for(0.3)
        assert not waiting.is_answered
        partition = story.cluster.partition(leader, story.group)
        assert partition is not None
        config = replace(partition.config, min_insync_replicas=2)
        story.machine(leader).loop.post(lambda: partition.apply_config(config))
        story.wait(lambda: waiting.is_answered, 0.1)
        assert waiting.result is not None
        story.converge()


def _a_follower_that_is_always_a_little_behind_is_in_sync() -> None:
    with _story(174, _ALL_THREE) as story:
        leader, slow = story.leader, story.followers[1]
        story.run_for(0.5)
        story.world.network.link(leader, slow).base = 0.150
        # A majority commits every few milliseconds; the slow one answers each round 150 ms later.
        answered = []
        for _ in range(800):
            answered.append(story.write(leader, QUORUM))
            story.run_for(0.003)
        story.wait(lambda: all(write.is_answered for write in answered), 2.0)
        assert [write.error for write in answered if write.error is not None] == []
        story.converge()


def test_a_follower_that_is_always_a_little_behind_is_in_sync() -> None:
    _a_follower_that_is_always_a_little_behind_is_in_sync()


def test_a_follower_a_little_behind_is_not_in_sync_if_it_must_reach_the_newest_commit(monkeypatch) -> None:
    def update_caught_up(follower, commit, last, now, lag_max) -> None:
        if follower.match_index >= commit:
            follower.caught_up_at = now

    monkeypatch.setattr(FollowerIndexMetadata, "update_caught_up", update_caught_up)
    with pytest.raises(AssertionError):
        _a_follower_that_is_always_a_little_behind_is_in_sync()
