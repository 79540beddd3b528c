"""Bugs planted in how members change, each with a schedule that shows it and passes without it (RFC 0019 section 3)."""

import pytest

from model.ids import NO_INDEX
from raft.group_configuration import Revision
from raft.membership_steps import Target
from raft.replica_state import ReplicaState
from runtime.workers import Pool
from tests.simulation.known_bugs import membership
from tests.unit.raft.test_living_group import PLANTED
from tests.unit.raft.test_reconfiguration import Group, replicas, target


def isolate(group, *nodes):
    """These have no links from now on, and nothing that is on its way to or from them arrives."""
    for node in nodes:
        group.wire.is_cut[node] = True
    group.wire.lose(lambda message: message.source in nodes or message.target in nodes)


def _one_configuration_is_under_way():
    """A leader that is alone is asked for one set of voters, and then for another one."""
    with Group(5, 1, 2, 3) as group:
        group.begin(1, 1, 2, 3, 4, 5)
        isolate(group, 1)
        for asked in (target(1, 2, 4), target(1, 2, 5, revision=2)):
            group.aim(asked, 1)
            group.advance(0.5)
        leader = group.replica(1)
        assert leader.state.is_leader
        assert leader.log.dirty_index == leader.state.commit_index + 1, "two configurations are under way"


def _a_truncation_brings_the_former_configuration_back():
    """A leader that is alone appends a configuration; the next leader's log lacks it."""
    with Group(4, 1, 2, 3) as group:
        group.begin(1, 1, 2, 3, 4)
        isolate(group, 1)
        group.aim(target(1, 2, 4), 1)
        assert group.replica(1).state.configurations.index != NO_INDEX
        group.wire.lose(lambda _: True)
        group.elect(2)
        group.wire.is_cut[1] = False
        group.tick(10)
        assert group.terms(1) == group.terms(2)
        assert group.replica(1).configuration == group.configuration, "the newer configuration is still there"


def _the_former_configuration_comes_back_with_the_cut():
    """As above, and the disk of the former leader does not answer where to cut."""
    with Group(4, 1, 2, 3) as group:
        group.begin(1, 1, 2, 3, 4)
        isolate(group, 1)
        group.aim(target(1, 2, 4), 1)
        replica, newer = group.replica(1), group.replica(1).configuration
        group.wire.lose(lambda _: True)
        group.elect(2)
        group.wire.is_cut[1] = False
        group.actors[1].workers.hold(Pool.READ)
        group.tick(10)
        assert group.actors[1].probe.truncations == 1
        assert group.terms(1) != group.terms(2), "the entries are still there"
        assert replica.configuration == newer, "a configuration is no longer in force, and its entry is still there"
        group.call(lambda: group.actors[1].workers.release(Pool.READ))
        group.tick(10)
        assert group.terms(1) == group.terms(2)
        assert replica.configuration == group.configuration


def _both_voter_sets_elect():
    """{1, 2, 3} and {3, 4, 5} decide together; 1 and 2 are gone."""
    with Group(5, 1, 2, 3) as group:
        group.begin(1, 1, 2, 3, 4, 5)
        group.aim(target(3, 4, 5))
        group.go_until_joint(1)
        while not all(group.replica(node).configuration.is_joint for node in (3, 4, 5)):
            group.hand_over(group.wire.take(lambda message: message.source == 1 or message.reply is not None))
            group.settle()
        isolate(group, 1, 2)
        for _ in range(20):
            group.advance(1.0)
            group.deliver(lambda _: True)
        assert not any(group.actors[node].probe.elections_won for node in (3, 4, 5)), "one set has elected"


def _learners_count_nowhere():
    """A leader and two learners for good are on one side, the other voters on the other."""
    with Group(5, 1, 2, 3) as group:
        group.begin(1, 1, 2, 3, 4, 5)
        group.reach(Target(replicas(1, 2, 3), Revision(0, 1), learners=replicas(4, 5)))
        group.tick(3)
        isolate(group, 2, 3)
        group.write(1)
        group.tick(2)
        assert group.terms(4) == group.terms(5) == group.terms(1)
        assert not group.is_done("w1"), "a learner was counted"


def _a_learner_does_not_stand():
    """The leader dies while node 4 learns, and node 4 hears of nobody."""
    with Group(4, 1, 2, 3) as group:
        group.begin(1, 1, 2, 3, 4)
        group.reach(Target(replicas(1, 2, 3), Revision(0, 1), learners=replicas(4)))
        group.tick(3)
        assert group.replica(4).configuration.learners == replicas(4)
        isolate(group, 1)
        group.advance(30.0)
        assert group.actors[4].probe.elections_started == 0, "a learner stands"


def _a_learner_votes_once_it_has_fsynced():
    """The fsyncs of the learner hang."""
    with Group(4, 1, 2, 3) as group:
        group.begin(1, 1, 2, 3, 4)
        group.actors[4].workers.hold(Pool.FSYNC)
        group.aim(target(1, 2, 4))
        group.tick(20)
        assert group.replica(4).log.dirty_index > group.replica(4).log.flushed_index
        assert group.replica(1).configuration.learners == replicas(4), "promoted before it has fsynced"
        assert not group.replica(1).configuration.is_joint
        group.call(lambda: group.actors[4].workers.release(Pool.FSYNC))
        assert group.reach(target(1, 2, 4)) == 1


# The bug, the schedule that shows it, and what the schedule then says.
BUGS = {
    "two uncommitted configurations": (
        membership.two_configurations_are_under_way,
        _one_configuration_is_under_way,
        "two configurations are under way",
    ),
    "truncation keeps the newer configuration": (
        membership.truncations_keep_the_newer_configuration,
        _a_truncation_brings_the_former_configuration_back,
        "the newer configuration is still there",
    ),
    "configuration cut before the log": (
        membership.configurations_are_cut_before_the_log,
        _the_former_configuration_comes_back_with_the_cut,
        "a configuration is no longer in force",
    ),
    "joint configuration elects by one set": (
        membership.joint_configurations_elect_by_one_set,
        _both_voter_sets_elect,
        "one set has elected",
    ),
    "learner counts": (PLANTED["a learner counts"], _learners_count_nowhere, "a learner was counted"),
    "learner stands": (
        lambda patch: patch.setattr(ReplicaState, "may_stand", property(lambda state: True)),
        _a_learner_does_not_stand,
        "a learner stands",
    ),
    "promotion on match instead of flushed": (
        membership.learners_are_promoted_by_what_they_have_written,
        _a_learner_votes_once_it_has_fsynced,
        "promoted before it has fsynced",
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_schedule_of_members_ends_well(bug):
    BUGS[bug][1]()


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_planted_in_the_change_of_members_is_found(bug, monkeypatch):
    plant, schedule, words = BUGS[bug]
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=words):
        schedule()
