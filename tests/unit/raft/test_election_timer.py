"""When a replica stands: the draws around what it hears (RFC 0003, section 7)."""

from collections.abc import Iterator

import pytest

from model.ids import NodeId
from raft.options import RaftOptions
from tests.unit.raft.stage import Stage

OPTIONS = RaftOptions()


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Three replicas that hold an entry and have not started."""
    with Stage(3, OPTIONS) as made:
        for node_id in made.actors:
            made.write_log(node_id, [1])
        yield made


def elections(stage: Stage, node_id: int) -> int:
    return stage.actors[node_id].probe.elections_started


def seconds_left(stage: Stage, node_id: int) -> float:
    when = stage.replica(node_id)._election._deadline.when
    assert when is not None
    return when - stage.world.time


def test_only_the_first_replica_of_a_new_group_stands_at_once() -> None:
    with Stage(3, OPTIONS) as stage:
        for node_id in stage.actors:
            stage.start(node_id)
        assert [elections(stage, node_id) for node_id in stage.actors] == [1, 0, 0]


def test_at_start_the_wait_is_short_and_drawn(stage: Stage) -> None:
    for node_id in stage.actors:
        stage.start(node_id)
    waits = [seconds_left(stage, node_id) for node_id in stage.actors]
    assert all(OPTIONS.reset_jitter <= wait <= 3 * OPTIONS.reset_jitter for wait in waits)
    assert len(set(waits)) == 3


def test_a_heard_leader_is_worth_an_election_timeout_and_a_draw(stage: Stage) -> None:
    stage.start(2)
    timer = stage.replica(2)._election
    stage.call(timer.heard_leader)
    stage.settle()
    # The short wait of the start is let pass: only then the deadline is moved.
    passed = seconds_left(stage, 2)
    stage.advance(passed)
    left = seconds_left(stage, 2) + passed
    assert OPTIONS.election_timeout <= left <= OPTIONS.election_timeout + OPTIONS.election_jitter

    heard = []
    for seconds in (OPTIONS.election_timeout - passed - 0.001, 0.001):
        stage.advance(seconds)
        stage.call(lambda: heard.append(timer.hears_leader))
        stage.settle()
    assert heard == [True, False]
    assert elections(stage, 2) == 0, "the draw comes on top"


def test_a_reset_link_shortens_the_wait_only_where_it_led_to_the_leader(stage: Stage) -> None:
    for node_id in stage.actors:
        stage.start(node_id)
    stage.elect(1)
    replica = stage.replica(2)
    stage.call(lambda: replica.on_link_reset(NodeId(3)))
    stage.settle()
    assert seconds_left(stage, 2) > OPTIONS.reset_jitter
    stage.call(lambda: replica.on_link_reset(NodeId(1)))
    stage.settle()
    assert seconds_left(stage, 2) <= OPTIONS.reset_jitter
    stage.advance(OPTIONS.reset_jitter)
    assert elections(stage, 2) == 1


def test_without_links_to_a_majority_nobody_asks_and_the_deadline_comes_again(stage: Stage) -> None:
    stage.wire.is_cut[2] = True
    stage.start(2)
    stage.advance(10.0)
    assert elections(stage, 2) == 0
    assert seconds_left(stage, 2) <= 2 * OPTIONS.split_vote_backoff


def test_a_replica_that_is_cut_off_forgets_its_leader_and_says_so_once(stage: Stage) -> None:
    for node_id in stage.actors:
        stage.start(node_id)
    stage.elect(1)
    replica, seen = stage.replica(2), []
    replica.add_leadership_listener(lambda consensus: seen.append(consensus.leader_id))
    stage.wire.is_cut[2] = True
    stage.advance(OPTIONS.election_timeout + OPTIONS.election_jitter)
    assert replica.leader_id is None
    stage.advance(10.0)
    assert seen == [None], "a broker that answers clients learns that it knows no leader"
    assert elections(stage, 2) == 0


def test_a_refused_candidate_backs_off_by_a_draw(stage: Stage) -> None:
    for node_id in (1, 2):
        stage.start(node_id)
    stage.stand(1)
    stage.settle()
    stage.wire.lose(lambda _: True)
    stage.settle()
    backoff = OPTIONS.split_vote_backoff
    assert backoff <= seconds_left(stage, 1) <= 2 * backoff


def test_a_stopped_timer_never_lets_its_replica_stand(stage: Stage) -> None:
    stage.start(1)
    stage.start(2)
    stage.call(lambda: stage.replica(1)._election.stop())
    stage.advance(10.0)
    assert (elections(stage, 1), elections(stage, 2) > 0) == (0, True)
