"""Schedules by which a change of members could lose data or stop a group, step by step, and what holds (RFC 0019)."""

import pytest

from model.ids import Index, NodeId, Term
from raft.gravestone import gravestone_key, put_gravestone, read_gravestone, revive
from raft.group_configuration import Revision
from raft.membership_steps import Target
from raft.reconfiguration_stm import Reconfiguration
from raft.rules.election import LogEnd
from raft.vote_floor import floor_key
from raft.vote_stm import _Ballot
from raft.vote_store import vote_key
from storage.memory_kvstore import MemoryKvStore
from tests.simulation.known_bugs.membership import configurations_precede_the_barrier
from tests.unit.raft.message_wire import WireClient
from tests.unit.raft.stage import GROUP
from tests.unit.raft.test_reconfiguration import Group, replicas, target


def _whole(kvstore, log_end):
    put_gravestone(kvstore, GROUP, log_end)


def _vote_alone(kvstore, _):
    put_gravestone(kvstore, GROUP, LogEnd(Term(0), Index(0)))


def _nothing(*_):
    pass


def leave(group, node, bury=_whole):
    """Delete a replica that has stopped, but for its gravestone, as GroupManager.leave does it."""
    actor = group.actors[node]
    log_end = group.replica(node).state.log_end
    group.stop(node)
    group.settle()
    group.wire.lose(lambda message: node in (message.source, message.target))
    kvstore = MemoryKvStore(actor.environment, actor.durable)
    bury(kvstore, log_end)
    for key in (vote_key(GROUP), floor_key(GROUP)):
        kvstore.delete(key)
    group.run(kvstore.sync())
    files = actor.environment.files
    for name in files.listdir(actor.directory):
        files.unlink(f"{actor.directory}/{name}")
    files.rmdir(actor.directory)


def come_back(group, node):
    """The replica is placed there again, and begins empty."""
    actor = group.actors[node]
    kvstore = MemoryKvStore(actor.environment, actor.durable)
    if (gravestone := read_gravestone(kvstore, GROUP)) is not None:
        revive(kvstore, GROUP, gravestone)
        kvstore.delete(gravestone_key(GROUP))
    group.run(kvstore.sync())
    group.start(node)


def _a_replica_that_returns_empty_elects_nobody_who_lacks_what_was_committed(bury=_whole):
    """{1, 2, 3} become {2, 3, 4}, and 3 has heard nothing of it; 1 returns, empty, and 3 asks it for its vote."""
    with Group(4, 1, 2, 3) as group:
        group.begin(2, 1, 2, 3, 4)
        # Node 3 hears of nothing from here on: for it the voters are 1, 2 and 3.
        group.wire.is_cut[3] = True
        group.wire.lose(lambda message: 3 in (message.source, message.target))
        assert group.reach(target(2, 3, 4)) == 2
        group.write()
        assert group.is_done("w3")
        group.tick(2)
        leave(group, 1, bury)
        for node in (2, 4):
            group.stop(node)
            group.wire.is_cut[node] = True
        group.settle()
        come_back(group, 1)
        group.wire.is_cut[3] = False
        for _ in range(20):
            group.advance(1.0)
            group.deliver(lambda _: True)
        assert group.leader() is None, f"node {group.leader()} leads and lacks what was committed"


def test_a_replica_that_returns_empty_elects_nobody_who_lacks_what_was_committed():
    _a_replica_that_returns_empty_elects_nobody_who_lacks_what_was_committed()


def test_a_replica_without_its_gravestone_would_elect_one_who_lacks_it():
    with pytest.raises(AssertionError, match="node 3 leads and lacks what was committed"):
        _a_replica_that_returns_empty_elects_nobody_who_lacks_what_was_committed(_nothing)


def test_a_replica_with_its_vote_alone_would_elect_one_who_lacks_it_in_a_later_term():
    with pytest.raises(AssertionError, match="node 3 leads and lacks what was committed"):
        _a_replica_that_returns_empty_elects_nobody_who_lacks_what_was_committed(_vote_alone)


def test_a_revision_that_is_told_late_after_it_was_cancelled_changes_nothing():
    with Group(5, 1, 2, 3) as group:
        group.begin(1, 1, 2, 3, 4, 5)
        group.aim(target(1, 4, 5))
        group.go_until_joint(1)
        group.reach(target(1, 2, 3, revision=2))
        group.aim(target(1, 4, 5))
        group.tick(10)
        reconfiguration = group.replica(1).reconfiguration
        assert reconfiguration.has_reached
        assert reconfiguration.target.revision.raft0_index == 2
        assert [group.voters(node) for node in (1, 2, 3)] == [[[1, 2, 3]]] * 3


def _new_voters_that_die_before_the_joint_configuration_stop_nobody():
    """{1, 2, 3} are to become {1, 4, 5}, and 4 and 5 die before they have caught up."""
    with Group(5, 1, 2, 3) as group:
        group.begin(1, 1, 2, 3, 4, 5)
        group.aim(target(1, 4, 5))
        assert group.replica(1).configuration.learners == replicas(4, 5)
        for node in (4, 5):
            group.wire.is_cut[node] = True
        group.wire.lose(lambda message: {4, 5} & {message.source, message.target})
        group.write()
        group.tick(20)
        assert group.is_done("w3"), "w3 waits for ever"
        assert group.voters(1) == [[1, 2, 3]]
        assert group.replica(1).reconfiguration.waits_for == "nodes [4, 5] catch up"
        # The move may be given up for one that can be.
        assert group.reach(target(1, 2, 3, revision=2)) == 1
        assert group.replica(1).configuration.learners == ()


def test_new_voters_that_die_before_the_joint_configuration_stop_nobody():
    _new_voters_that_die_before_the_joint_configuration_stop_nobody()


def test_new_voters_that_die_would_stop_the_group_if_nobody_asked_whether_they_answer(monkeypatch):
    for name in ("_is_caught_up", "_is_answering"):
        monkeypatch.setattr(Reconfiguration, name, lambda *_: True)
    with pytest.raises(AssertionError, match="w3"):
        _new_voters_that_die_before_the_joint_configuration_stop_nobody()


def _a_target_from_after_a_recovery_of_raft0_wins():
    """raft0 was recovered by hand, and its indexes begin anew: 3 of generation 1 is later than 90 of generation 0."""
    with Group(4, 1, 2, 3) as group:
        group.begin(1, 1, 2, 3, 4)
        group.reach(target(1, 2, 4, revision=90))
        leader = group.reach(Target(replicas(1, 2, 3), Revision(1, 3)))
        assert group.voters(leader) == [[1, 2, 3]], "the later target is ignored"


def test_a_target_from_after_a_recovery_of_raft0_wins():
    _a_target_from_after_a_recovery_of_raft0_wins()


def test_a_target_from_after_a_recovery_would_be_ignored_if_indexes_alone_were_compared(monkeypatch):
    monkeypatch.setattr(Revision, "__lt__", lambda one, other: one.raft0_index < other.raft0_index)
    with pytest.raises(AssertionError, match="the later target is ignored"):
        _a_target_from_after_a_recovery_of_raft0_wins()


def _nothing_changes_before_the_barrier_is_committed():
    """Raft thesis 4.1 and its correction of 2015: a leader may not know what the leader before it has committed."""
    with Group(4, 1, 2, 3) as group:
        group.begin(1, 1, 2, 3, 4)
        group.call(lambda: group.replica(1).step_down("the story says so"))
        group.settle()
        group.actors[2].consensus._election._heard_at = group.actors[3].consensus._election._heard_at = None
        group.stand(2)
        group.settle()
        leader = group.replica(2).state
        while not leader.is_leader:
            group.deliver(lambda message: message.reply is not None or "append" not in str(message))
            group.advance(0.05)
        group.wire.lose(lambda message: "append" in str(message))
        group.wire.is_cut[2] = True
        group.aim(target(2, 3, 4), 2)
        group.advance(1.0)
        assert leader.is_leader
        assert not leader.is_in_office
        assert leader.configurations.in_force == group.configuration, "it changes members before its barrier"
        assert group.replica(2).log.dirty_index == leader.barrier_index
        group.wire.is_cut[2] = False
        assert group.reach(target(2, 3, 4)) in (2, 3, 4)


def test_nothing_changes_before_the_barrier_is_committed():
    _nothing_changes_before_the_barrier_is_committed()


def test_members_would_change_before_the_barrier_if_whoever_leads_were_in_office(monkeypatch):
    configurations_precede_the_barrier(monkeypatch)
    with pytest.raises(AssertionError, match="it changes members before its barrier"):
        _nothing_changes_before_the_barrier_is_committed()


def _whoever_votes_with_another_directory_does_not_count(monkeypatch):
    """RFC 0020, L9: node 3 was replaced, and node 1 missed it: the vote of the new directory is none of the old one."""
    real = WireClient.replica_of
    other = replicas(4)[0]

    def replica_of(client, node):
        return other._replace(node_id=NodeId(3)) if node == 3 else real(client, node)

    monkeypatch.setattr(WireClient, "replica_of", replica_of)
    with Group(3, 1, 2, 3) as group:
        for node in (1, 3):
            group.start(node)
        for _ in range(20):
            group.deliver(lambda _: True)
            group.advance(1.0)
        assert group.actors[1].probe.elections_started
        assert not group.actors[1].probe.elections_won, "a retired directory has voted"


def test_whoever_votes_with_another_directory_does_not_count(monkeypatch):
    _whoever_votes_with_another_directory_does_not_count(monkeypatch)


def test_another_directory_would_vote_if_the_node_alone_were_compared(monkeypatch):
    real = _Ballot.collect

    async def collect(ballot, request, *, longest_log):
        client = ballot._context.client
        ballot._voters = [client.replica_of(voter.node_id) or voter for voter in ballot._voters]
        await real(ballot, request, longest_log=longest_log)

    monkeypatch.setattr(_Ballot, "collect", collect)
    with pytest.raises(AssertionError, match="a retired directory has voted"):
        _whoever_votes_with_another_directory_does_not_count(monkeypatch)


def test_a_replica_that_returns_below_the_start_of_the_log_is_filled_by_a_snapshot_and_may_lead():
    """1 left with a long log. The log begins behind its end by now, so entries alone cannot bring it to its floor."""
    with Group(4, 1, 2, 3) as group:
        group.begin(2, 1, 2, 3, 4)
        group.write(5)
        assert group.reach(target(2, 3, 4)) == 2
        group.tick(2)
        floor = group.replica(1).state.log_end
        leave(group, 1)
        group.write(20)
        group.tick(2)
        leader = group.replica(2)
        group.move_start(2, leader.log.dirty_index, leader.log.next_offset - 1)
        group.tick(5)
        assert leader.log.start_index > floor.last_index + 1
        come_back(group, 1)
        assert group.replica(1).state.lost_end == floor
        assert group.reach(target(1, 2, 3, revision=2)) == 2
        group.tick(3)
        assert group.actors[2].probe.snapshots_sent
        assert not group.replica(1).state.is_refilling
        group.stop(2)
        group.settle()
        group.elect(1)
        group.write()
        assert group.is_done(f"w{group.written}")
