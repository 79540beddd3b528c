"""A replica leaves its broker, and something comes too late or too early: RFC 0019 sections 5 and 6."""

import pytest

from cluster.topic_table import Topic
from model.ids import RAFT0, NodeId
from raft.gravestone import read_gravestone
from raft.messages import VoteRequest
from rpc.errors import RpcError
from tests.simulation.known_bugs.table import plant
from tests.simulation.scenarios.held_calls import HeldCalls
from tests.simulation.scenarios.scenario import QUORUM, Write, _steer
from tests.simulation.scenarios.test_members import NODES, Members
from tests.simulation.world.cluster import TOPIC
from tests.simulation.world.world import SimulationError


class _Story(Members):
    """The leader A and `stays` keep the partition; `leaves` gives its place to `new`."""

    def __enter__(self) -> "_Story":
        super().__enter__()
        self.a = self.leader
        self.placed = self.voters
        self.leaves, self.stays = (node for node in self.placed if node != self.a)
        self.new = next(node for node in NODES if node not in self.placed)
        self.moved = [self.a, self.stays, self.new]
        return self

    def acknowledged(self, node_id: int) -> Write:
        """Return a write that was answered at acks=all."""
        write = self.write(node_id, QUORUM)
        self.wait(lambda: write.is_answered)
        assert write.result is not None, write.error
        return write

    def table(self, node_id: int) -> Topic:
        """What a broker's tables say of the topic."""
        topic = self.cluster.nodes[node_id].controller.topics.get(TOPIC)
        assert topic is not None
        return topic

    def is_placed(self, target: list[int]) -> bool:
        """Whether A's tables say that these brokers hold the partition, and that nothing moves."""
        topic = self.table(self.a)
        return topic.move_of(0) is None and [each.node_id for each in topic.replicas[0]] == target


# -- late removals ----------------------------------------------------------------------------------------------------


def _a_late_removal_takes_nothing() -> None:
    """A broker is told to let its replica leave, and is slow. Before it does, the replica is wanted again, votes, and
    is one of two that hold a write.
    """
    with _Story(3) as story:
        removal = HeldCalls(story, story.leaves, story.cluster.nodes[story.leaves].groups, "leave")
        story.ask(story.moved)
        story.wait(lambda: removal.count > 0, 20.0)
        story.ask(story.placed)
        story.wait(lambda: story.is_placed(story.placed), 20.0)
        story.connect([node for node in NODES if node != story.stays])
        write = story.acknowledged(story.a)
        removal.let_go()
        story.run_for(2.0)
        # The other one that holds it dies.
        story.kill(story.a)
        story.heal()
        story.elect_into_office(story.leaves)
        assert story.holds(story.leaves, write)
        story.restart(story.a)
        story.until_placed(story.placed)
        assert all(story.holds(node, write) for node in story.placed)


def test_a_replica_that_is_wanted_again_before_it_was_removed_stays() -> None:
    _a_late_removal_takes_nothing()


def test_a_late_removal_takes_a_replica_that_counts_if_revisions_are_not_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch, "replicas_leave_whatever_their_logs_say")
    with pytest.raises(SimulationError) as caught:
        _a_late_removal_takes_nothing()
    assert "LeavingReplicas" in str(caught.value.__cause__)


# -- votes of who leaves ----------------------------------------------------------------------------------------------


def _who_leaves_grants_no_vote() -> None:
    """A candidate of the joint voters asks for a vote, and the request arrives when the gravestone has been written."""
    with _Story(4) as story:
        directories = story.cluster.nodes[story.leaves].groups._directories
        gravestone = HeldCalls(story, story.leaves, directories, "begin_leaving", is_done_first=True)
        story.ask(story.moved)
        story.wait(lambda: story.replica(story.stays).configuration.is_joint)
        state = story.replica(story.stays).state
        end = state.log_end
        request = VoteRequest(story.group, state.term + 1, end.last_index, end.term, pre=False)
        story.wait(lambda: gravestone.count > 0, 20.0)
        leaving = story.cluster.consensus(story.leaves, story.group)
        if leaving is not None:
            story.machine(story.leaves).spawn(_steer(leaving, stands=False))
        granted: list[bool] = []
        client = story.cluster.nodes[story.stays].groups._node.client

        async def ask() -> None:
            try:
                granted.append((await client.vote(NodeId(story.leaves), request)).granted)
            except RpcError:
                granted.append(False)

        story.machine(story.stays).spawn(ask())
        story.wait(lambda: bool(granted))
        assert granted == [False], "it has voted, and its gravestone does not know"
        gravestone.let_go()
        # It returns by its gravestone.
        story.wait(lambda: story.is_placed(story.moved), 20.0)
        story.ask(story.placed)
        story.until_placed(story.placed)


def test_a_replica_that_leaves_grants_no_vote() -> None:
    _who_leaves_grants_no_vote()


def test_a_replica_that_leaves_votes_behind_its_gravestone_if_its_fibers_end_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch, "replicas_that_have_left_still_grant_votes")
    with pytest.raises(AssertionError, match="its gravestone does not know"):
        _who_leaves_grants_no_vote()


# -- late reports -----------------------------------------------------------------------------------------------------


def _a_late_report_finishes_nothing() -> None:
    """A partition has moved, and the report of it is late. The move is cancelled, and then the report arrives."""
    with _Story(5) as story:
        reports = [HeldCalls(story, node, story.cluster.nodes[node].placements, "report") for node in NODES]
        story.ask(story.moved)
        story.wait(lambda: any(each.count for each in reports), 20.0)
        assert sorted(story.voters) == sorted(story.moved)
        write = story.acknowledged(story.a)
        story.ask(None)
        story.wait(lambda: all(story.table(node).move_of(0).is_cancelled for node in NODES))
        for each in reports:
            each.let_go()
        story.until_placed(story.placed)
        assert all(story.holds(node, write) for node in story.placed)


def test_a_move_that_was_cancelled_is_not_finished_by_the_report_of_the_former_one() -> None:
    _a_late_report_finishes_nothing()


def test_a_late_report_takes_replicas_that_vote_if_revisions_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "moves_finish_whatever_their_revision")
    with pytest.raises(SimulationError) as caught:
        _a_late_report_finishes_nothing()
    assert "LeavingReplicas" in str(caught.value.__cause__)


# -- who hears of a move by a snapshot --------------------------------------------------------------------------------


def test_a_broker_that_missed_a_move_leaves_by_what_a_snapshot_of_raft0_says() -> None:
    """It is down while the partition moves, and raft0's log begins behind what it has when it returns."""
    with _Story(9) as story:
        write = story.acknowledged(story.a)
        raft0 = story.cluster.consensus(story.leaves, RAFT0)
        assert raft0 is not None
        end = raft0.log.dirty_index
        story.kill(story.leaves)
        story.ask(story.moved)
        story.wait(lambda: story.is_placed(story.moved), 20.0)
        for _ in range(8):
            for order in (story.moved[::-1], story.moved):
                story.ask(order)
                story.wait(lambda order=order: story.is_placed(order), 20.0)
        story.wait(lambda: all(story.cluster.consensus(node, RAFT0).log.start_index > end + 1 for node in story.moved))
        story.cluster.start(story.leaves)
        story.until_placed(story.moved)
        gravestone = read_gravestone(story.cluster.nodes[story.leaves]._kvstore, story.group)
        assert gravestone is not None
        assert gravestone.last_index > 0
        # It returns by its gravestone, and has everything.
        story.ask(story.placed)
        story.until_placed(story.placed)
        assert all(story.holds(node, write) for node in story.placed)
