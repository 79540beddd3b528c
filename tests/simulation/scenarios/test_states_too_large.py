"""RFC 0008, counterexample 43: a state that is too large for a snapshot stops no replica, neither now nor after a restart."""

from collections.abc import Callable

import pytest

import raft.stepped_log_state
from cluster.admin_messages import CreateTopicRequest
from model.ids import RAFT0
from raft.options import RaftOptions
from storage.errors import LogPoisonedError
from tests.simulation.scenarios.scenario import QUORUM, Scenario
from tests.simulation.world.world import SimulationError

# Less than three brokers and a topic take.
_BYTES_MAX = 500
_OPTIONS = RaftOptions(snapshot_entries=3, state_bytes_max=_BYTES_MAX)


def _create(story: Scenario, name: str) -> None:
    node_id = story.cluster.leader_of(RAFT0)
    assert node_id is not None
    request = CreateTopicRequest(name, 1, 3, [], {}, False, 5.0)
    story.world.run(story.machine(node_id), story.cluster.nodes[node_id].admin.create_topic(request))


def _all_replicas_have_too_large_a_state() -> None:
    with Scenario(23, raft=_OPTIONS) as story:
        nodes = list(story.world.nodes)
        for name in ("a", "b", "c"):
            _create(story, name)
        story.wait(lambda: all(story.probe(node_id).snapshots_refused for node_id in nodes))
        story.kill(*nodes)
        story.candidates = None
        story.restart(*nodes)
        story.wait(
            lambda: story.cluster.leader_of(RAFT0) is not None and story.cluster.leader_of(story.group) is not None
        )
        _create(story, "d")
        story.wait(lambda: all(story.probe(node_id).snapshots_refused for node_id in nodes))
        for node_id in nodes:
            replica = story.cluster.consensus(node_id, RAFT0)
            assert replica is not None
            assert replica.failure is None
            assert "state of more than 500 bytes" in (replica.snapshot_refusal or "")
            topics = story.cluster.nodes[node_id].controller.topics
            assert {"a", "b", "c"} <= {topic.name for topic in topics.all()}
        story.written(story.cluster.leader_of(story.group), QUORUM, 1)
        story.converge()


def test_all_replicas_with_too_large_a_state_serve_on_and_start_again() -> None:
    _all_replicas_have_too_large_a_state()


@pytest.mark.parametrize("error", [AssertionError, LogPoisonedError])
def test_all_replicas_end_together_if_too_large_a_state_is_an_assert_or_poisons(
    monkeypatch, error: Callable[[str], Exception]
) -> None:
    monkeypatch.setattr(raft.stepped_log_state, "SnapshotTooLargeError", error)
    with pytest.raises((AssertionError, SimulationError)):
        _all_replicas_have_too_large_a_state()


def test_a_follower_that_needs_such_a_snapshot_waits_and_its_leader_serves_on() -> None:
    with Scenario(24, raft=RaftOptions(state_bytes_max=1), segment_bytes=4096) as story:
        leader, near, away = story.leader, *story.followers
        story.connect([leader, near])
        story.written(leader, QUORUM, 12, size=900)
        partition = story.cluster.partition(leader, story.group)
        story.wait(lambda: partition.high_watermark >= 12)
        deadline = story.machine(leader).loop.time() + 30.0
        story.world.run(story.machine(leader), partition.delete_records(9, deadline))
        story.heal()
        story.run_for(5.0)
        assert story.probe(leader).snapshots_refused > 0
        assert story.probe(leader).snapshots_sent == 0
        assert story.replica(away).log.start_offset == 0
        # One look a minute, however often the follower answers.
        assert story.probe(leader).snapshots_refused < 4
        story.written(leader, QUORUM, 1)
        assert story.replica(leader).is_in_office
        # The state has become smaller, or its bound larger.
        for node_id in story.world.nodes:
            story.replica(node_id)._log_state._stepped._bytes_max = 10_000
        story.run_for(61.0)
        story.wait(lambda: story.replica(away).log.start_offset == 9)
        story.converge()
