"""RFC 0003 section 7: a leader whose disk takes no write leaves office, and does not stand until it does again.

Counterexample 40. The fsync alone is counterexample 39 (test_hung_fsync.py).
"""

import pytest

from raft.consensus import Consensus
from raft.errors import RaftError
from raft.leader_watch import LeaderWatch
from raft.leadership_transfer import LeadershipTransfer
from raft.node_stalls import NodeStalls
from raft.options import RaftOptions
from raft.replica_context import ReplicaContext
from runtime.workers import Pool
from tests.simulation.scenarios.scenario import LEADER, QUORUM, Scenario, Write

_FOR_EVER = 3600.0
# The bound of a stall, a tick of a group at rest, and the transfer.
_LEAVES_WITHIN = 3.9


def _hang(story: Scenario, node_id: int, *pools: Pool, seconds: float = _FOR_EVER) -> None:
    for pool in pools:
        story.machine(node_id).workers.stall(pool, seconds)


def _sync_kvstore(story: Scenario, node_id: int) -> None:
    """Another group's replica persists something, as each vote does."""
    story.machine(node_id).spawn(story.cluster.nodes[node_id].groups._node.kvstore.sync())


def _others_take_over(story: Scenario, hung: int, seconds: float = _LEAVES_WITHIN) -> None:
    story.wait(lambda: story.cluster.leader_of(story.group) not in (None, hung), seconds)
    assert not story.replica(hung).is_in_office


def _is_taken(story: Scenario) -> Write:
    """A write to whoever leads now is acknowledged."""
    write = story.write(story.leader, QUORUM)
    story.wait(lambda: write.is_answered, 1.0)
    assert write.result is not None
    return write


def _the_leaders_disk_hangs(*pools: Pool) -> None:
    with Scenario(311) as story:
        hung, term = story.leader, story.replica(story.leader).term
        story.run_for(0.3)
        story.candidates = set(story.followers)
        _hang(story, hung, *pools)
        stuck = [story.write(hung, QUORUM), story.write(hung, LEADER)]
        story.run_for(0.1)
        # Behind the round that hangs.
        stuck += [story.write(hung, QUORUM), story.write(hung, LEADER)]
        story.run_for(2.0)
        assert story.replica(hung).is_in_office, "a slow disk is none that hangs"
        _others_take_over(story, hung, _LEAVES_WITHIN - 2.1)
        assert story.replica(story.leader).term > term
        assert all(write.error is not None for write in stuck), "each is answered when the leadership ends"
        _is_taken(story)


@pytest.mark.parametrize("pools", [(Pool.APPEND,), (Pool.APPEND, Pool.FSYNC)], ids=["append", "append and fsync"])
def test_others_take_over_what_the_leaders_disk_does_not_take(pools: tuple[Pool, ...]) -> None:
    _the_leaders_disk_hangs(*pools)


def test_others_do_not_take_over_if_the_watch_looks_at_fsyncs_only(monkeypatch) -> None:
    monkeypatch.setattr(LeaderWatch, "_append_stall", lambda watch: None)
    with pytest.raises(AssertionError):
        _the_leaders_disk_hangs(Pool.APPEND)


def test_others_take_over_within_a_bound_that_is_shorter_than_the_pause_of_a_group_at_rest() -> None:
    with Scenario(321, raft=RaftOptions(stall_timeout=0.3)) as story:
        hung = story.leader
        story.run_for(3.0)
        story.candidates = set(story.followers)
        _hang(story, hung, Pool.APPEND)
        story.write(hung, QUORUM)
        _others_take_over(story, hung, 2.0)
        _is_taken(story)


def test_others_take_over_later_if_the_transfer_waits_for_the_batcher(monkeypatch) -> None:
    monkeypatch.setattr(LeadershipTransfer, "_has_written", lambda transfer: transfer._batcher.is_idle)
    with pytest.raises(AssertionError):
        _the_leaders_disk_hangs(Pool.APPEND)


def _the_leaders_kvstore_hangs() -> None:
    with Scenario(313) as story:
        hung = story.leader
        story.run_for(0.3)
        _hang(story, hung, Pool.KVSTORE)
        _sync_kvstore(story, hung)
        story.candidates = set(story.followers)
        _others_take_over(story, hung)
        _is_taken(story)


def test_others_take_over_from_a_leader_whose_kvstore_does_not_sync() -> None:
    _the_leaders_kvstore_hangs()


def test_others_do_not_take_over_if_nobody_looks_at_the_kvstore(monkeypatch) -> None:
    monkeypatch.setattr(NodeStalls, "_kvstore_stall", lambda stalls, now: None)
    with pytest.raises(AssertionError):
        _the_leaders_kvstore_hangs()


def test_a_leader_at_rest_leaves_when_a_probe_hangs_too() -> None:
    with Scenario(314) as story:
        hung = story.leader
        story.run_for(0.3)
        story.candidates = set(story.followers)
        _hang(story, hung, Pool.APPEND)
        # Of raft0, say: this group has nothing to write.
        story.cluster.nodes[hung].groups.limits.stalls.raise_doubt("a step of another group hangs")
        _others_take_over(story, hung, 4.5)
        _is_taken(story)


def test_a_leader_stays_while_the_others_could_not_go_on() -> None:
    with Scenario(315) as story:
        hung, dead = story.leader, story.followers[0]
        story.run_for(0.3)
        story.kill(dead)
        _hang(story, hung, Pool.APPEND, seconds=10.0)
        write = story.write(hung, QUORUM)
        story.run_for(9.0)
        assert story.replica(hung).is_in_office, "its vote is needed for any other"
        story.wait(lambda: write.is_answered, 2.0)
        assert write.result is not None
        story.converge()


def test_a_group_of_one_waits_for_its_disk() -> None:
    with Scenario(316, nodes=1) as story:
        _hang(story, 1, Pool.APPEND, seconds=10.0)
        write = story.write(1, QUORUM)
        story.run_for(9.0)
        assert story.replica(1).is_in_office
        story.wait(lambda: write.is_answered, 2.0)
        assert write.result is not None


# -- standing again -----------------------------------------------------------------------------------------------


def _the_others_are_gone_then(story: Scenario, hung: int) -> None:
    """The disk of the old leader hangs still, and only its deadline is ever due."""
    story.candidates = {hung}
    for node_id in story.world.nodes:
        if node_id != hung:
            story.kill(node_id)
            story.restart(node_id)
    story.run_for(6.0)


def _stands_while_it_hangs() -> bool:
    with Scenario(317) as story:
        hung = story.leader
        story.run_for(0.3)
        story.candidates = set(story.followers)
        _hang(story, hung, Pool.APPEND, seconds=30.0)
        story.write(hung, QUORUM)
        _others_take_over(story, hung)
        before = story.probe(hung).elections_started
        _the_others_are_gone_then(story, hung)
        stood = story.probe(hung).elections_started > before
        assert not story.replica(hung).state.is_leader
        story.run_for(30.0)
        story.candidates = set(story.world.nodes) - {hung}
        story.wait(lambda: story.cluster.leader_of(story.group) is not None)
        story.elect_into_office(hung)
        story.converge()
        return stood


def test_a_leader_that_left_stands_once_its_disk_has_taken_a_probe() -> None:
    assert not _stands_while_it_hangs()


def test_a_leader_that_left_would_stand_in_vain_if_nothing_were_in_doubt(monkeypatch) -> None:
    monkeypatch.setattr(ReplicaContext, "why_not_to_lead", lambda context: None)
    assert _stands_while_it_hangs()


def test_a_follower_whose_disk_hangs_takes_no_leadership_over() -> None:
    with Scenario(318) as story:
        leader, target = story.leader, story.followers[0]
        story.run_for(0.3)
        _hang(story, target, Pool.KVSTORE, seconds=8.0)
        _sync_kvstore(story, target)
        story.run_for(4.0)
        refused: list[str] = []
        story.machine(leader).spawn(_transfer(story.replica(leader), target, refused))
        story.wait(lambda: bool(refused), 2.0)
        assert "its kvstore sync hangs" in refused[0]
        assert story.replica(leader).is_in_office
        # The disk has ended what it was asked for, and then a probe.
        story.run_for(5.0)
        story.machine(leader).spawn(_transfer(story.replica(leader), target, refused))
        story.wait(lambda: story.cluster.leader_of(story.group) == target, 2.0)
        story.converge()


async def _transfer(consensus: Consensus, target: int, refused: list[str]) -> None:
    try:
        await consensus.transfer.run(target)
    except RaftError as error:
        refused.append(str(error))


# -- votes --------------------------------------------------------------------------------------------------------


def test_a_candidate_that_cannot_persist_its_vote_tries_again_later() -> None:
    with Scenario(319) as story:
        leader, candidate = story.leader, story.followers[0]
        story.run_for(0.3)
        _hang(story, candidate, Pool.KVSTORE, seconds=20.0)
        story.kill(leader)
        story.candidates = {candidate}
        story.run_for(10.0)
        election = story.replica(candidate)._election
        assert not election.is_standing, "no try of it lasts for ever"
        story.wait(lambda: story.cluster.leader_of(story.group) == candidate, 15.0)
        story.converge()


def test_a_voter_that_cannot_persist_its_vote_refuses_and_stays_with_it() -> None:
    with Scenario(320) as story:
        leader, voter, candidate = story.leader, *story.followers
        story.run_for(0.3)
        _hang(story, voter, Pool.KVSTORE, seconds=2.5)
        story.kill(leader)
        story.candidates = {candidate}
        refused = story.probe(voter).votes_refused
        story.wait(lambda: story.replica(voter).state.voted_for == candidate)
        story.wait(lambda: story.probe(voter).votes_refused > refused, 2.0)
        assert story.replica(voter).state.voted_for == candidate, "it may become durable later"
        story.wait(lambda: story.cluster.leader_of(story.group) == candidate, 10.0)
        story.converge()


def test_a_follower_whose_append_hangs_does_not_wait_for_it_before_it_stands() -> None:
    with Scenario(321) as story:
        leader, hung = story.leader, story.followers[0]
        story.run_for(0.3)
        _hang(story, hung, Pool.APPEND, seconds=20.0)
        story.write(leader, QUORUM)
        story.run_for(0.5)
        story.kill(leader)
        story.candidates = {hung}
        story.run_for(8.0)
        assert not story.replica(hung)._election.is_standing
        assert story.cluster.leader_of(story.group) is None
        other = next(node_id for node_id in story.world.nodes if node_id not in (leader, hung))
        story.candidates = {other}
        story.wait(lambda: story.replica(other).state.is_leader, 5.0)
        story.run_for(12.0)
        story.converge()
