"""One message per node and interval, whatever the number of groups; and the quorum check on the same tick."""

from collections.abc import Iterator

import pytest

from raft.heartbeat_manager import _BEATS_MAX, _UNANSWERED_MAX, HeartbeatManager
from raft.messages import Heartbeat, HeartbeatReply, HeartbeatRequest
from raft.options import RaftOptions
from rpc.codec import REQUEST, body_builtins, encode_header
from rpc.framing import MAX_HEADER_BYTES
from runtime.gate import Gate
from tests.unit.raft.message_wire import WireClient
from tests.unit.raft.stage import Stage

# No elections by time: what is told here is the leader's side.
OPTIONS = RaftOptions(heartbeat_interval=0.15, election_timeout=1.0)


class Beats:
    """A leader in office of three whose heartbeats the tests send through their own manager."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.manager = HeartbeatManager(WireClient(stage.wire, 1), OPTIONS, Gate("beats"), stage.actors[1].limits.disk)
        self.manager.on_leadership(stage.replica(1))

    def start(self) -> None:
        self.stage.call(self.manager.start)
        self.stage.settle()

    def in_flight(self) -> list[tuple[int, int]]:
        """Target and number of beats of each heartbeat on the wire."""
        return [
            (message.target, len(message.request.beats))
            for message in self.stage.wire.in_flight
            if isinstance(message.request, HeartbeatRequest)
        ]


@pytest.fixture
def beats() -> Iterator[Beats]:
    with Stage(3, OPTIONS) as stage:
        for node_id in stage.actors:
            stage.start(node_id)
        stage.elect(1)
        stage.wire.lose(lambda _: True)
        yield Beats(stage)


def test_every_interval_each_follower_node_gets_one_message(beats: Beats) -> None:
    beats.start()
    beats.stage.advance(0.149)
    assert beats.in_flight() == []
    beats.stage.advance(0.001)
    assert beats.in_flight() == [(2, 1), (3, 1)]
    beats.stage.advance(0.150)
    assert beats.in_flight() == [(2, 1), (3, 1)] * 2


def test_all_groups_of_a_node_travel_in_one_message_and_each_gets_its_reply(beats: Beats) -> None:
    leader = beats.stage.replica(1)
    beats.stage.call(lambda: beats.manager._dispatch([(leader, leader.state.followers)] * 2))
    beats.stage.settle()
    assert beats.in_flight() == [(2, 2), (3, 2)]
    follower = leader.state.followers[2]
    follower.last_reply_at = float("-inf")
    beats.stage.deliver(lambda _: True)
    assert follower.last_reply_at == beats.stage.world.time


def test_more_groups_than_a_frame_holds_travel_in_several_messages(beats: Beats) -> None:
    largest = 2**63 - 1
    beat = Heartbeat("0" * 32 + "/10000", *[largest] * 5)
    header = encode_header(REQUEST, largest, largest, body_builtins(HeartbeatRequest([beat] * _BEATS_MAX)))
    assert len(header) < MAX_HEADER_BYTES / 2
    leader = beats.stage.replica(1)
    wanted = [(leader, leader.state.followers)] * (2 * _BEATS_MAX + 1)
    beats.stage.call(lambda: beats.manager._dispatch(wanted))
    beats.stage.settle()
    assert beats.in_flight() == [(node, count) for node in (2, 3) for count in (_BEATS_MAX, _BEATS_MAX, 1)]


def test_a_node_that_leads_nothing_or_has_no_link_is_silent(beats: Beats) -> None:
    beats.stage.wire.is_cut[3] = True
    beats.start()
    beats.stage.advance(0.15)
    assert beats.in_flight() == [(2, 1)]
    beats.stage.wire.lose(lambda _: True)
    beats.manager.forget(beats.stage.replica(1))
    beats.stage.advance(0.15)
    assert beats.in_flight() == []


def test_a_leader_that_stepped_down_is_left_out(beats: Beats) -> None:
    beats.stage.replica(1).add_leadership_listener(beats.manager.on_leadership)
    beats.start()
    beats.stage.call(lambda: beats.stage.replica(1).step_down("the test says so"))
    beats.stage.advance(0.15)
    assert beats.in_flight() == []


def test_a_silent_node_costs_a_bounded_number_of_unanswered_messages(beats: Beats) -> None:
    leader = beats.stage.replica(1)

    def many() -> None:
        for _ in range(_UNANSWERED_MAX + 5):
            beats.manager._dispatch([(leader, leader.state.followers)])

    beats.stage.call(many)
    beats.stage.settle()
    assert len(beats.in_flight()) == 2 * _UNANSWERED_MAX
    # One that ends, by an answer or by a lost link, makes room for one.
    beats.stage.wire.lose(lambda message: message is beats.stage.wire.in_flight[0])
    beats.stage.settle()
    beats.stage.call(many)
    beats.stage.settle()
    assert len(beats.in_flight()) == 2 * _UNANSWERED_MAX


def test_a_reply_of_the_wrong_length_is_ignored(beats: Beats) -> None:
    leader = beats.stage.replica(1)
    beats.stage.call(lambda: beats.manager._dispatch([(leader, leader.state.followers)]))
    beats.stage.settle()
    follower = leader.state.followers[2]
    before = follower.last_reply_at
    beats.stage.advance(0.1)
    beats.stage.wire.send_back(beats.stage.wire.in_flight[0], HeartbeatReply([], 0))
    beats.stage.deliver(lambda message: message.reply is not None)
    assert follower.last_reply_at == before


def test_the_tick_deposes_a_leader_without_a_majority(beats: Beats) -> None:
    beats.start()
    beats.stage.advance(1.0)
    assert beats.stage.replica(1).state.is_leader
    beats.stage.advance(0.15)
    assert not beats.stage.replica(1).state.is_leader
    assert beats.stage.actors[1].probe.step_downs == 1


def test_a_group_at_rest_takes_part_in_every_third_tick_until_something_moves() -> None:
    with Stage(3, RaftOptions(heartbeat_interval=0.15, election_timeout=1.5)) as stage:
        for node_id in stage.actors:
            stage.start(node_id)
        stage.elect(1)
        leader = stage.replica(1)
        ticks = [leader.heartbeats.is_due() for _ in range(16)]
        assert ticks == [*[True] * 7, *[False, False, True] * 3], ticks
        stage.call(lambda: stage.replica(1).step_down("a new term is something that moves"))
        stage.elect(1)
        assert leader.heartbeats.is_due()


def test_a_group_does_not_rest_while_a_follower_lags() -> None:
    with Stage(3, OPTIONS) as stage:
        for node_id in stage.actors:
            stage.start(node_id)
        stage.elect(1)
        leader = stage.replica(1)
        leader.state.followers[3].needs_recovery = True
        assert all(leader.heartbeats.is_due() for _ in range(30))
