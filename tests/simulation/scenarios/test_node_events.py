"""RFC 0016: each broker tells, by its own outgoing links, which others are lost and back."""

import pytest

from cluster.events import EventKind
from cluster.node_watch import NodeWatch
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
