"""Readers of all groups that ask one node share its messages: one at a time, and a slow node holds nobody up for long."""

from collections.abc import Collection, Iterator
from typing import Any, cast

import pytest

from model.ids import NodeId
from raft.asked_heartbeats import SHARE_SECONDS, AskedHeartbeats
from raft.consensus import Consensus
from raft.heartbeat_manager import HeartbeatManager
from raft.messages import HeartbeatRequest
from raft.options import RaftOptions
from runtime.gate import Gate
from tests.simulation.world.world import World
from tests.unit.raft.message_wire import WireClient
from tests.unit.raft.stage import Stage

FAST, SLOW = NodeId(2), NodeId(3)


class Lanes:
    """Groups, here their names, that ask; `sent` has each message in order. A message goes unless `refuses`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.machine = world.add_node(1)
        self.sent: list[tuple[int, str]] = []
        self.refuses = False
        self.asked = AskedHeartbeats(self._send)

    def _send(self, node_id: NodeId, groups: Collection[Consensus]) -> None:
        self.sent.append((node_id, " ".join(cast(Collection[str], groups))))
        if not self.refuses:
            self.asked.on_sent(node_id)

    def call(self, method: Any, *arguments: Any) -> None:
        """Call a method of `asked` on the loop, and run until nothing is to be done at this time."""

        async def call() -> None:
            method(*arguments)

        self.world.run(self.machine, call())
        self.pass_by(0.0)

    def ask(self, groups: str, *nodes: NodeId) -> None:
        async def ask() -> None:
            for group in groups.split():
                self.asked.ask(cast(Consensus, group), nodes)

        self.world.run(self.machine, ask())
        self.pass_by(0.0)

    def pass_by(self, seconds: float) -> None:
        self.world.run_until(self.world.time + seconds)


@pytest.fixture
def lanes() -> Iterator[Lanes]:
    with World(1) as world:
        yield Lanes(world)


def test_who_asks_in_one_step_shares_a_message_and_asks_once_in_it(lanes: Lanes) -> None:
    lanes.ask("a b a", FAST)
    assert lanes.sent == [(2, "a b")]


def test_who_asks_while_a_message_is_under_way_shares_the_next_one(lanes: Lanes) -> None:
    lanes.ask("a b", FAST)
    for group in ("c", "d", "a", "c"):
        lanes.ask(group, FAST)
    assert lanes.sent == [(2, "a b")]
    lanes.call(lanes.asked.on_ended, FAST)
    assert lanes.sent == [(2, "a b"), (2, "c d a")]
    lanes.call(lanes.asked.on_ended, FAST)
    assert len(lanes.sent) == 2, "nobody has asked since"


def test_one_node_does_not_wait_for_another(lanes: Lanes) -> None:
    lanes.ask("a", SLOW)
    lanes.ask("b", FAST, SLOW)
    assert lanes.sent == [(3, "a"), (2, "b")]


def test_a_slow_node_holds_nobody_up_for_long(lanes: Lanes) -> None:
    lanes.ask("a", SLOW)
    lanes.ask("b", SLOW)
    lanes.ask("c", SLOW)
    lanes.pass_by(SHARE_SECONDS * 0.9)
    assert lanes.sent == [(3, "a")]
    lanes.pass_by(SHARE_SECONDS * 0.2)
    assert lanes.sent == [(3, "a"), (3, "b c")]
    # The late answer to the first one frees nobody: the second one is under way.
    lanes.call(lanes.asked.on_ended, SLOW)
    lanes.ask("d", SLOW)
    assert len(lanes.sent) == 2
    lanes.pass_by(SHARE_SECONDS)
    assert lanes.sent[2:] == [(3, "d")]


def test_a_message_that_could_not_be_sent_holds_nobody_up(lanes: Lanes) -> None:
    lanes.refuses = True
    lanes.ask("a", FAST)
    lanes.ask("b", FAST)
    assert lanes.sent == [(2, "a"), (2, "b")]


def test_a_group_that_is_gone_is_not_asked_for(lanes: Lanes) -> None:
    lanes.ask("a", FAST)
    lanes.ask("b c", FAST)
    lanes.call(lanes.asked.forget, "b")
    lanes.call(lanes.asked.on_ended, FAST)
    assert lanes.sent == [(2, "a"), (2, "c")]


def test_each_message_ends_once(lanes: Lanes) -> None:
    lanes.ask("a", FAST)
    lanes.call(lanes.asked.on_ended, FAST)
    with pytest.raises(AssertionError):
        lanes.asked.on_ended(FAST)


def test_who_waits_for_the_next_message_has_no_request_under_way_that_could_confirm_him() -> None:
    """A number is given when a message is sent: the answer to an earlier one is not his."""
    with Stage(3, RaftOptions(heartbeat_interval=0.15, election_timeout=1.0)) as stage:
        for node_id in stage.actors:
            stage.start(node_id)
        stage.elect(1)
        stage.wire.lose(lambda _: True)
        leader, disk = stage.replica(1), stage.actors[1].limits.disk
        manager = HeartbeatManager(WireClient(stage.wire, 1), stage.options, Gate("beats"), disk)
        follower = leader.state.followers[FAST]
        before = follower.sent_requests
        for _ in range(3):
            stage.call(lambda: manager.beat_soon(leader, [FAST]))
            stage.settle()
        assert follower.sent_requests == before + 1
        stage.deliver(lambda _: True)
        assert follower.answered_request == follower.sent_requests == before + 2, "the second and third share one"
        assert not any(isinstance(message.request, HeartbeatRequest) for message in stage.wire.in_flight)
