"""Partitions move while producers write all the time: to fewer replicas and back, from the only one, to a far one."""

import pytest

from model.ids import GroupId, Replica
from raft.reconfiguration_stm import Reconfiguration
from raft.replica_directories import ReplicaDirectories
from tests.simulation.scenarios.scenario import QUORUM, Write
from tests.simulation.scenarios.test_members import NODES, Members

_PAUSE = 0.01


class _Loaded(Members):
    """Writes at acks=all to whoever leads."""

    def load(self, seconds: float) -> None:
        """Write for so long."""
        for _ in range(round(seconds / _PAUSE)):
            leader = self.cluster.leader_of(self.group)
            if leader is not None and self.cluster.partition(leader, self.group) is not None:
                self.write(leader, QUORUM)
            self.run_for(_PAUSE)

    @property
    def acknowledged(self) -> list[Write]:
        return [write for write in self.writes if write.result is not None]

    def is_joint(self, node_id: int) -> bool:
        consensus = self.cluster.consensus(node_id, self.group)
        return consensus is not None and consensus.configuration.is_joint


def _replicas_go_from_three_to_two_and_back() -> None:
    with _Loaded(8) as story:
        three = story.voters
        story.candidates = None
        for target in (three[:2], three):
            story.ask(target)
            story.load(3.0)
            story.until_placed(target)
        # 100 a second; none but those that a leader refuses because it has just left.
        assert len(story.acknowledged) > 500
        assert all(story.holds(node, write) for node in three for write in story.acknowledged)
        story.cluster.observer.at_end()


def test_row_r4_replicas_go_from_three_to_two_and_back_under_load_and_nothing_is_lost() -> None:
    _replicas_go_from_three_to_two_and_back()


def test_row_r4_fails_if_a_replica_that_leaves_stays_on_its_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    async def finish_leaving(directories: ReplicaDirectories, group: GroupId) -> None:
        pass

    monkeypatch.setattr(ReplicaDirectories, "finish_leaving", finish_leaving)
    with pytest.raises(AssertionError, match="not reached"):
        _replicas_go_from_three_to_two_and_back()


@pytest.mark.parametrize("victim", ["the old replica", "the new replica"])
def test_the_only_replica_of_a_partition_moves_under_load_though_a_broker_is_killed_amid_the_move(victim: str) -> None:
    """With two voter sets of one voter each both must agree, so nothing is acknowledged that only one of them has."""
    with _Loaded(6, replicas=1) as story:
        [here] = story.voters
        there = next(node for node in NODES if node != here)
        story.candidates = None
        story.load(0.2)
        story.ask([there])
        story.world.run_until(lambda: story.is_joint(here), story.world.time + 10.0)
        assert story.is_joint(here)
        killed = here if victim == "the old replica" else there
        story.kill(killed)
        story.load(1.0)
        before = len(story.acknowledged)
        story.cluster.start(killed)
        story.load(5.0)
        assert len(story.acknowledged) > before > 0
        story.until_placed([there])
        assert all(story.holds(there, write) for write in story.acknowledged)
        story.cluster.observer.at_end()


def _a_learner_that_lags_a_little_is_promoted() -> None:
    """It answers after 100 ms, and a write comes every 10 ms, so the leader never knows it to have what is committed."""
    with _Loaded(7) as story:
        leader = story.leader
        other = next(node for node in story.voters if node != leader)
        new = next(node for node in NODES if node not in story.voters)
        for link in (story.world.network.link(leader, new), story.world.network.link(new, leader)):
            link.base = 0.05
        story.ask([leader, other, new])
        story.load(6.0)
        assert new in story.voters, "it learns for ever"
        story.until_placed([leader, other, new])
        assert all(story.holds(new, write) for write in story.acknowledged)


def test_a_learner_that_is_always_a_little_behind_is_promoted_under_load() -> None:
    _a_learner_that_lags_a_little_is_promoted()


def test_a_learner_would_learn_for_ever_under_load_if_it_had_to_reach_the_newest_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def is_caught_up(way: Reconfiguration, learner: Replica) -> bool:
        state = way._context.state
        return state.followers[learner.node_id].position.flushed >= state.commit_index

    monkeypatch.setattr(Reconfiguration, "_is_caught_up", is_caught_up)
    with pytest.raises(AssertionError, match="it learns for ever"):
        _a_learner_that_lags_a_little_is_promoted()
