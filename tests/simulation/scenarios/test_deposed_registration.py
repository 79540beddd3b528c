"""RFC 0012: nothing is deleted on the word of a leader that may be deposed, or may not know all that it has committed
(counterexample 41); and what a follower has done in a term, a restart does not forget (RFC 0003 section 8).
"""

import asyncio
import contextlib

import pytest

import tests.simulation.world.observer
from cluster.commands import CreateTopic, ReplicaRecord
from cluster.errors import ClusterError
from model.ids import RAFT0, TopicId, partition_group
from tests.simulation.clients.workload import record_batch
from tests.simulation.known_bugs.table import plant
from tests.simulation.scenarios.scenario import QUORUM, Scenario, _steer
from tests.simulation.world.replica_view import content_key
from tests.simulation.world.world import SimulationError

_TOPIC_ID = TopicId("ab" * 16)
_GROUP = partition_group(_TOPIC_ID, 0)
_WRITE = record_batch([b"precious"])


class _Story(Scenario):
    """Five brokers. A leads raft0; the topic X is created with its one replica on B."""

    def __enter__(self):
        super().__enter__()
        self.candidates = None
        self.run_for(1.0)
        leader = self.cluster.leader_of(RAFT0)
        assert leader is not None
        self.a, (self.b, self.c, *self.others) = leader, [node for node in self.world.nodes if node != leader]
        self.cluster.history.sent.add(content_key(_WRITE))
        return self

    def raft0(self, node_id: int):
        consensus = self.cluster.consensus(node_id, RAFT0)
        assert consensus is not None
        return consensus

    @property
    def is_led_by_b(self) -> bool:
        partition = self.cluster.partition(self.b, _GROUP)
        return partition is not None and partition.is_in_office

    def propose_topic(self) -> None:
        node = self.cluster.nodes[self.a]
        replica = ReplicaRecord(self.b, self.cluster.nodes[self.b].replica.directory_id)

        async def propose() -> None:
            deadline = asyncio.get_running_loop().time() + 20.0
            with contextlib.suppress(ClusterError):
                await node.controller.propose(CreateTopic("X", _TOPIC_ID, [[replica]], {}), deadline)

        self.machine(self.a).spawn(propose())

    def write_to_x(self) -> None:
        """B acknowledges a write to X at acks=all."""
        answered: list[int] = []

        async def produce() -> None:
            partition = self.cluster.partition(self.b, _GROUP)
            deadline = asyncio.get_running_loop().time() + 5.0
            answered.append((await partition.produce(bytearray(_WRITE), 1, QUORUM, deadline).replicated).last_index)

        self.wait(lambda: self.is_led_by_b)
        self.machine(self.b).spawn(produce())
        self.wait(lambda: bool(answered))

    def heal_and_look(self) -> None:
        """All links work: the write is still there."""
        self.heal()
        self.run_for(10.0)
        assert self.is_led_by_b, "nobody leads X"
        end = self.cluster.partition(self.b, _GROUP).high_watermark
        assert end == 1, f"what was acknowledged at offset 0 of X is gone: its high watermark is {end}"
        self.wait(self.cluster.has_converged)


def _a_restarted_broker_meets_the_deposed_leader() -> None:
    with _Story(77, nodes=5) as story:
        a, b, c = story.a, story.b, story.c
        end = story.raft0(a).log.dirty_index + 1
        # The creation of X reaches everybody; no answer reaches A.
        for node in (b, c, *story.others):
            story.world.network.cut(node, a)
        story.propose_topic()
        story.wait(lambda: all(story.raft0(node).log.flushed_index >= end for node in story.world.nodes))
        # C is elected by the others; B still hears A and does not vote.
        for node in (c, *story.others):
            story.world.network.reset(a, node)
        story.connect([a], [b], [c, *story.others])
        for node in (c, *story.others):
            story.machine(node).spawn(_steer(story.raft0(node), stands=node == c))
        story.wait(lambda: story.raft0(c).is_in_office)
        # By what C tells it B commits the creation, and the barrier of the new term never reaches it.
        story.connect([a], [b, c, *story.others])
        story.wait(lambda: story.raft0(b).state.commit_index >= end)
        story.connect([a], [b], [c, *story.others])
        story.write_to_x()
        # B restarts and reaches only A, which is deposed and does not know.
        story.kill(b)
        story.connect([a, b], [c, *story.others])
        story.cluster.start(b)
        story.run_for(3.0)
        story.heal_and_look()


def test_a_broker_deletes_nothing_on_the_word_of_a_deposed_leader() -> None:
    _a_restarted_broker_meets_the_deposed_leader()


def test_a_broker_deletes_data_if_terms_are_forgotten_and_registrations_not_confirmed(monkeypatch) -> None:
    plant(monkeypatch, "heard_terms_are_never_persisted")
    plant(monkeypatch, "registrations_are_not_confirmed")
    monkeypatch.setattr(tests.simulation.world.observer, "ALL", ())
    with pytest.raises(AssertionError, match="is gone"):
        _a_restarted_broker_meets_the_deposed_leader()


@pytest.mark.parametrize("bug", ["heard_terms_are_never_persisted", "registrations_are_not_confirmed"])
def test_each_of_the_two_rules_would_have_kept_it(monkeypatch, bug: str) -> None:
    plant(monkeypatch, bug)
    monkeypatch.setattr(tests.simulation.world.observer, "ALL", ())
    _a_restarted_broker_meets_the_deposed_leader()


def _a_broker_registers_with_a_leader_that_lags() -> None:
    with _Story(78, nodes=5) as story:
        a, b = story.a, story.b
        tables, encoded = story.raft0(a)._log_state._stepped, asyncio.Event()

        async def encode() -> None:
            async with tables.unchanged():
                await encoded.wait()

        # While a snapshot of A's tables is encoded nothing is applied to them.
        story.machine(a).spawn(encode())
        story.run_for(0.1)
        story.propose_topic()
        story.write_to_x()
        story.kill(b)
        story.cluster.start(b)
        story.run_for(1.0)
        committed = story.raft0(a).state.commit_index
        assert story.cluster.nodes[a].controller.applied_index < committed
        is_registered = story.cluster.nodes[b].is_registered
        assert not is_registered.is_set(), f"B is registered, and A knows less than what is committed up to {committed}"
        story.machine(a).loop.post(encoded.set)
        story.wait(is_registered.is_set)
        story.heal_and_look()


def test_a_registration_is_answered_once_the_leader_has_applied_what_it_had_committed() -> None:
    _a_broker_registers_with_a_leader_that_lags()


def test_a_registration_is_answered_too_early_if_the_applied_index_is_the_answer(monkeypatch) -> None:
    plant(monkeypatch, "registrations_are_answered_with_the_applied_index")
    monkeypatch.setattr(tests.simulation.world.observer, "ALL", ())
    with pytest.raises(AssertionError, match="A knows less"):
        _a_broker_registers_with_a_leader_that_lags()


def test_the_invariant_objects_to_it(monkeypatch) -> None:
    plant(monkeypatch, "registrations_are_answered_with_the_applied_index")
    with pytest.raises(SimulationError) as caught:
        _a_broker_registers_with_a_leader_that_lags()
    assert "RegistrationsAreCurrent" in str(caught.value.__cause__)


def _a_follower_commits_in_a_term_and_restarts() -> None:
    with Scenario(79) as story:
        former = story.leader
        leader, follower = story.followers
        write = story.write(former, QUORUM)
        # It holds the entry, and has not been told that it is committed.
        story.wait(
            lambda: story.holds(follower, write) and story.view(follower).now.flushed == len(story.log(follower))
        )
        end = len(story.log(follower))
        story.connect([former, leader], [follower])
        assert story.replica(follower).state.commit_index < end
        story.machine(former).spawn(_hand_over(story, former, leader))
        story.wait(lambda: story.replica(leader).is_in_office)
        term = story.replica(leader).term
        # It commits the entry in the new term, and gets none of its entries.
        story.connect([former, leader, follower])
        story.wait(lambda: story.replica(follower).state.commit_index >= end)
        story.connect([former, leader], [follower])
        assert story.terms(follower)[-1] < term
        story.kill(follower)
        story.restart(follower)
        assert story.replica(follower).term == term, "it has committed in a term that it does not know any more"
        story.converge()


async def _hand_over(story: Scenario, leader: int, target: int) -> None:
    await story.replica(leader).transfer.run(target)


def test_a_restart_does_not_forget_the_term_in_which_a_follower_has_committed() -> None:
    _a_follower_commits_in_a_term_and_restarts()


def test_a_restart_forgets_the_term_if_one_that_was_only_heard_of_is_not_persisted(monkeypatch) -> None:
    plant(monkeypatch, "heard_terms_are_never_persisted")
    monkeypatch.setattr(tests.simulation.world.observer, "ALL", ())
    with pytest.raises(AssertionError, match="does not know any more"):
        _a_follower_commits_in_a_term_and_restarts()
