"""A group goes from the voters that it has to others, on production replicas with a scripted wire."""

import pytest

from model.ids import ConsistencyLevel, DirectoryId, Index, Offset, Replica, Term
from raft.append_dispatch import wire_buffers
from raft.configuration_entry import encode_configuration
from raft.group_configuration import GroupConfiguration, Revision
from raft.group_heartbeats import GroupHeartbeats
from raft.leadership_transfer import LeadershipTransfer
from raft.membership_steps import Target
from raft.messages import AppendEntriesRequest
from raft.options import RaftOptions
from storage.entry import Entry, EntryKind
from tests.unit.raft.message_wire import WireClient, replica
from tests.unit.raft.stage import GROUP, Stage

TICK = RaftOptions().heartbeat_interval


def replicas(*nodes):
    return tuple(map(replica, nodes))


def target(*nodes, revision=1):
    return Target(replicas(*nodes), Revision(0, revision))


class Group(Stage):
    """Nodes 1..count, of which `voters` have founded the group."""

    def __init__(self, count, *voters, log_state=None):
        super().__init__(count, RaftOptions(), **({} if log_state is None else {"log_state": log_state}))
        self.configuration = GroupConfiguration.of(replicas(*voters))
        self.written = 0

    def begin(self, leader, *nodes):
        for node in nodes:
            self.start(node)
        self.elect(leader)

    def leader(self):
        return next((node for node in self.running() if self.replica(node).is_in_office), None)

    def running(self):
        return [node for node, actor in self.actors.items() if actor.consensus is not None]

    def tick(self, count=1):
        """Heartbeats of whoever leads, and everything that follows from them."""
        for _ in range(count):
            for node in self.running():
                if self.replica(node).state.is_leader:
                    self.call(self.replica(node).watch.check)
                    self.beat(node)
            self.settle()
            self.deliver(lambda _: True)
            self.advance(TICK)
            self.deliver(lambda _: True)

    def go_until_joint(self, node):
        """Deliver one message after the other until a node uses a joint configuration."""
        for _ in range(100):
            for each in self.running():
                if self.replica(each).state.is_leader:
                    self.beat(each)
            self.settle()
            while (message := self.wire.take(lambda _: True)) is not None:
                self.hand_over(message)
                self.settle()
                if self.replica(node).configuration.is_joint:
                    return
            self.advance(TICK)
        raise AssertionError("no joint configuration")

    def aim(self, wanted, *nodes):
        for node in nodes or self.running():
            self.call(lambda node=node: self.replica(node).reconfigure(wanted))
        self.settle()

    def reach(self, wanted, *nodes, ticks=100):
        self.aim(wanted, *nodes)
        for _ in range(ticks):
            self.tick()
            leader = self.leader()
            if leader is not None and self.replica(leader).reconfiguration.has_reached:
                return leader
        raise AssertionError(f"not reached: {[self.actors[node].status() for node in self.running()]}")

    def write(self, count=3):
        leader = self.leader()
        for _ in range(count):
            self.written += 1
            self.replicate(leader, f"w{self.written}", ConsistencyLevel.QUORUM_ACK, 200, None, 100.0)
        self.settle()
        self.deliver(lambda _: True)

    def voters(self, node):
        return [[each.node_id for each in voters] for voters in self.replica(node).configuration.voter_sets]

    def is_done(self, name):
        return any(event.startswith(f"{name} done") for event in self.events)

    def terms(self, node):
        log = self.replica(node).log
        return [int(log.term_at(Index(index))) for index in range(log.start_index, log.dirty_index + 1)]


def test_a_voter_is_replaced_and_the_new_one_holds_everything():
    with Group(4, 1, 2, 3) as group:
        group.begin(1, 1, 2, 3)
        group.write()
        group.start(4)
        assert group.reach(target(1, 2, 4)) == 1
        group.write()
        group.tick(3)
        assert [group.voters(node) for node in (1, 2, 4)] == [[[1, 2, 4]]] * 3
        assert group.terms(4) == group.terms(1) == group.terms(2)
        assert group.is_done("w6")
        assert set(group.replica(1).state.followers) == {2, 4}
        # The removed one holds nothing newer, and is asked for nothing.
        assert len(group.terms(3)) < len(group.terms(1))


def test_a_leader_that_leaves_hands_over_and_never_stands_again():
    with Group(4, 1, 2, 3) as group:
        group.begin(1, 1, 2, 3)
        group.write()
        group.start(4)
        leader = group.reach(target(2, 3, 4))
        assert leader in (2, 3, 4)
        assert group.voters(leader) == [[2, 3, 4]]
        group.write()
        assert group.is_done("w6")
        elections = group.actors[1].probe.elections_started
        group.advance(30.0)
        assert not group.replica(1).state.is_leader
        assert not group.replica(1).state.is_voter or group.actors[1].probe.elections_started >= elections


@pytest.mark.parametrize("cut", [(), (3,)])
def test_a_leader_that_leaves_hands_over_to_a_voter_that_stays(monkeypatch, cut):
    """Node 2 holds as much as the others, and would have to hand over in its turn."""
    candidates = LeadershipTransfer.candidates
    monkeypatch.setattr(
        LeadershipTransfer, "candidates", lambda transfer: sorted(candidates(transfer), key=lambda node: node != 2)
    )
    with Group(5, 1, 2, 3) as group:
        group.begin(1, 1, 2, 3, 4, 5)
        group.aim(target(3, 4, 5))
        group.go_until_joint(1)
        for node in cut:
            group.wire.is_cut[node] = True
        for _ in range(60):
            group.tick()
        assert group.leader() in {3, 4, 5} - {*cut}
        assert group.voters(group.leader()) == [[3, 4, 5]]
        asked = {event.split()[2] for event in group.events if "timeout-now t" in event and " -> " in event}
        assert asked <= {"n3", "n4", "n5", "n1"}, asked


def test_a_learner_is_promoted_under_load():
    with Group(4, 1, 2, 3) as group:
        group.begin(1, 1, 2, 3)
        group.start(4)
        group.aim(target(1, 2, 4))
        for _ in range(60):
            group.write(1)
            group.tick()
        assert group.replica(1).reconfiguration.has_reached
        assert all(group.is_done(f"w{number}") for number in range(1, group.written + 1))


def test_a_learner_that_lags_is_not_promoted():
    with Group(4, 1, 2, 3) as group:
        group.begin(1, 1, 2, 3)
        group.write()
        group.wire.is_cut[4] = True
        group.aim(target(1, 2, 4))
        group.tick(20)
        assert group.replica(1).configuration.learners == replicas(4)
        assert group.voters(1) == [[1, 2, 3]]
        assert group.replica(1).reconfiguration.waits_for == "nodes [4] catch up"
        # It counts nowhere: the three go on.
        group.write()
        assert group.is_done("w6")
        group.start(4)
        group.wire.is_cut[4] = False
        assert group.reach(target(1, 2, 4)) == 1


def test_a_learner_does_not_stand_and_gives_its_vote_to_whoever_asks():
    with Group(4, 1, 2, 3) as group:
        group.begin(1, 1, 2, 3)
        group.wire.is_cut[4] = True
        group.aim(target(1, 2, 4))
        group.tick(3)
        group.start(4)
        group.wire.is_cut[4] = False
        group.tick(1)
        group.wire.is_cut[1] = True
        group.advance(30.0)
        assert group.actors[4].probe.elections_started == 0
        assert not group.replica(4).state.is_voter


def test_a_configuration_that_was_not_committed_is_truncated_and_the_former_is_in_force():
    with Group(4, 1, 2, 3) as group:
        group.begin(1, 1, 2, 3)
        group.write()
        group.wire.is_cut[1] = True
        group.aim(target(1, 2, 4), 1)
        assert group.replica(1).configuration.learners == replicas(4)
        assert not group.replica(1).state.configurations.is_committed
        group.wire.lose(lambda _: True)
        group.elect(2)
        group.write()
        group.wire.is_cut[1] = False
        for _ in range(10):
            group.tick()
        assert group.replica(1).configuration == group.configuration
        assert group.terms(1) == group.terms(2)
        assert set(group.replica(2).state.followers) == {1, 3}


def test_a_joint_configuration_needs_both_majorities():
    with Group(5, 1, 2, 3) as group:
        group.begin(1, 1, 2, 3, 4, 5)
        group.aim(target(3, 4, 5))
        group.go_until_joint(1)
        for node in (4, 5):
            group.wire.is_cut[node] = True
        group.wire.lose(lambda message: message.source in (4, 5) or message.target in (4, 5))
        before = group.replica(1).state.commit_index
        group.write(1)
        group.tick(3)
        # The old majority alone commits nothing.
        assert not group.is_done("w1")
        assert group.replica(1).state.commit_index <= before + 1
        for node in (4, 5):
            group.wire.is_cut[node] = False
        for _ in range(60):
            group.tick()
        assert group.leader() in (3, 4, 5)
        assert group.voters(group.leader()) == [[3, 4, 5]]


def test_a_move_is_cancelled_from_a_committed_joint_configuration():
    with Group(5, 1, 2, 3) as group:
        group.begin(1, 1, 2, 3, 4, 5)
        group.aim(target(1, 4, 5))
        group.go_until_joint(1)
        assert group.reach(target(1, 2, 3, revision=2)) == 1
        assert group.voters(1) == [[1, 2, 3]]
        assert group.replica(1).configuration.revision == Revision(0, 2)


def test_an_earlier_revision_changes_nothing():
    with Group(4, 1, 2, 3) as group:
        group.begin(1, 1, 2, 3, 4)
        group.reach(target(1, 2, 4, revision=7))
        group.aim(target(1, 2, 3, revision=6))
        group.tick(10)
        assert group.voters(1) == [[1, 2, 4]]


def test_a_replica_alone_moves():
    with Group(2, 1) as group:
        group.begin(1, 1)
        group.write()
        group.start(2)
        assert group.reach(target(2)) == 2
        group.write()
        assert group.is_done("w6")
        assert group.voters(2) == [[2]]


@pytest.mark.parametrize(("begin", "end"), [((1, 2, 3), (1, 2, 3, 4, 5)), ((1, 2, 3, 4, 5), (4,)), ((1,), (2, 3, 4))])
def test_the_number_of_voters_changes(begin, end):
    with Group(5, *begin) as group:
        group.begin(begin[0], 1, 2, 3, 4, 5)
        group.write()
        leader = group.reach(target(*end))
        assert group.voters(leader) == [list(end)]
        group.write()
        assert group.is_done("w6")


def test_the_configuration_outlives_a_restart():
    with Group(4, 1, 2, 3) as group:
        group.begin(1, 1, 2, 3, 4)
        group.reach(target(1, 2, 4))
        group.tick(3)
        for node in (1, 2, 4):
            group.stop(node)
        group.settle()
        for node in (1, 2, 4):
            group.start(node)
            assert group.voters(node) == [[1, 2, 4]]
        group.elect(4)
        group.write()
        assert group.is_done("w3")


def test_the_next_leader_goes_on_where_the_last_one_died():
    with Group(4, 1, 2, 3) as group:
        group.begin(1, 1, 2, 3, 4)
        group.aim(target(2, 3, 4))
        group.go_until_joint(2)
        if group.leader() == 1:
            group.stop(1)
            group.settle()
            group.wire.lose(lambda _: True)
            group.elect(2)
        assert group.reach(target(2, 3, 4)) in (2, 3, 4)


def test_a_replica_that_knows_no_configuration_with_itself_never_stands():
    with Group(4, 1, 2, 3) as group:
        group.start(4)
        group.advance(60.0)
        assert group.actors[4].probe.elections_started == 0


def test_a_follower_that_cannot_read_a_configuration_stops_and_names_the_entry():
    with Group(3, 1, 2, 3) as group:
        group.begin(1, 1, 2, 3)
        end = group.replica(2).log.dirty_index
        payload = encode_configuration(group.configuration)[:-3]
        entry = Entry(Index(end + 1), Term(1), EntryKind.CONFIGURATION, Offset(0), 0, payload)
        request = AppendEntriesRequest(GROUP, 1, end, 1, 0, 0, False)
        group.say(1, 2, request, b"".join(map(bytes, wire_buffers([entry]))))
        group.settle()
        failure = str(group.replica(2).failure)
        assert failure.startswith(f"entry {end + 1}: a configuration cannot be read")


def test_a_snapshot_brings_the_configuration_to_a_replica_that_was_away():
    with Group(5, 1, 2, 3) as group:
        group.begin(1, 1, 2, 3, 4)
        group.wire.is_cut[3] = True
        group.reach(target(1, 2, 4))
        group.write(20)
        group.tick(2)
        leader = group.replica(1)
        group.move_start(1, leader.log.dirty_index, leader.log.next_offset - 1)
        group.tick(5)
        assert leader.log.start_index > 10
        # A later configuration wants node 3 again: its own log ends far below the start.
        group.wire.is_cut[3] = False
        group.reach(target(1, 2, 4, 3, revision=2))
        group.tick(3)
        assert group.actors[1].probe.snapshots_sent > 0
        assert group.voters(3) == [[1, 2, 4, 3]]
        for node in (1, 2, 3, 4):
            group.stop(node)
        group.settle()
        for node in (1, 2, 3, 4):
            group.start(node)
            assert group.voters(node) == [[1, 2, 4, 3]]


def test_a_node_that_came_back_with_another_directory_is_not_asked_for_its_vote(monkeypatch):
    """RFC 0020, L9: the replica that votes lay in the directory that is gone."""
    real = WireClient.replica_of

    def replica_of(client, node):
        return Replica(node, DirectoryId("another")) if node == 3 else real(client, node)

    monkeypatch.setattr(WireClient, "replica_of", replica_of)
    with Group(3, 1, 2, 3) as group:
        for node in (1, 2, 3):
            group.start(node)
        group.wire.is_cut[2] = True
        for _ in range(30):
            group.deliver(lambda _: True)
            group.advance(1.0)
        assert group.actors[1].probe.elections_started > 0
        assert group.actors[1].probe.elections_won == 0
        asked = [event for event in group.events if event.startswith("n1 -> n3 pre-vote t")]
        assert asked == []
        group.wire.is_cut[2] = False
        for _ in range(30):
            group.tick()
            group.advance(0.5)
        assert group.leader() in (1, 2)


def _late_answer(group):
    """Return the follower that a node is when an answer arrives that it gave as a learner it is no more."""
    group.begin(1, 1, 2, 3)
    group.start(4)
    group.aim(target(1, 2, 4))
    leader = group.replica(1)
    assert [each.node_id for each in leader.configuration.learners] == [4]
    for _ in range(9):
        group.beat(1)
    group.settle()
    group.deliver(lambda message: message.target == 4)
    late = [message for message in group.wire.in_flight if message.source == 4]
    group.wire.in_flight = [message for message in group.wire.in_flight if message.source != 4]
    assert len(late) >= 9
    group.aim(target(1, 2, 3, revision=2))
    while leader.configuration.learners:
        group.tick()
    group.aim(target(1, 2, 4, revision=3))
    while not leader.configuration.learners:
        group.tick()
    for message in late:
        group.hand_over(message)
    group.settle()
    return leader.state.followers[4]


def test_an_answer_from_before_a_member_left_confirms_nobody_after_its_return():
    with Group(4, 1, 2, 3) as group:
        follower = _late_answer(group)
        assert follower.answered_request <= follower.sent_requests < 9


def test_a_late_answer_confirms_if_it_counts_for_the_node_and_not_for_the_follower(monkeypatch):
    on_reply = GroupHeartbeats.on_reply

    def replied(beats, follower, *others):
        on_reply(beats, beats._context.state.followers.get(follower.node_id, follower), *others)

    monkeypatch.setattr(GroupHeartbeats, "on_reply", replied)
    with Group(4, 1, 2, 3) as group:
        follower = _late_answer(group)
        assert follower.answered_request > follower.sent_requests
