"""RFC 0003 section 6: a heartbeat does not commit what a follower holds of another term (counterexample 5)."""

import pytest

import tests.simulation.world.observer
from tests.simulation.known_bugs.table import plant
from tests.simulation.scenarios.scenario import QUORUM, Scenario


def _a_heartbeat_overtakes_what_replaces_a_foreign_tail() -> None:
    with Scenario(351, nodes=5) as story:
        old, [holder, new, *others] = story.leader, story.followers
        [first] = story.written(old, QUORUM)
        story.wait(lambda: first.is_answered)
        story.run_for(0.3)
        committed = story.replica(holder).state.commit_index
        story.connect([old, holder], [new, *others])
        foreign = story.written(old, QUORUM, 2)
        story.wait(lambda: story.replica(holder).log.flushed_index == story.replica(old).log.dirty_index)
        story.elect_into_office(new)
        kept = story.written(new, QUORUM, 2, size=200_000)
        story.wait(lambda: all(write.is_answered for write in kept))
        # The append that replaces the foreign entries is seconds on its way; heartbeats pass it.
        story.world.network.link(new, holder).bandwidth = 50_000.0
        story.connect([new, holder, *others])
        story.wait(lambda: story.replica(holder).state.leader_id == new)
        story.run_for(1.0)
        assert all(story.holds(holder, write) for write in foreign), "still there"
        assert story.replica(new).state.commit_index >= story.replica(holder).log.flushed_index
        assert story.replica(holder).state.commit_index == committed, "foreign entries are committed"
        story.world.network.link(new, holder).bandwidth = None
        story.converge()
        assert all(story.holds(holder, write) for write in kept)


def test_a_follower_commits_only_what_matched_with_this_terms_leader() -> None:
    _a_heartbeat_overtakes_what_replaces_a_foreign_tail()


def test_a_follower_would_commit_foreign_entries_by_what_it_has_flushed(monkeypatch) -> None:
    plant(monkeypatch, "follower_commits_what_was_not_matched")
    monkeypatch.setattr(tests.simulation.world.observer, "ALL", ())
    with pytest.raises(AssertionError, match="foreign entries are committed"):
        _a_heartbeat_overtakes_what_replaces_a_foreign_tail()
