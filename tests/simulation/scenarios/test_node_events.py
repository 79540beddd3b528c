"""RFC 0016: each broker tells, by its own outgoing links, which others are lost and back."""

import pytest

from cluster.events import EventKind
from cluster.idle_probe import IdleProbe
from cluster.node_watch import NodeWatch
from model.ids import RAFT0, NodeId
from rpc.link import OutgoingLink
from tests.simulation.scenarios.scenario import Scenario

_NODE_KINDS = (EventKind.NODE_LOST, EventKind.NODE_BACK, EventKind.NODE_STOPS, EventKind.NODE_FLAPS)


def _texts(story: Scenario, node_id: int) -> list[str]:
    events = story.cluster.nodes[node_id].events
    return [event.text for event in events.since(1) if event.kind in _NODE_KINDS]


def test_a_broker_that_dies_is_told_as_lost_and_then_as_back() -> None:
    with Scenario(330) as story:
        watcher, victim = story.leader, story.followers[0]
        story.run_for(11.0)
        story.kill(victim)
        story.run_for(3.0)
        assert _texts(story, watcher) == [f"node {victim} lost"]
        story.restart(victim)
        story.wait(lambda: len(_texts(story, watcher)) == 2)
        assert _texts(story, watcher)[1].startswith(f"node {victim} back after 3.")
        story.converge()


def test_one_direction_that_is_cut_is_told_by_the_broker_that_cannot_send() -> None:
    with Scenario(331) as story:
        watcher, other = story.leader, story.followers[0]
        story.run_for(11.0)
        story.world.network.cut(watcher, other)
        story.wait(lambda: _texts(story, watcher) == [f"node {other} lost"])
        story.heal()
        story.wait(lambda: len(_texts(story, watcher)) == 2)
        story.converge()


def _links_break_again_and_again(story: Scenario, watcher: int, other: int, times: int) -> None:
    for _ in range(times):
        story.world.network.reset(watcher, other)
        story.run_for(2.0)


def _flaps_are_counted() -> None:
    with Scenario(332) as story:
        watcher, other = story.leader, story.followers[0]
        story.run_for(1.0)
        _links_break_again_and_again(story, watcher, other, 6)
        lost, back = _texts(story, watcher)
        assert (lost, back.split(" after ")[0]) == (f"node {other} lost", f"node {other} back")
        story.run_for(60.0)
        assert _texts(story, watcher)[2:] == [f"node {other} lost and back 5 times within 60 s"]
        story.kill(other)
        story.run_for(3.0)
        assert _texts(story, watcher)[3:] == [f"node {other} lost"]


def test_a_link_that_breaks_again_and_again_is_told_once_a_minute() -> None:
    _flaps_are_counted()


def test_each_break_of_a_link_would_be_told_if_flaps_were_not_counted(monkeypatch) -> None:
    monkeypatch.setattr("cluster.node_watch._FLAP_SECONDS", 0.0)
    with pytest.raises((AssertionError, ValueError)):
        _flaps_are_counted()


def test_a_broker_that_dies_soon_after_it_came_back_is_told_when_its_loss_lasts() -> None:
    with Scenario(333) as story:
        watcher, victim = story.leader, story.followers[0]
        story.run_for(1.0)
        story.world.network.reset(watcher, victim)
        story.run_for(2.0)
        assert len(_texts(story, watcher)) == 2
        story.kill(victim)
        story.run_for(8.0)
        assert len(_texts(story, watcher)) == 2
        story.run_for(3.0)
        assert _texts(story, watcher)[2:] == [f"node {victim} lost"]


def _a_broker_stops_on_purpose() -> list[str]:
    with Scenario(334) as story:
        watcher, stopping = story.leader, story.followers[0]
        story.run_for(11.0)
        watch = story.cluster.nodes[stopping]._watch
        assert watch is not None
        story.machine(stopping).loop.call_soon(watch.say_farewell)
        story.run_for(0.1)
        story.kill(stopping)
        story.run_for(3.0)
        return _texts(story, watcher)


def test_a_broker_that_says_farewell_stops() -> None:
    (text,) = _a_broker_stops_on_purpose()
    assert text.endswith(" stops")


def test_a_stop_would_be_told_as_a_loss_if_nobody_said_farewell(monkeypatch) -> None:
    monkeypatch.setattr(NodeWatch, "say_farewell", lambda watch: None)
    (text,) = _a_broker_stops_on_purpose()
    assert text.endswith(" lost")


def test_each_term_that_a_replica_leads_in_is_one_event() -> None:
    with Scenario(335) as story:
        first, second = story.leader, story.followers[0]
        story.elect_into_office(second)
        story.elect_into_office(first)
        story.run_for(1.0)
        told = [
            (node_id, event.term)
            for node_id in (first, second)
            for event in story.cluster.nodes[node_id].events.since(1)
            if event.kind is EventKind.LEADER and event.partition != "raft0"
        ]
        terms = [term for _, term in told]
        assert [node for node, _ in sorted(told, key=lambda each: each[1])] == [first, second, first]
        assert len(set(terms)) == 3


def test_a_paused_broker_is_told_as_lost_and_as_back_and_tells_no_more_of_others_than_its_links_do() -> None:
    with Scenario(336) as story:
        watcher, paused, third = story.leader, *story.followers
        story.run_for(11.0)
        story.machine(paused).pause()
        story.wait(lambda: _texts(story, watcher) == [f"node {paused} lost"], 30)
        story.run_for(5.0)
        story.machine(paused).resume()
        story.wait(lambda: len(_texts(story, watcher)) == 2)
        assert _texts(story, watcher)[1].startswith(f"node {paused} back after ")
        story.run_for(15.0)
        for other in (watcher, third):
            told = [text for text in _texts(story, paused) if text.startswith(f"node {other} ")]
            kinds = [text.split()[2] for text in told]
            assert kinds == ["lost", "back"] * (len(kinds) // 2)
        story.converge()


def _let_one_lead_all(story: Scenario) -> tuple[int, int, int]:
    """Return the broker that leads raft0 and the partition, and two that send each other nothing."""
    watcher = story.cluster.leader_of(RAFT0)
    assert watcher is not None
    if story.leader != watcher:
        story.elect_into_office(watcher)
    paused, third = story.followers
    story.run_for(12.0)
    return watcher, paused, third


def _an_idle_peer_stands_still(interval: float) -> None:
    with Scenario(337, idle_probe_interval=interval) as story:
        watcher, paused, third = _let_one_lead_all(story)
        story.machine(paused).pause()
        story.run_for(3.0)
        for other in (watcher, third):
            assert _texts(story, other)[-1:] == [f"node {paused} lost"]
            assert not story.cluster.nodes[other].is_alive(NodeId(paused))
        story.run_for(15.0)
        story.machine(paused).resume()
        for other in (watcher, third):
            story.wait(lambda other=other: _texts(story, other)[-1].startswith(f"node {paused} back after "))
        story.converge()


def test_an_idle_peer_that_stands_still_is_lost_and_back_for_everybody() -> None:
    _an_idle_peer_stands_still(0.5)


def test_an_idle_peer_that_stands_still_is_not_lost_for_a_broker_that_asks_nothing() -> None:
    with Scenario(337) as story:
        _, paused, third = _let_one_lead_all(story)
        before = _texts(story, third)
        story.machine(paused).pause()
        story.run_for(60.0)
        assert _texts(story, third) == before
        assert story.cluster.nodes[third].is_alive(NodeId(paused))


def _does_not_look_at_the_answer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OutgoingLink, "abort_if_silent_since", lambda link, at: None)


def _asks_once(patch: pytest.MonkeyPatch) -> None:
    look = IdleProbe._look

    def look_once(probe: IdleProbe) -> None:
        look(probe)
        assert probe._timer is not None
        probe._timer.cancel()

    patch.setattr(IdleProbe, "_look", look_once)


@pytest.mark.parametrize("mutant", [_does_not_look_at_the_answer, _asks_once])
def test_an_idle_peer_is_not_lost_in_time_where_the_probe_is_broken(monkeypatch, mutant) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        _an_idle_peer_stands_still(0.5)


def test_a_silent_link_carries_one_small_request_per_interval_and_a_broker_that_answers_is_not_lost() -> None:
    with Scenario(338, idle_probe_interval=0.5) as story:
        _, one, other = _let_one_lead_all(story)
        link = story.cluster.nodes[one].links._outgoing[NodeId(other)]
        before, told = link._next_id, _texts(story, one)
        story.run_for(30.0)
        assert 50 <= link._next_id - before <= 60
        assert _texts(story, one) == told
        # A loop that stands still for less than the deadline is no loss either.
        story.machine(other).pause()
        story.run_for(1.5)
        story.machine(other).resume()
        story.run_for(5.0)
        assert _texts(story, one) == told
