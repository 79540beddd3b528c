"""RFC 0009, G5: who reports the lag of a group, and what it counts, while coordinators and leaders come and go."""

import asyncio

import pytest

from cluster.groups.offsets_topic import OFFSETS_TOPIC
from cluster.groups.records import CommittedOffset
from kafka_api.groups.group_events import Identity
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.server import KafkaServer
from model.ids import GroupId
from tests.simulation.known_bugs.table import plant
from tests.simulation.scenarios.scenario import QUORUM, Scenario
from tests.simulation.world.cluster import TOPIC
from tests.simulation.world.world import SimulationError

_GROUP, _SIMPLE = "readers", Identity("", None, -1)
_RECORDS, _COMMITTED = 10, 3
_LAG = _RECORDS - _COMMITTED


def _told(story: Scenario) -> dict[int, tuple[int, int]]:
    """Return lag and unknown partitions of the group, by the brokers that report it now."""
    told = {}
    for node_id in story.cluster.nodes:
        server = story.cluster.server(node_id)
        for row in [] if server is None else server.group_lags.lag_reports():
            told[node_id] = row.lag_sum, row.unknown_partitions
    return told


def _offsets_group(story: Scenario) -> GroupId | None:
    node = next(iter(story.cluster.nodes.values()))
    topic = node.controller.topics.get(OFFSETS_TOPIC)
    return None if topic is None else topic.group(0)


def _keeper(story: Scenario) -> int | None:
    """Return the broker that leads the partition of the group in office."""
    group = _offsets_group(story)
    return None if group is None else story.cluster.leader_of(group)


async def _until_committed(server: KafkaServer) -> None:
    committed = {(TOPIC, 0): CommittedOffset(_COMMITTED, -1, "", 0)}
    while True:
        done = server._groups.commit(_GROUP, _SIMPLE, committed)
        if not isinstance(done, ErrorCode) and await done is ErrorCode.NONE:
            return
        await asyncio.sleep(0.1)


async def _ask(server: KafkaServer) -> None:
    """Creates the topic of groups."""
    server._groups.find_coordinator(_GROUP)


def _lagging(seed: int) -> Scenario:
    return Scenario(seed, kafka=True)


def _begin(story: Scenario) -> int:
    """Write ten records, commit the third, and return the coordinator, once it and nobody else reports the lag."""
    write = story.write(story.leader, QUORUM, records=_RECORDS)
    story.wait(lambda: write.is_answered)
    server = story.cluster.server(1)
    assert server is not None
    story.world.run(story.machine(1), _ask(server))
    story.wait(lambda: _keeper(story) is not None)
    keeper = _keeper(story)
    assert keeper is not None
    server = story.cluster.server(keeper)
    assert server is not None
    story.world.run(story.machine(keeper), _until_committed(server))
    story.wait(lambda: _told(story) == {keeper: (_LAG, 0)})
    return keeper


def test_the_next_coordinator_reports_the_lag_and_the_killed_one_nothing_when_it_is_back() -> None:
    with _lagging(340) as story:
        first = _begin(story)
        story.candidates = None
        story.kill(first)
        story.wait(lambda: list(_told(story).values()) == [(_LAG, 0)], 15)
        story.restart(first)
        story.run_for(5.0)
        (second,) = _told(story)
        assert second == _keeper(story)
        write = story.write(story.leader, QUORUM, records=5)
        story.wait(lambda: write.is_answered)
        story.wait(lambda: _told(story) == {second: (_LAG + 5, 0)})
        story.converge()


def _a_coordinator_is_cut_off() -> None:
    with _lagging(341) as story:
        first = _begin(story)
        story.candidates = None
        story.connect([first], [node_id for node_id in story.world.nodes if node_id != first])
        # It still believes that it is in office, for an election timeout; then it is silent, and another one speaks.
        story.wait(lambda: first not in _told(story), 5)
        story.wait(lambda: list(_told(story).values()) == [(_LAG, 0)], 15)
        assert first not in _told(story)
        story.converge()


def test_a_coordinator_that_is_cut_off_falls_silent_before_it_hears_of_another_one() -> None:
    _a_coordinator_is_cut_off()


def test_a_coordinator_that_is_cut_off_would_go_on_to_report_without_a_look_at_its_office(monkeypatch) -> None:
    plant(monkeypatch, "deposed_coordinators_report_lag")
    with pytest.raises(SimulationError, match="an invariant is broken"):
        _a_coordinator_is_cut_off()


def _the_coordinator_does_not_reach_the_leader() -> dict[int, tuple[int, int]]:
    """Return what is reported meanwhile; both have a majority with the third broker."""
    with _lagging(342) as story:
        keeper = _begin(story)
        if story.leader == keeper:
            story.elect_into_office(story.followers[0])
            story.wait(lambda: _told(story) == {keeper: (_LAG, 0)})
        leader = story.leader
        story.world.network.cut(keeper, leader)
        story.world.network.cut(leader, keeper)
        story.wait(lambda: _told(story) != {keeper: (_LAG, 0)}, 15)
        meanwhile = _told(story)
        story.heal()
        story.wait(lambda: _told(story) == {keeper: (_LAG, 0)}, 15)
        story.converge()
        return meanwhile


def test_the_end_of_a_partition_whose_leader_does_not_answer_the_coordinator_is_unknown() -> None:
    assert list(_the_coordinator_does_not_reach_the_leader().values()) == [(0, 1)]


def test_an_unknown_end_would_be_a_lag_of_0_without_its_own_count(monkeypatch) -> None:
    plant(monkeypatch, "unknown_ends_are_taken_for_read")
    with pytest.raises(SimulationError, match="an invariant is broken"):
        _the_coordinator_does_not_reach_the_leader()


def test_a_coordinator_that_was_paused_reports_nothing_once_it_hears_of_the_next_one() -> None:
    with _lagging(343) as story:
        first = _begin(story)
        story.candidates = None
        story.machine(first).pause()
        story.wait(lambda: any(node_id != first for node_id in _told(story)), 20)
        story.machine(first).resume()
        story.wait(lambda: first not in _told(story), 5)
        story.run_for(5.0)
        assert list(_told(story).values()) == [(_LAG, 0)]
        story.converge()
