"""RFC 0003 section 7: a leader whose fsync hangs does not stop its group (counterexample 39)."""

import pytest

from raft.leader_watch import LeaderWatch
from runtime.workers import Pool
from tests.simulation.scenarios.scenario import QUORUM, Scenario

_HANGS_SECONDS = 30.0
# The stall's bound, a tick, and the transfer; one that cannot succeed takes an election timeout more.
_LEAVES_WITHIN = {Pool.FSYNC: 3.5, Pool.APPEND: 7.0}


def _the_leaders_disk_hangs(*pools: Pool) -> None:
    with Scenario(311) as story:
        hung, term = story.leader, story.replica(story.leader).term
        story.run_for(0.3)
        # Only the others may stand by themselves: the one that hangs would do so in vain.
        story.candidates = set(story.followers)
        story.machine(hung).workers.stall(Pool.FSYNC, _HANGS_SECONDS)
        waiting = story.write(hung, QUORUM)
        story.run_for(0.2)
        for pool in pools:
            story.machine(hung).workers.stall(pool, _HANGS_SECONDS)
        stuck = story.write(hung, QUORUM)
        story.run_for(2.0)
        assert story.replica(hung).is_in_office, "heartbeats go on, and a slow disk is none that hangs"
        story.wait(
            lambda: story.cluster.leader_of(story.group) not in (None, hung), _LEAVES_WITHIN[(*pools, Pool.FSYNC)[0]]
        )
        assert story.replica(story.leader).term > term
        assert waiting.is_answered
        assert stuck.is_answered
        write = story.write(story.leader, QUORUM)
        story.wait(lambda: write.is_answered, 1.0)
        assert write.result is not None
        assert story.holds(story.leader, waiting), "a majority had it"
        story.run_for(_HANGS_SECONDS)
        story.converge()


@pytest.mark.parametrize("pools", [(), (Pool.APPEND,)], ids=["fsync", "fsync and writes"])
def test_others_commit_what_the_leaders_disk_does_not_take(pools: tuple[Pool, ...]) -> None:
    _the_leaders_disk_hangs(*pools)


def test_nobody_does_where_nobody_looks(monkeypatch) -> None:
    monkeypatch.setattr(LeaderWatch, "_flush_stall", lambda watch: None)
    with pytest.raises(AssertionError):
        _the_leaders_disk_hangs()


def test_a_slow_leader_stays_where_nobody_else_could_commit() -> None:
    with Scenario(312) as story:
        leader = story.leader
        story.run_for(0.3)
        for node_id in story.world.nodes:
            story.machine(node_id).workers.stall(Pool.FSYNC, 6.0)
        write = story.write(leader, QUORUM)
        story.run_for(5.5)
        assert story.replica(leader).is_in_office
        story.wait(lambda: write.is_answered)
        assert write.result is not None
        story.converge()
