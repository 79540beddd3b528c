"""Members change while messages are lost and late, replicas restart and links are cut: what is committed stays.

A seed decides everything. The replicas are production code on the stage of the transcripts; so what a seed finds is
found again by it: `LIVING_SEEDS=17..17 pytest tests/unit/raft/test_living_group.py`.
"""

import os
import random

import pytest

from model.ids import ConsistencyLevel, Index, Term
from raft import membership_steps, replica_state
from raft.configuration_log import ConfigurationLog
from raft.consensus import Consensus
from raft.errors import InvariantViolatedError
from raft.gravestone import gravestone_key, put_gravestone, read_gravestone, revive
from raft.group_configuration import GroupConfiguration, RaftPolicy, Revision
from raft.membership_steps import Target
from raft.options import RaftOptions
from raft.replica_state import ReplicaState, Role
from raft.rules import agreement
from raft.rules.election import LogEnd
from raft.vote_floor import floor_key
from raft.vote_store import vote_key
from storage.memory_kvstore import MemoryKvStore
from tests.unit.raft.message_wire import replica
from tests.unit.raft.stage import GROUP, Stage

NODES = 6
STEPS = 220
_FIRST, _LAST = map(int, os.environ.get("LIVING_SEEDS", "1..24").split(".."))


class Living:
    """One run: a group of three in a world of six nodes."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.stage = Stage(NODES, RaftOptions())
        self.founders = tuple(self.rng.sample(range(1, NODES + 1), self.rng.choice([1, 2, 3, 3, 3])))
        self.stage.configuration = GroupConfiguration.of(tuple(map(replica, self.founders)))
        self.revision = 0
        self.writes = 0
        self.target = None
        self.leaders = {}
        self.committed = {}
        self.joint_seen = 0
        # What raft0's tables would say: the newest target that was reached. And what each node has applied of them.
        self.finished = None
        self.known = dict.fromkeys(self.stage.actors, (None, None))
        self.left = set()
        self.times_left = 0

    # -- what may happen ----------------------------------------------------------------------------------------

    def running(self):
        return [node for node, actor in self.stage.actors.items() if actor.consensus is not None]

    def leaders_now(self):
        return [node for node in self.running() if self.stage.replica(node).state.is_leader]

    def step(self):
        actions = {
            self.deliver_some: 50,
            self.beat: 12,
            self.pass_time: 12,
            self.write: 8,
            self.aim: 6,
            self.cut_or_heal: 4,
            self.restart: 4,
            self.leave: 6,
            self.stand: 3,
        }
        (action,) = self.rng.choices(list(actions), list(actions.values()))
        action()
        self.check()

    def any_node(self):
        return self.rng.choice(list(self.stage.actors))

    def deliver_some(self):
        self.deliver(self.rng.randint(1, 12))

    def beat(self):
        for node in self.leaders_now():
            self.stage.beat(node)
        self.stage.settle()

    def pass_time(self):
        self.stage.advance(self.rng.choice([0.05, 0.15, 0.15, 0.5, 2.0]))

    def cut_or_heal(self):
        node, wire = self.any_node(), self.stage.wire
        wire.is_cut[node] = not wire.is_cut.get(node, False)
        wire.lose(lambda each: node in (each.source, each.target))
        if not wire.is_cut[node]:
            self.tell(node)

    def stand(self):
        node = self.any_node()
        consensus = self.stage.actors[node].consensus
        if consensus is not None and consensus.state.role is Role.FOLLOWER:
            consensus._election._heard_at = None
            self.stage.stand(node)
            self.stage.settle()

    def deliver(self, count):
        stage = self.stage
        for _ in range(count):
            if not stage.wire.in_flight:
                return
            # Replies of one link keep their order, as on a connection; links do not wait for each other.
            chosen = self.rng.choice(stage.wire.in_flight)
            pair = (chosen.source, chosen.target)
            message = stage.wire.take(lambda each, pair=pair: (each.source, each.target) == pair)
            if self.rng.random() < 0.03 or (message.reply is None and stage.actors[message.target].consensus is None):
                stage.wire.in_flight.append(message)
                stage.wire.lose(lambda each, lost=message: each is lost)
            else:
                stage.hand_over(message)
            stage.settle()
            self.check()

    def write(self):
        in_office = [node for node in self.running() if self.stage.replica(node).is_in_office]
        if in_office:
            self.writes += 1
            node = self.rng.choice(in_office)
            self.stage.replicate(node, f"w{self.writes}", ConsistencyLevel.QUORUM_ACK, 200, None, 5.0)
            self.stage.settle()

    def aim(self):
        self.revision += 1
        nodes = self.rng.sample(range(1, NODES + 1), self.rng.choice([1, 2, 3, 3, 3, 4, 5]))
        self.target = Target(tuple(map(replica, nodes)), Revision(0, self.revision), learners=self.learners(nodes))
        for node in self.running():
            if not self.stage.wire.is_cut.get(node, False):
                self.tell(node)

    def learners(self, voters):
        """Who learns for good beside these voters."""
        return ()

    def tell(self, node):
        self.known[node] = (self.finished, self.target)
        if node in self.left and self.target is not None and replica(node) in members_of(self.target):
            self.come_back(node)
        if self.target is not None and self.stage.actors[node].consensus is not None:
            self.stage.call(lambda target=self.target: self.stage.replica(node).reconfigure(target))
            self.stage.settle()

    def restart(self):
        node, stage = self.any_node(), self.stage
        if stage.actors[node].consensus is not None:
            stage.stop(node)
            stage.settle()
            stage.wire.lose(lambda each: node in (each.source, each.target))
            stage.settle()
            if self.rng.random() < 0.5:
                return
        if node not in self.left:
            stage.start(node)
        self.tell(node)

    def may_leave(self, node):
        """Whether a node knows that its replica is in no voters that are wanted, or in force."""
        finished, target = self.known[node]
        consensus = self.stage.actors[node].consensus
        if finished is None or consensus is None or consensus.configuration.revision > finished.revision:
            return False
        return not any(replica(node) in members_of(wanted) for wanted in (finished, target))

    def leave(self):
        """A replica is deleted, but for its gravestone."""
        leaving = [node for node in self.stage.actors if self.may_leave(node)]
        if not leaving:
            return
        node = self.rng.choice(leaving)
        stage, actor = self.stage, self.stage.actors[node]
        log_end = actor.consensus.state.log_end
        stage.stop(node)
        stage.settle()
        stage.wire.lose(lambda each: node in (each.source, each.target))
        kvstore = MemoryKvStore(actor.environment, actor.durable)
        self.bury(kvstore, log_end)
        for key in (vote_key(GROUP), floor_key(GROUP)):
            kvstore.delete(key)
        stage.run(kvstore.sync())
        files = actor.environment.files
        for name in files.listdir(actor.directory):
            files.unlink(f"{actor.directory}/{name}")
        files.rmdir(actor.directory)
        self.left.add(node)
        self.times_left += 1

    def bury(self, kvstore, log_end):
        put_gravestone(kvstore, GROUP, log_end)

    def come_back(self, node):
        actor = self.stage.actors[node]
        kvstore = MemoryKvStore(actor.environment, actor.durable)
        gravestone = read_gravestone(kvstore, GROUP)
        if gravestone is not None:
            revive(kvstore, GROUP, gravestone)
            kvstore.delete(gravestone_key(GROUP))
        self.stage.run(kvstore.sync())
        self.left.discard(node)
        self.stage.start(node)

    # -- what holds at any time ---------------------------------------------------------------------------------

    def check(self):
        for node in self.running():
            consensus = self.stage.replica(node)
            state, log = consensus.state, consensus.log
            assert consensus.failure is None, consensus.failure
            if state.is_leader:
                # S1: one leader in a term, whatever the configurations are.
                assert self.leaders.setdefault(state.term, node) == node, f"two leaders in term {state.term}"
            if state.role is Role.CANDIDATE:
                known = [configuration for _, configuration in state.configurations._noted]
                assert any(each.is_voter(replica(node)) for each in known), f"node {node} stands and is no voter"
            reconfiguration = consensus.reconfiguration
            if state.is_in_office and reconfiguration.has_reached:
                reached = reconfiguration.target
                if self.finished is None or reached.revision > self.finished.revision:
                    self.finished = reached
            self.joint_seen += state.configuration.is_joint
            for index in range(log.start_index, state.commit_index + 1):
                term = log.term_at(Index(index))
                assert self.committed.setdefault(index, term) == term, f"entry {index} was committed in two terms"

    def finish(self):
        """Everything heals: the group serves again, with the voters that are wanted, and has what it acknowledged."""
        stage = self.stage
        stage.wire.is_cut.clear()
        for node in stage.actors:
            if stage.actors[node].consensus is None and node not in self.left:
                stage.start(node)
        for _ in range(400):
            for node in self.leaders_now():
                stage.call(stage.replica(node).watch.check)
                stage.beat(node)
            stage.settle()
            for _ in range(1000):
                if not stage.wire.in_flight:
                    break
                self.deliver(1)
            for node in stage.actors:
                self.tell(node)
            stage.advance(0.15)
            self.check()
            if self.is_quiet():
                return
        raise AssertionError("\n".join(stage.actors[node].status() for node in self.running()))

    def is_quiet(self):
        leaders = [node for node in self.running() if self.stage.replica(node).is_in_office]
        if len(leaders) != 1:
            return False
        leader = self.stage.replica(leaders[0])
        if self.target is not None and not leader.reconfiguration.has_reached:
            return False
        wanted = self.founders if self.target is None else [voter.node_id for voter in self.target.voters]
        # L6 of RFC 0019: the configuration is what was wanted, and all of its voters have all of the log.
        learning = () if self.target is None else self.target.learners
        ends = {self.stage.replica(node).log.dirty_index for node in (*wanted, *(each.node_id for each in learning))}
        if set(leader.configuration.learners) != set(learning):
            return False
        return set(leader.configuration.voter_ids) == set(wanted) and len(ends) == 1


class Learning(Living):
    """One run in which most of those that do not vote learn for good, as brokers do in raft0."""

    def __init__(self, seed):
        super().__init__(seed)
        self.draw = random.Random(f"learners {seed}")
        self.learned = 0

    def learners(self, voters):
        others = [node for node in self.stage.actors if node not in voters and self.draw.random() < 0.8]
        return tuple(map(replica, others))

    def aim(self):
        """Half of the time only the learners change."""
        if self.target is None or self.draw.random() < 0.5:
            super().aim()
            return
        self.revision += 1
        nodes = [voter.node_id for voter in self.target.voters]
        self.target = Target(self.target.voters, Revision(0, self.revision), learners=self.learners(nodes))
        for node in self.running():
            if not self.stage.wire.is_cut.get(node, False):
                self.tell(node)

    def check(self):
        super().check()
        for node in self.running():
            state = self.stage.replica(node).state
            is_learner = replica(node) in state.configuration.learners
            self.learned += is_learner and state.commit_index > 0
            # Whoever has become a learner leads until that is committed, and no longer.
            assert not (is_learner and state.is_leader and state.configurations.is_committed and state.is_in_office)


def members_of(target):
    return (*target.voters, *target.learners)


def run(seed, kind=Living):
    living = kind(seed)
    with living.stage as stage:
        for node in stage.actors:
            stage.start(node)
        for _ in range(STEPS):
            living.step()
        living.finish()
        done = sum(" done: index " in event for event in stage.events)
        return living, done


@pytest.mark.parametrize("seed", range(_FIRST, _LAST + 1))
def test_what_is_committed_stays_and_the_group_gets_the_voters_that_are_wanted(seed):
    run(seed)


@pytest.mark.parametrize("seed", range(_FIRST, _LAST + 1))
def test_who_learns_for_good_has_what_is_committed_and_counts_nowhere(seed):
    living, _ = run(seed, Learning)
    assert living.learned


def _elects_by_one_set(patch):
    real = agreement.has_majority
    for module in ("raft.vote_stm", "raft.election_timer"):
        patch.setattr(f"{module}.has_majority", lambda quorums, granted: real(quorums[-1:], granted))


def _commits_by_one_set(patch):
    real = agreement.commit_point
    patch.setattr(replica_state.agreement, "commit_point", lambda quorums, *rest: real(quorums[-1:], *rest))


def _learners_count(patch):
    real = RaftPolicy.commit_quorums

    def counted(policy, configuration):
        if not configuration.learners:
            return real(policy, configuration)
        members = tuple(configuration.replicas)
        return real(policy, GroupConfiguration((members,)))

    patch.setattr(RaftPolicy, "commit_quorums", counted)


def _truncation_keeps_the_newer(patch):
    patch.setattr(ConfigurationLog, "truncate", lambda log, first_removed: None)


def _no_joint(patch):
    real = membership_steps.next_step

    def step(current, target, *rest):
        found = real(current, target, *rest)
        if isinstance(found, membership_steps.Append) and found.configuration.is_joint:
            voters = found.configuration.voter_sets[1:]
            return membership_steps.Append(GroupConfiguration(voters, (), target.revision))
        return found

    patch.setattr("raft.reconfiguration_stm.next_step", step)


def _gravestone_forgotten(patch):
    patch.setattr(Living, "bury", lambda *_: None)


def _vote_kept_without_log_end(patch):
    patch.setattr(Living, "bury", lambda living, kvstore, _: put_gravestone(kvstore, GROUP, LogEnd(Term(0), Index(0))))


def _removed_leads_on(patch):
    real = Consensus.step_down

    def step_down(consensus, reason):
        if reason != "it is no voter any more":
            real(consensus, reason)

    patch.setattr(Consensus, "step_down", step_down)


def _who_leaves_never_stands(patch):
    """The first rule of this design, by which seed 279 lost its last candidate."""
    patch.setattr(ReplicaState, "may_stand", property(lambda state: state.is_voter))


def _who_is_no_voter_stands(patch):
    patch.setattr(ReplicaState, "may_stand", property(lambda state: True))


PLANTED = {
    "joint elects by one set": _elects_by_one_set,
    "joint commits by one set": _commits_by_one_set,
    "a learner counts": _learners_count,
    "a truncation keeps the newer configuration": _truncation_keeps_the_newer,
    "no joint configuration": _no_joint,
    "who is no voter stands": _who_is_no_voter_stands,
    "gravestone forgotten": _gravestone_forgotten,
    "vote kept without log end": _vote_kept_without_log_end,
    "a leader that was removed leads on": _removed_leads_on,
    "who leaves never stands": _who_leaves_never_stands,
}


# Where the first seed that finds a bug is far.
_PINS = {
    "a leader that was removed leads on": 2190,
    "a truncation keeps the newer configuration": 573,
    "joint elects by one set": 997,
    "who leaves never stands": 925,
}


@pytest.mark.parametrize("bug", ["a learner counts", "joint commits by one set", "no joint configuration"])
def test_a_planted_bug_is_found_beside_learners_for_good(bug, monkeypatch):
    PLANTED[bug](monkeypatch)
    for seed in range(1, 400):
        try:
            run(seed, Learning)
        except (AssertionError, KeyError, InvariantViolatedError):
            return
    pytest.fail(f"no seed finds: {bug}")


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug, monkeypatch):
    PLANTED[bug](monkeypatch)
    first = _PINS.get(bug, 1)
    for seed in range(first, first + 400):
        try:
            run(seed)
        except (AssertionError, KeyError, InvariantViolatedError):
            return
    pytest.fail(f"no seed finds: {bug}")
