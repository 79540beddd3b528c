"""What raft0's tables take beyond their bound: a cluster whose tables are full can still be repaired."""

import pytest

from cluster.commands import (
    AlterBrokerConfigs,
    AlterPlacements,
    CreatePartitions,
    FinishPlacement,
    PlacementRecord,
    ReplicaRecord,
    RetireDirectory,
    SetBrokerState,
    encode_command,
)
from cluster.controller_state import ControllerState
from cluster.evacuation import wanted_moves
from cluster.state_bounds import StateFullError, StateOptions
from model.features import OFFERED
from model.ids import Index, Offset, Term
from model.topic_config import TopicConfig
from raft.replicate_item import NewEntry
from storage.entry import Entry, EntryKind
from tests.unit.cluster.test_members import FOUNDERS, TOPIC, Machine, internal, joined

OFFSETS = "c" * 32


def records(*nodes):
    return [ReplicaRecord(node, f"d{node}") for node in nodes]


def move(*nodes, topic=TOPIC, partition=0):
    return PlacementRecord(topic, partition, records(*nodes) or None)


class Full:
    """raft0's state with the tables of a machine, which have no room left."""

    def __init__(self, machine):
        saved = b"".join(machine.tables.encode())
        options = StateOptions(raft0_bytes_max=len(saved))
        self.state = ControllerState(TopicConfig(), options, offered=OFFERED, founders=FOUNDERS)
        self.index = machine.index
        for _ in self.state.restore(saved, Index(self.index)):
            pass

    def offer(self, command):
        """Return why the leader refuses a command; one that it takes is applied."""
        payload = encode_command(command)
        refusal = self.state.admit(NewEntry(EntryKind.COMMAND, payload, 0))
        if refusal is None:
            self.index += 1
            self.state.note(Entry(Index(self.index), Term(1), EntryKind.COMMAND, Offset(0), 0, payload))
            self.state.commit(Index(self.index))
            assert self.state.refusal(Index(self.index)) is None
        return refusal

    def moves(self):
        tables = self.state.tables
        found = wanted_moves(tables.topics, tables.members, 8)
        return AlterPlacements(
            [
                PlacementRecord(topic.topic_id, number, [ReplicaRecord(*each) for each in target])
                for topic, number, target in found
            ]
        )

    def emptied(self):
        """Let everything move that must, and end; return where each topic's first partition is."""
        while (moves := self.moves()).placements:
            assert self.offer(moves) is None
            revision = (0, self.index)
            for each in moves.placements:
                assert self.offer(FinishPlacement(f"{each.topic_id}/{each.partition}", revision)) is None
        topics = self.state.tables.topics.all()
        return {topic.name: [each.node_id for each in topic.replicas[0]] for topic in topics}


@pytest.fixture(name="machine")
def fixture_machine():
    machine = Machine()
    machine.topic(1, 2, 3)
    internal(machine, 1, 2, 3)
    joined(machine, 4)
    # So that brokers have a block in the tables before these are full.
    machine.apply(SetBrokerState(4, "draining"))
    machine.apply(SetBrokerState(4, "active"))
    return machine


def test_a_broker_is_emptied_where_the_tables_are_full(machine):
    full = Full(machine)
    assert full.offer(SetBrokerState(1, "decommissioning")) is None
    assert full.emptied() == {"t": [4, 2, 3], "__consumer_offsets": [4, 2, 3]}


def test_a_lost_disk_is_replaced_where_the_tables_are_full(machine):
    full = Full(machine)
    assert full.offer(RetireDirectory(2, "d2")) is None
    assert full.offer(SetBrokerState(2, "decommissioning")) is None
    assert full.emptied() == {"t": [1, 4, 3], "__consumer_offsets": [1, 4, 3]}


def test_an_internal_topic_shrinks_and_rises_where_the_tables_are_full(machine):
    full = Full(machine)
    shrink = AlterPlacements([move(2, 3, topic=OFFSETS)])
    assert full.offer(shrink) is None
    assert full.emptied()["__consumer_offsets"] == [2, 3, 4]


def test_replicas_become_fewer_and_moves_are_taken_back_where_the_tables_are_full(machine):
    machine.apply(AlterPlacements([move(1, 2, 4)]))
    full = Full(machine)
    assert full.offer(AlterPlacements([move()])) is None
    assert full.offer(AlterPlacements([move(3, 1)])) is None


def test_a_move_that_nothing_needs_is_refused_where_the_tables_are_full(machine):
    machine.topic(1, 2, name="u", topic_id="b" * 32)
    full = Full(machine)
    for refused in (
        AlterPlacements([move(4, 2, 3)]),
        AlterPlacements([move(1, 2, 3, 4)]),
        # Each move of a command counts.
        AlterPlacements([move(2, 3), move(3, topic="b" * 32)]),
        AlterPlacements([move(1, topic="d" * 32)]),
        AlterPlacements([move(1, partition=7)]),
        CreatePartitions(TOPIC, 1, [records(1)]),
        AlterBrokerConfigs(None, {"retention.ms": "7"}),
    ):
        assert isinstance(full.offer(refused), StateFullError)
    assert full.offer(SetBrokerState(1, "decommissioning")) is None
    # To move something else away leaves what must leave where it is.
    assert isinstance(full.offer(AlterPlacements([move(1, 2, 4)])), StateFullError)
