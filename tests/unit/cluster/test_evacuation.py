"""Which moves begin while brokers are down, which of them take a place, and what the leader of raft0 looks at again."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from cluster import evacuation
from cluster.broker_waits import going_from, staying
from cluster.commands import (
    AdmitBroker,
    AlterPlacements,
    CreateTopic,
    PlacementRecord,
    RegisterBroker,
    ReplicaRecord,
    RetireDirectory,
    SetBrokerState,
)
from cluster.evacuation import MOVES_AT_ONCE, Evacuation, next_target, wanted_moves
from cluster.move_index import MoveIndex
from cluster.move_places import PLACE_SECONDS, MovePlaces
from cluster.raft0_voters import Raft0Voters
from model.ids import NodeId
from raft.group_configuration import Revision
from raft.membership_steps import FORCE
from tests.unit.cluster.cluster_nodes import run, until
from tests.unit.cluster.test_members import TOPIC, Machine, internal, joined, nodes_of, record

OFFSETS = "c" * 32
MANY = 20


def move(machine, topic_id, *nodes, partition=0):
    target = [ReplicaRecord(node, f"d{node}") for node in nodes]
    machine.apply(AlterPlacements([PlacementRecord(topic_id, partition, target)]))


def leaving(machine, *nodes):
    for node in nodes:
        machine.apply(SetBrokerState(node, "decommissioning"))


def wanted(machine, *, down=(), places=MOVES_AT_ONCE):
    """Return the brokers of each topic's first partition that is to move."""
    tables = machine.tables
    return nodes_of(wanted_moves(tables.topics, tables.members, places, lambda node: node not in down))


def taken(machine, places, *, down=(), now=0.0):
    return places.taken(moving(machine), machine.members, lambda node: node not in down, now)


def moving(machine):
    index = MoveIndex(machine.tables.topics, machine.members)
    index.refresh()
    return index.moving


def many_topics(machine, *nodes, count=MANY, prefix="t"):
    names = [f"{prefix}{number:02}" for number in range(count)]
    for number, name in enumerate(names):
        machine.topic(*nodes, name=name, topic_id=f"{ord(prefix[0]):02x}{number:030x}")
    return names


# -- internal topics shrink only to replicas that work --------------------------------------------------------------


def test_an_internal_topic_shrinks_only_if_a_majority_of_what_stays_works():
    machine = Machine()
    internal(machine, 1, 2, 3)
    leaving(machine, 3)
    assert wanted(machine, down=(2,)) == {}
    assert wanted(machine) == {"__consumer_offsets": [1, 2]}
    leaving(machine, 1)
    assert wanted(machine, down=(2,)) == {}
    assert wanted(machine, down=(1,)) == {"__consumer_offsets": [2]}


def test_what_can_be_replaced_of_an_internal_topic_is_while_the_rest_cannot_leave():
    machine = Machine()
    internal(machine, 1, 2, 3)
    joined(machine, 4)
    leaving(machine, 1, 2)
    assert wanted(machine) == {"__consumer_offsets": [4, 3]}
    assert wanted(machine, down=(3,)) == {"__consumer_offsets": [4, 2, 3]}
    move(machine, OFFSETS, 4, 2, 3)
    assert wanted(machine, down=(3,)) == {}
    assert wanted(machine) == {"__consumer_offsets": [4, 3]}


def test_a_topic_that_shrinks_is_raised_anew_once_a_broker_has_joined():
    machine = Machine()
    internal(machine, 1, 2, 3)
    leaving(machine, 1)
    move(machine, OFFSETS, 2, 3)
    assert wanted(machine, down=(3,), places=0) == {}
    joined(machine, 4)
    assert wanted(machine, down=(3, 4), places=0) == {}
    assert wanted(machine, down=(3,), places=0) == wanted(machine, places=0) == {"__consumer_offsets": [2, 3, 4]}
    move(machine, OFFSETS, 2, 3, 4)
    assert wanted(machine, down=(3,)) == wanted(machine) == {}


def test_a_topic_that_shrinks_to_a_lost_disk_is_raised_anew_as_well():
    machine = Machine()
    internal(machine, 1, 2, 3)
    leaving(machine, 1)
    move(machine, OFFSETS, 2, 3)
    machine.apply(RetireDirectory(3, "d3"))
    assert wanted(machine) == {}
    joined(machine, 4)
    assert wanted(machine) == {"__consumer_offsets": [2, 3, 4]}


def test_a_topic_that_shrinks_to_a_broker_that_is_down_goes_to_the_one_that_has_joined_and_one_that_leaves():
    machine = Machine()
    internal(machine, 1, 2, 3)
    leaving(machine, 1, 3)
    move(machine, OFFSETS, 2)
    assert wanted(machine, down=(2,)) == {}
    joined(machine, 4)
    assert wanted(machine, down=(2,)) == {"__consumer_offsets": [4, 2, 3]}
    move(machine, OFFSETS, 4, 2, 3)
    assert wanted(machine, down=(2,)) == {}
    # Once it is back, nobody is needed who is to leave.
    assert wanted(machine) == {"__consumer_offsets": [4, 2]}
    move(machine, OFFSETS, 4, 2)
    assert wanted(machine) == {}


def test_an_internal_topic_waits_for_an_active_broker_that_is_down_and_does_not_shrink():
    machine = Machine()
    internal(machine, 1, 2, 3)
    joined(machine, 4)
    leaving(machine, 1)
    assert wanted(machine, down=(4,)) == {}
    assert wanted(machine) == {"__consumer_offsets": [4, 2, 3]}


def test_an_internal_topic_rises_to_brokers_that_work():
    machine = Machine()
    internal(machine, 1)
    assert wanted(machine, down=(2,)) == {"__consumer_offsets": [1, 3]}
    assert wanted(machine, down=(2, 3)) == {}
    assert wanted(machine, down=(1,)) == {}


# -- a move begins only if it can go on -----------------------------------------------------------------------------


def test_nothing_goes_to_a_broker_that_is_down():
    machine = Machine()
    machine.topic(1, 2, 3)
    joined(machine, 4, 5)
    leaving(machine, 1)
    assert wanted(machine, down=(4, 5)) == {}
    leaving(machine, 2)
    # The other replica waits.
    assert wanted(machine, down=(5,)) == {"t": [4, 2, 3]}


def test_a_move_to_a_broker_that_died_waits_until_somebody_decides_about_the_broker():
    machine = Machine()
    machine.topic(1, 2, 3)
    joined(machine, 4, 5)
    move(machine, TOPIC, 4, 2, 3)
    assert wanted(machine, down=(4,)) == {}
    # A lost disk: its node may be back with a new one, and has its place.
    machine.apply(RetireDirectory(4, "d4"))
    assert wanted(machine, down=(4,)) == {}
    # It is not to come back.
    leaving(machine, 4)
    assert wanted(machine, down=(4,)) == {"t": [5, 2, 3]}


def test_a_broker_that_has_joined_anew_and_is_down_holds_up_no_other_replica():
    machine = Machine()
    machine.topic(1, 2, 3)
    joined(machine, 4)
    machine.apply(RetireDirectory(2, "d2"))
    machine.apply(AdmitBroker(2, "new", "r", 1))
    machine.apply(RegisterBroker(record(2, "new")))
    leaving(machine, 1)
    for down, directory in ((2, "d2"), (5, "new")):
        (found,) = wanted_moves(machine.tables.topics, machine.members, 1, lambda node, down=down: node != down)
        assert [each.directory_id for each in found.target] == ["d4", directory, "d3"]


def test_a_group_without_a_majority_that_works_keeps_no_other_from_its_turn():
    machine = Machine()
    many_topics(machine, 1, 2, prefix="a")
    machine.topic(1, 2, 3, name="z")
    joined(machine, 4)
    leaving(machine, 1)
    assert wanted(machine, down=(1,)) == {"z": [4, 2, 3]}
    assert len(wanted(machine)) == MOVES_AT_ONCE


def test_a_move_that_cannot_go_on_takes_no_place():
    machine = Machine()
    names = many_topics(machine, 1, 2, 3)
    joined(machine, 4, 5)
    leaving(machine, 1)
    places = MovePlaces()
    for number in range(MOVES_AT_ONCE):
        move(machine, f"{ord('t'):02x}{number:030x}", 4, 2, 3)
    assert taken(machine, places) == MOVES_AT_ONCE
    # Who is to get a replica is down, or a majority of those that have one.
    for down in ((4,), (1, 2)):
        assert taken(machine, places, down=down) == 0
    found = wanted(machine, down=(4,), places=MOVES_AT_ONCE - taken(machine, places, down=(4,)))
    assert found == {name: [5, 2, 3] for name in names[MOVES_AT_ONCE : 2 * MOVES_AT_ONCE]}


def test_a_move_gives_its_place_up_after_an_hour():
    machine = Machine()
    many_topics(machine, 1, 2, 3, count=2)
    joined(machine, 4)
    places = MovePlaces()
    assert (taken(machine, places, now=5.0), places.expires_at) == (0, float("inf"))
    move(machine, f"{ord('t'):02x}{0:030x}", 4, 2, 3)
    assert (taken(machine, places, now=10.0), places.expires_at) == (1, 10.0 + PLACE_SECONDS)
    move(machine, f"{ord('t'):02x}{1:030x}", 4, 2, 3)
    assert (taken(machine, places, now=20.0), places.expires_at) == (2, 10.0 + PLACE_SECONDS)
    assert (taken(machine, places, now=10.0 + PLACE_SECONDS), places.expires_at) == (1, 20.0 + PLACE_SECONDS)
    # Another target is another move.
    move(machine, f"{ord('t'):02x}{0:030x}", 2, 4, 3)
    assert taken(machine, places, now=10.0 + PLACE_SECONDS) == 2


def test_a_move_that_gets_further_keeps_its_place_and_one_that_does_again_gets_it_back():
    machine = Machine()
    many_topics(machine, 1, 2, 3, count=2)
    joined(machine, 4)
    places, group = MovePlaces(), f"{ord('t'):02x}{0:030x}"
    move(machine, group, 4, 2, 3)
    (key,) = ((each.topic.group(0), each.topic.move_of(0).revision) for each in moving(machine))
    assert (taken(machine, places, now=10.0), places.idle_since) == (1, 10.0)
    places.note_idle({key: 7.0, (key[0], Revision(0, 1)): 0.0}, now=3000.0)
    assert (taken(machine, places, now=10.0 + PLACE_SECONDS), places.expires_at) == (1, 2993.0 + PLACE_SECONDS)
    # A broker that knows less of it takes nothing back.
    places.note_idle({key: 2000.0}, now=3001.0)
    assert places.idle_since == 2993.0
    assert taken(machine, places, now=2993.0 + PLACE_SECONDS) == 0
    places.note_idle({key: 1.0}, now=8000.0)
    assert (taken(machine, places, now=8001.0), places.expires_at) == (1, 7999.0 + PLACE_SECONDS)


# -- the words -------------------------------------------------------------------------------------------------------


def why_stays(machine, name, node, *down):
    topic = machine.tables.topics.get(name)
    going = going_from(machine.members, NodeId(node))
    found = staying(topic, 0, machine.members, going, lambda each: each not in down)
    return found.why


@pytest.mark.parametrize(
    ("down", "why"),
    [
        ((), ""),
        ((4,), "brokers that are to hold it to work: start broker 4"),
        ((1, 2), "a majority of its 3 replicas to work: start brokers 1,2"),
    ],
)
def test_a_replica_that_stays_says_which_brokers_must_work(down, why):
    machine = Machine()
    machine.topic(1, 2, 3)
    joined(machine, 4)
    leaving(machine, 1)
    assert why_stays(machine, "t", 1, *down) == why


def test_an_internal_topic_that_does_not_shrink_says_whom_it_waits_for():
    machine = Machine()
    internal(machine, 1, 2, 3)
    leaving(machine, 1)
    assert why_stays(machine, "__consumer_offsets", 1, 2) == "brokers that are to hold it to work: start broker 2"


def test_a_lost_disk_is_nothing_to_start():
    machine = Machine()
    machine.topic(1, 2)
    joined(machine, 4)
    machine.apply(RetireDirectory(1, "d1"))
    leaving(machine, 1)
    assert next_target(machine.tables.topics.get("t"), 0, machine.members, {}) is None
    assert why_stays(machine, "t", 1) == FORCE


# -- the leader looks again -------------------------------------------------------------------------------------------


class Office:
    """What the leader of raft0 has: tables, and a log that takes each command at once, behind what is `late` there."""

    def __init__(self, machine):
        self.machine = machine
        self.down = set()
        self.late = []
        self.proposed = []
        self.idle = {}
        self.looks = 0
        tables = machine.tables
        self.controller = SimpleNamespace(
            topics=tables.topics,
            members=tables.members,
            features=tables.features,
            raft0=tables.raft0,
            is_in_office=True,
            admission=asyncio.Lock(),
            confirm_office=self.confirm,
            settle=self.settle,
            propose=self.propose,
        )

    def evacuation(self):
        return Evacuation(self.controller, self.is_alive, self.read_idle)

    async def confirm(self, deadline):
        # As the real one: other tasks run meanwhile.
        await asyncio.sleep(0)

    async def settle(self, deadline):
        await asyncio.sleep(0)
        late, self.late = self.late, []
        for command in late:
            self.machine.apply(command)

    async def propose(self, command, deadline):
        await self.settle(deadline)
        self.proposed.append(command)
        self.machine.apply(command)

    async def read_idle(self):
        await asyncio.sleep(0)
        return {
            (topic.group(0), topic.move_of(0).revision): self.idle[topic.name]
            for topic in self.machine.tables.topics.all()
            if topic.name in self.idle and topic.move_of(0) is not None
        }

    def is_alive(self, node):
        self.looks += node == 1
        return node not in self.down

    def targets(self):
        topics = self.machine.tables.topics.all()
        return [[each.node_id for each in move.target] for topic in topics if (move := topic.move_of(0)) is not None]


def test_a_broker_that_works_again_is_reason_to_look_though_no_table_has_changed(monkeypatch):
    monkeypatch.setattr(evacuation, "_INTERVAL", 0.001)

    async def test():
        machine = Machine()
        machine.topic(1, 2, 3)
        joined(machine, 4)
        leaving(machine, 1)
        office = Office(machine)
        office.down.add(4)
        leader = office.evacuation()
        leader.start()
        try:
            await until(lambda: office.looks > 10)
            assert office.targets() == []
            office.down.clear()
            await until(lambda: office.targets() == [[4, 2, 3]])
        finally:
            await leader.stop()

    run(test)


def test_moves_that_cannot_go_on_do_not_hold_up_the_others(monkeypatch):
    monkeypatch.setattr(evacuation, "_INTERVAL", 0.001)

    async def test():
        machine = Machine()
        many_topics(machine, 1, 2, 3, prefix="a")
        machine.topic(1, 2, 3, name="z", topic_id="f" * 32)
        joined(machine, 4, 5)
        for number in range(MOVES_AT_ONCE):
            move(machine, f"{ord('a'):02x}{number:030x}", 4, 2, 3)
        leaving(machine, 1)
        office = Office(machine)
        office.down.add(4)
        leader = office.evacuation()
        leader.start()
        try:
            await until(lambda: office.targets().count([5, 2, 3]) == MOVES_AT_ONCE)
            assert office.targets().count([4, 2, 3]) == MOVES_AT_ONCE
        finally:
            await leader.stop()

    run(test)


@asynccontextmanager
async def looking_by_hand(office):
    """Yield the leader of raft0; it hears of changes, and looks only when the test says so."""
    leader = office.evacuation()
    with patch.object(evacuation, "_INTERVAL", 1e9):
        leader.start()
        try:
            yield leader
        finally:
            await leader.stop()


def test_what_lies_in_the_log_counts_before_partitions_move_away():
    """A former proposal took too long for the leader, and is not applied when it looks at its tables."""

    async def test():
        machine = Machine()
        many_topics(machine, 1, 2, 3)
        joined(machine, 4)
        leaving(machine, 1)
        office = Office(machine)
        async with looking_by_hand(office) as leader:
            await leader.look()
            assert [len(command.placements) for command in office.proposed] == [MOVES_AT_ONCE]
            # As if the next leader had these in its log, and not in its tables.
            other = Machine()
            many_topics(other, 1, 2, 3)
            joined(other, 4)
            leaving(other, 1)
        office, former = Office(other), office.proposed
        office.late = list(former)
        async with looking_by_hand(office) as leader:
            await leader.look()
            assert office.targets() == [[4, 2, 3]] * MOVES_AT_ONCE
            assert office.proposed == []

    run(test)


def test_what_lies_in_the_log_counts_before_raft0_gets_other_voters(monkeypatch):
    async def test():
        machine = Machine()
        leaving(machine, 3)
        office = Office(machine)
        state = SimpleNamespace(node_id=1)
        office.controller.consensus = SimpleNamespace(state=state)
        voters = Raft0Voters(office.controller, office.is_alive)
        monkeypatch.setattr(voters, "_is_ready", lambda _: True)
        office.late = [SetBrokerState(3, "active")]
        await voters._decide()
        assert (office.late, office.proposed) == ([], [])
        leaving(machine, 3)
        await voters._decide()
        (command,) = office.proposed
        assert [each.node_id for each in command.of_raft0.target] == [1, 2]

    run(test)


def test_a_move_that_stands_still_for_an_hour_makes_place_and_one_that_gets_further_does_not(monkeypatch):
    async def test():
        machine = Machine()
        names = many_topics(machine, 1, 2, 3)
        joined(machine, 4)
        leaving(machine, 1)
        office, loop, passed = Office(machine), asyncio.get_running_loop(), 0.0
        clock = loop.time
        monkeypatch.setattr(loop, "time", lambda: clock() + passed)
        async with looking_by_hand(office) as leader:
            await leader.look()
            for _ in range(20):
                passed += PLACE_SECONDS / 3
                office.idle = {**dict.fromkeys(names, 5.0), names[0]: passed}
                await leader.look()
            assert [len(command.placements) for command in office.proposed] == [MOVES_AT_ONCE, 1]
            # Nobody tells of the others any more.
            office.idle = {}
            passed += PLACE_SECONDS
            await leader.look()
            assert len(office.targets()) == 2 * MOVES_AT_ONCE + 1

    run(test, seconds=1e9)


def test_partitions_that_stay_where_they_are_are_not_judged_however_often_links_come_and_go():
    async def test():
        machine, count = Machine(), 2000
        machine.apply(CreateTopic("t", TOPIC, [[ReplicaRecord(node, f"d{node}") for node in (1, 2, 3)]] * count, {}))
        joined(machine, 4)
        office = Office(machine)
        async with looking_by_hand(office) as leader:
            for number in range(100):
                office.down = {number % 4 + 1}
                await leader.look()
            assert (leader.judged, leader.index.gone_through) == (0, count)
            # One that moves is judged each time, and its topic is gone through once more.
            move(machine, TOPIC, 4, 2, 3)
            for number in range(100):
                office.down = {number % 4 + 1}
                await leader.look()
            assert (leader.judged, leader.index.gone_through) == (100, 2 * count)

    run(test)


def test_many_partitions_that_cannot_go_on_make_the_looks_rarer():
    async def test():
        machine, count = Machine(), 2000
        machine.apply(CreateTopic("t", TOPIC, [[ReplicaRecord(node, f"d{node}") for node in (1, 2, 3)]] * count, {}))
        joined(machine, 4)
        leaving(machine, 1)
        office = Office(machine)
        office.down = {4}
        async with looking_by_hand(office) as leader:
            await leader.look()
            assert (leader.judged, office.proposed) == (count, [])
            await leader.look()
            assert leader.judged == count, "nothing has changed since"
            office.down = set()
            await leader.look()
            # What can go on is found at once, and the others are not judged.
            assert leader.judged == count + 2 * MOVES_AT_ONCE
            assert len(office.proposed) == 1

    run(test)
    assert [evacuation.pause_after(judged) for judged in (0, 16, 5000, 20_000)] == [1.0, 1.0, 1.0, 4.0]
