"""Recovery under throttled rates: production replicas on a virtual clock, with a scripted wire."""

from dataclasses import replace

import pytest

from model.ids import ConsistencyLevel, NodeId
from raft.recovery_throttle import ThrottledMembers
from raft.recovery_trend import RecoveryTrend
from raft.token_bucket import BURST_SECONDS, UNLIMITED
from tests.unit.raft.stage import Stage
from tests.unit.raft.test_reconfiguration import Group, target
from tests.unit.raft.test_snapshot_sizes import SizedState

STEP = 0.01
RATE = 100_000
CHUNK = 16 * 1024
# What the new member of a move lacks; all of it is in memory, so without a rate it comes at once.
BYTES = 600_000
MOVED = target(1, 2, 4)


class Throttled(Group):
    """Voters 1, 2, 3; node 4 is to replace 3. It lacks `BYTES`."""

    def __init__(self, leaders=(), followers=(), log_state=None):
        super().__init__(4, 1, 2, 3, log_state=log_state)
        self.named = ThrottledMembers(frozenset(map(NodeId, leaders)), frozenset(map(NodeId, followers)))
        self.sent = []

    def begin_move(self):
        self.begin(1, 1, 2, 3)
        self.fill(BYTES)
        self.start(4)
        for node in self.running():
            self.replica(node).throttle(self.named)
        self.aim(MOVED)

    def fill(self, size):
        for _ in range(size // 10_000):
            self.replicate(1, "w", ConsistencyLevel.QUORUM_ACK, 10_000, None, 100.0)
            self.settle()
            self.deliver(lambda _: True)

    def rate(self, node, leader=UNLIMITED, follower=UNLIMITED, learner=UNLIMITED):
        rates = {"leader_throttled_rate": leader, "follower_throttled_rate": follower, "learner_rate": learner}
        options = replace(self.options, **rates)
        self.call(lambda: self.actors[node].limits.throttle.change(options, self.world.time))

    def go(self, seconds, writes_per_second=0.0):
        """Let time pass in small steps; every message arrives within one."""
        owed = 0.0
        for step in range(round(seconds / STEP)):
            owed += writes_per_second * STEP
            if owed >= 10_000:
                owed -= 10_000
                self.replicate(1, "w", ConsistencyLevel.QUORUM_ACK, 10_000, None, 100.0)
            if step % 15 == 0:
                self.beat(1)
            self.settle()
            self.deliver(lambda _: True)
            self.advance(STEP)
            self.sent.append((self.world.time, self.probe.recovery_bytes))
        self.deliver(lambda _: True)

    def until_reached(self, writes_per_second=0.0, at_most=60):
        for _ in range(at_most):
            if self.replica(1).reconfiguration.has_reached:
                return
            self.go(1.0, writes_per_second)
        raise AssertionError(self.actors[1].status())

    @property
    def probe(self):
        return self.actors[1].probe

    @property
    def waits_for(self):
        return self.replica(1).reconfiguration.waits_for

    def assert_bound(self, rate):
        """No period has seen more than the rate, a burst, one chunk and the one of the hand-over."""
        for first, (begin, before) in enumerate(self.sent):
            for at, total in self.sent[first::50]:
                assert total - before <= rate * (at - begin + BURST_SECONDS) + 3 * CHUNK, (begin, at)


@pytest.mark.parametrize("followers", [(), (4,)])
def test_a_rate_of_the_leader_bounds_the_recovery_and_is_used(followers):
    with Throttled(leaders=[1, 2, 3], followers=followers) as group:
        group.rate(1, leader=RATE)
        group.begin_move()
        began = group.world.time
        group.until_reached()
        assert 0.8 * BYTES / RATE <= group.world.time - began <= 1.2 * BYTES / RATE + 1.0
        group.assert_bound(RATE)
        assert group.probe.throttled_bytes >= 0.8 * BYTES
        assert 0.5 * BYTES / RATE <= group.probe.throttled_seconds <= 1.2 * BYTES / RATE
        group.tick(3)
        assert group.terms(4) == group.terms(1)


def test_a_rate_of_the_follower_bounds_the_recovery_and_is_used():
    with Throttled(followers=[4]) as group:
        group.rate(4, follower=RATE)
        group.begin_move()
        began = group.world.time
        group.until_reached()
        assert 0.8 * BYTES / RATE <= group.world.time - began <= 1.2 * BYTES / RATE + 1.0
        group.assert_bound(RATE)
        assert group.terms(4) == group.terms(1)


def test_the_lower_of_two_rates_bounds_the_recovery():
    with Throttled(leaders=[1], followers=[4]) as group:
        group.rate(1, leader=10 * RATE)
        group.rate(4, follower=RATE)
        group.begin_move()
        began = group.world.time
        group.until_reached()
        assert group.world.time - began >= 0.8 * BYTES / RATE
        group.assert_bound(RATE)


@pytest.mark.parametrize(("leaders", "followers"), [((), ()), ((2, 3), (1, 2))])
def test_a_rate_bounds_nobody_whom_the_lists_do_not_name(leaders, followers):
    with Throttled(leaders=leaders, followers=followers) as group:
        group.rate(1, leader=1)
        group.rate(4, follower=1)
        group.begin_move()
        group.until_reached(at_most=3)
        assert (group.probe.throttled_bytes, group.probe.throttled_seconds) == (0, 0.0)


def test_a_list_without_a_rate_bounds_nobody():
    with Throttled(leaders=[1], followers=[4]) as group:
        group.begin_move()
        group.until_reached(at_most=3)
        assert group.probe.throttled_seconds == 0.0


@pytest.mark.parametrize(("leaders", "followers"), [((1,), ()), ((), (4,))])
def test_a_rate_that_is_raised_and_cleared_meanwhile_holds_from_then_on(leaders, followers):
    with Throttled(leaders=leaders, followers=followers) as group:
        node = 1 if leaders else 4
        role = "leader" if leaders else "follower"
        group.rate(node, **{role: 20_000})
        group.begin_move()
        group.go(4.0)
        slow = group.probe.recovery_bytes
        assert slow <= 4.5 * 20_000 + 2 * CHUNK
        group.rate(node, **{role: RATE})
        group.go(3.0)
        raised = group.probe.recovery_bytes - slow
        assert 0.7 * RATE * 2 <= raised <= RATE * 3.5 + 2 * CHUNK
        group.rate(node)
        group.until_reached(at_most=3)


def test_a_rate_that_is_set_meanwhile_slows_a_recovery_that_is_under_way():
    with Throttled(leaders=[1]) as group:
        group.rate(1, leader=10 * RATE)
        group.begin_move()
        group.go(0.2)
        group.rate(1, leader=10_000)
        sent = group.probe.recovery_bytes
        assert 0 < sent < BYTES
        group.go(5.0)
        assert group.probe.recovery_bytes - sent <= 10_000 * 5.5 + 8 * CHUNK
        assert not group.replica(1).reconfiguration.has_reached


def test_lists_that_are_cleared_meanwhile_free_a_recovery_that_waits():
    with Throttled(leaders=[1], followers=[4]) as group:
        group.rate(1, leader=0)
        group.begin_move()
        group.go(3.0)
        assert group.probe.recovery_bytes == 0
        for node in group.running():
            group.replica(node).throttle(ThrottledMembers())
        group.until_reached(at_most=3)


def test_a_new_member_gets_there_while_producers_write_less_than_the_rate():
    with Throttled(leaders=[1], followers=[4]) as group:
        group.rate(1, leader=RATE)
        group.rate(4, follower=RATE)
        group.begin_move()
        group.until_reached(writes_per_second=0.6 * RATE)
        assert group.probe.throttled_bytes > BYTES


def test_a_new_member_does_not_get_there_while_more_is_written_and_the_wait_says_so():
    with Throttled(leaders=[1]) as group:
        group.rate(1, leader=RATE)
        group.begin_move()
        group.go(5.0, writes_per_second=2 * RATE)
        assert group.waits_for == (
            "nodes [4] catch up (node 4 gets at most 100000 bytes/s: leader.replication.throttled.rate of broker 1)"
        )
        group.go(25.0, writes_per_second=2 * RATE)
        assert not group.replica(1).reconfiguration.has_reached
        assert "as much is written meanwhile, so it does not come nearer until the rate is raised" in group.waits_for
        group.rate(1)
        group.until_reached(at_most=5)
        assert group.replica(1).state.followers[NodeId(4)].held_back_by == ""


def test_a_node_bounds_what_its_learners_get_where_nobody_has_set_a_rate():
    with Throttled() as group:
        group.rate(1, learner=RATE)
        group.begin_move()
        group.go(1.0)
        assert group.waits_for == (
            "nodes [4] catch up (node 4 gets at most 100000 bytes/s: replication.learner.bytes.per.second of broker 1)"
        )
        assert 0 < group.probe.recovery_bytes <= 2 * RATE + 512 * 1024
        group.until_reached()
        assert group.replica(1).state.followers[NodeId(4)].held_back_by == ""


def test_a_rate_that_was_set_takes_the_place_of_the_bound_for_learners():
    with Throttled(leaders=[1]) as group:
        group.rate(1, leader=10 * RATE, learner=RATE // 10)
        group.begin_move()
        began = group.world.time
        group.until_reached()
        assert group.world.time - began <= 1.2 * BYTES / (10 * RATE) + 1.0


def test_a_learner_that_does_not_come_nearer_at_its_bound_is_sent_more():
    with Throttled() as group:
        group.rate(1, learner=RATE // 10)
        group.begin_move()
        group.until_reached(writes_per_second=2 * RATE)


def test_a_learner_is_bound_no_more_once_its_bound_was_seen_to_be_too_low():
    with Throttled() as group:
        group.rate(1, learner=RATE)
        group.begin_move()
        group.fill(10 * BYTES)
        group.go(25.0, writes_per_second=2 * RATE)
        assert group.replica(1).state.followers[NodeId(4)].outgrows_bound
        group.until_reached(writes_per_second=2 * RATE, at_most=10)


def test_a_period_is_judged_by_bytes_and_one_in_which_nobody_looked_is_not():
    trend = RecoveryTrend()
    trend.look(0.0, 1_000, is_taught=False)
    trend.count(500)
    trend.look(10.0, 1_499, is_taught=False)
    assert not trend.is_losing
    trend.count(500)
    trend.look(20.0, 1_999, is_taught=False)
    assert trend.is_losing
    # Nothing was written and nothing sent.
    trend.look(30.0, 1_999, is_taught=False)
    assert not trend.is_losing
    # Much was written, but there was no recovery.
    trend.look(90.0, 900_000, is_taught=False)
    assert not trend.is_losing
    trend.look(100.0, 990_000, is_taught=False)
    assert trend.is_losing
    # What another bound has let pass says nothing of this one.
    trend.look(101.0, 990_000, is_taught=True)
    assert not trend.is_losing


def test_a_rate_that_was_set_too_low_does_not_end_the_bound_for_learners():
    with Throttled(leaders=[1]) as group:
        group.rate(1, leader=RATE // 10, learner=RATE)
        group.begin_move()
        group.go(25.0, writes_per_second=RATE)
        follower = group.replica(1).state.followers[NodeId(4)]
        assert (follower.trend.is_losing, follower.outgrows_bound) == (True, False)
        group.rate(1, learner=RATE)
        group.go(1.0)
        assert "replication.learner.bytes.per.second" in group.waits_for


def test_the_bound_of_a_follower_holds_for_all_its_leaders_together():
    with Stage(3, Group(1, 1).options) as stage:
        options = replace(stage.options, follower_throttled_rate=RATE)
        throttle = stage.actors[3].limits.throttle
        throttle.change(options, 0.0)
        # Two leaders that each ask as soon as they may.
        due, sent = {1: 0.0, 2: 0.0}, 0
        while (now := min(due.values())) < 10.0:
            leader = min(due, key=lambda each: due[each])
            reply = throttle.give_credit(CHUNK, now)
            assert reply.rate == RATE
            sent += CHUNK * reply.is_granted
            due[leader] = now + reply.wait_us / 1e6 + 1e-6
        assert 0.95 * 10 * RATE <= sent <= 10.5 * RATE + 2 * CHUNK


def test_a_voter_that_acks_all_waits_for_is_never_held():
    with Throttled(leaders=[1, 2, 3], followers=[1, 2, 3]) as group:
        group.rate(1, leader=0)
        group.begin(1, 1, 2, 3)
        for node in (1, 2, 3):
            group.replica(node).throttle(group.named)
        # 2 is away, for longer than it stays in sync; then 3 is lost, and 2 is back.
        group.wire.is_cut[2] = True
        group.wire.lose(lambda message: 2 in (message.source, message.target))
        group.fill(BYTES)
        group.go(15.0)
        group.wire.is_cut.update({2: False, 3: True})
        group.wire.lose(lambda message: 3 in (message.source, message.target))
        # 3 was in sync until now.
        group.go(12.0)
        group.write(1)
        group.go(1.0)
        assert group.is_done(f"w{group.written}")
        assert group.terms(2) == group.terms(1)


def test_a_member_whose_node_does_not_answer_is_recovered_once_it_does():
    with Throttled(followers=[4]) as group:
        group.rate(4, follower=RATE)
        group.begin_move()
        group.go(1.0)
        group.wire.is_cut[4] = True
        group.wire.lose(lambda message: 4 in (message.source, message.target))
        group.go(3.0)
        group.wire.is_cut[4] = False
        group.until_reached()


def test_a_snapshot_is_sent_at_the_rate():
    with Throttled(leaders=[1], log_state=lambda: SizedState(300_000)) as group:
        group.begin(1, 1, 2, 3)
        group.fill(50_000)
        leader = group.replica(1)
        group.move_start(1, leader.log.dirty_index, leader.log.next_offset - 1)
        group.go(1.0)
        assert leader.log.start_index > 5
        group.rate(1, leader=RATE)
        leader.throttle(group.named)
        group.start(4)
        group.aim(MOVED)
        began = group.world.time
        group.until_reached()
        assert group.probe.snapshots_sent == 1
        assert 300_000 <= group.probe.throttled_bytes <= 400_000
        assert 2.0 <= group.world.time - began <= 5.0


def test_rounds_to_followers_in_sync_and_their_short_absences_are_never_held():
    with Throttled(leaders=[1, 2, 3], followers=[1, 2, 3]) as group:
        group.rate(1, leader=0)
        group.rate(3, follower=0)
        group.begin(1, 1, 2, 3)
        for node in (1, 2, 3):
            group.replica(node).throttle(group.named)
        group.go(1.0)
        group.fill(100_000)
        group.go(0.5)
        assert group.terms(3) == group.terms(1)
        group.wire.is_cut[3] = True
        group.wire.lose(lambda message: 3 in (message.source, message.target))
        group.fill(100_000)
        group.go(3.0)
        assert group.terms(3) != group.terms(1)
        group.wire.is_cut[3] = False
        group.go(1.0)
        assert group.terms(3) == group.terms(1)
        assert group.probe.throttled_bytes == 0


def test_a_voter_that_was_away_for_long_is_held_while_writes_need_it_not():
    with Throttled(leaders=[1]) as group:
        group.begin(1, 1, 2, 3)
        group.replica(1).throttle(group.named)
        group.go(1.0)
        group.wire.is_cut[3] = True
        group.wire.lose(lambda message: 3 in (message.source, message.target))
        group.fill(BYTES)
        group.go(12.0)
        group.rate(1, leader=RATE)
        group.wire.is_cut[3] = False
        group.go(2.0)
        assert 0 < group.probe.throttled_bytes <= 2.5 * RATE + 2 * CHUNK
        assert group.terms(3) != group.terms(1)
        group.go(6.0)
        assert group.terms(3) == group.terms(1)
