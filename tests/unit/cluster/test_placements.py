"""Where partitions are: what the tables make of moves, and how raft0's state holds them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.commands import (
    AlterPlacements,
    BrokerRecord,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    FinishPlacement,
    PlacementRecord,
    RegisterBroker,
    ReplicaRecord,
    SetFeature,
    UnknownCommandError,
    decode_command,
    encode_command,
)
from cluster.errors import FeatureLevelError, NoReassignmentError, UnknownPartitionError, UnknownTopicError
from cluster.placement import Placement
from cluster.topic_table import Topic
from model.features import MEMBERSHIP, OFFERED
from model.ids import DirectoryId, NodeId, Replica
from raft.group_configuration import Revision
from storage.errors import CorruptLogError
from tests.unit.cluster.test_features import Machine

TOPIC = "a" * 32
GROUP = f"{TOPIC}/0"


def records(*nodes):
    return [ReplicaRecord(node, f"dir{node}") for node in nodes]


def replicas(*nodes):
    return tuple(Replica(NodeId(node), DirectoryId(f"dir{node}")) for node in nodes)


def move(*nodes, partition=0, topic=TOPIC):
    return AlterPlacements([PlacementRecord(topic, partition, records(*nodes) or None)])


@pytest.fixture(name="machine")
def fixture_machine():
    machine = Machine(OFFERED)
    for node in range(1, 6):
        record = BrokerRecord(node, f"dir{node}", "k", 9092, "r", 1, "a", 2, {MEMBERSHIP: 1})
        assert machine.apply(RegisterBroker(record)) is None
    assert machine.apply(CreateTopic("t", TOPIC, [records(1, 2, 3), records(2, 3, 4)], {})) is None
    return machine


def raised(machine):
    assert machine.apply(SetFeature(MEMBERSHIP, 1)) is None
    return machine


def moved(machine, *nodes, **fields):
    """Return the revision of a move that the tables take."""
    assert machine.apply(move(*nodes, **fields)) is None
    return Revision(0, machine.index)


def finish(machine, revision):
    return machine.apply(FinishPlacement(GROUP, tuple(revision)))


def topic_of(machine):
    return machine.state.tables.topics.get("t")


def test_nothing_moves_below_the_level_of_the_feature_and_no_byte_is_written(machine):
    before = machine.saved()
    refusal = machine.apply(move(2, 3, 4))
    assert isinstance(refusal, FeatureLevelError)
    assert "moves of partitions need raftka.membership at level 1" in str(refusal)
    assert machine.saved() == before
    assert before[0] == 1


def test_a_partition_moves_and_is_elsewhere_once_its_revision_is_finished(machine):
    before = raised(machine).saved()
    revision = moved(machine, 2, 3, 4)
    topic = topic_of(machine)
    assert topic.replicas[0] == topic.created_on(0) == replicas(1, 2, 3)
    assert topic.holders(0) == replicas(1, 2, 3, 4)
    assert topic.holders(1) == topic.replicas[1] == replicas(2, 3, 4)
    assert machine.state.tables.topics.replica_count(4) == 2
    assert machine.saved() != before
    assert isinstance(finish(machine, Revision(0, revision.raft0_index + 1)), NoReassignmentError)
    assert isinstance(finish(machine, Revision(1, revision.raft0_index)), NoReassignmentError)
    assert topic_of(machine) == topic
    assert finish(machine, revision) is None
    topic = topic_of(machine)
    assert topic.replicas[0] == topic.holders(0) == replicas(2, 3, 4)
    assert topic.placements == {0: Placement(replicas(1, 2, 3), revision)}
    assert machine.state.tables.topics.replica_count(1) == 0
    # Reported twice: the second finds it done.
    assert isinstance(finish(machine, revision), NoReassignmentError)


def test_a_cancelled_move_ends_where_it_began_and_the_former_revision_finishes_nothing(machine):
    revision = moved(raised(machine), 4, 5)
    cancelled = moved(machine)
    move_now = topic_of(machine).move_of(0)
    assert move_now.is_cancelled
    assert (move_now.target, move_now.former) == (replicas(1, 2, 3), replicas(4, 5))
    # Brokers 4 and 5 may vote by now.
    assert topic_of(machine).holders(0) == replicas(1, 2, 3, 4, 5)
    assert isinstance(finish(machine, revision), NoReassignmentError)
    assert finish(machine, cancelled) is None
    assert topic_of(machine).holders(0) == replicas(1, 2, 3)


def test_who_held_a_target_that_was_replaced_holds_it_to_the_end(machine):
    moved(raised(machine), 1, 4)
    revision = moved(machine, 1, 5)
    assert topic_of(machine).holders(0) == replicas(1, 2, 3, 5, 4)
    assert finish(machine, revision) is None
    assert topic_of(machine).holders(0) == replicas(1, 5)
    assert topic_of(machine).created_on(0) == replicas(1, 2, 3)


def test_a_command_is_taken_whole_or_not_at_all(machine):
    raised(machine)
    before = topic_of(machine)
    refused = [
        (AlterPlacements([PlacementRecord(TOPIC, 0, records(4)), PlacementRecord("b" * 32, 0, None)]), UnknownTopicError),
        (AlterPlacements([PlacementRecord(TOPIC, 0, records(4)), PlacementRecord(TOPIC, 2, None)]), UnknownPartitionError),
        (AlterPlacements([PlacementRecord(TOPIC, 0, records(4)), PlacementRecord(TOPIC, 1, None)]), NoReassignmentError),
    ]  # fmt: skip
    for command, error in refused:
        assert isinstance(machine.apply(command), error)
        assert topic_of(machine) == before
    both = AlterPlacements([PlacementRecord(TOPIC, 0, records(4)), PlacementRecord(TOPIC, 1, records(5))])
    assert machine.apply(both) is None
    assert {number: topic_of(machine).move_of(number).target for number in (0, 1)} == {0: replicas(4), 1: replicas(5)}


def test_a_command_copies_each_of_its_topics_once_however_many_moves_it_has(machine, monkeypatch):
    raised(machine)
    names = {"u": ("b" * 32, 400), "v": ("c" * 32, 50)}
    for name, (topic, count) in names.items():
        assert machine.apply(CreateTopic(name, topic, [records(1, 2)] * count, {})) is None
    copies = []
    made = Topic.__init__

    def counted(topic, *args, **fields):
        made(topic, *args, **fields)
        copies.append(topic.name)

    monkeypatch.setattr(Topic, "__init__", counted)
    wanted = [
        PlacementRecord(topic, number, records(2, 3)) for topic, count in names.values() for number in range(count)
    ]
    assert machine.apply(AlterPlacements(wanted)) is None
    assert sorted(copies) == ["u", "v"]
    for name, (_, count) in names.items():
        topic = machine.state.tables.topics.get(name)
        assert [topic.move_of(number).target for number in range(count)] == [replicas(2, 3)] * count


@pytest.mark.parametrize(
    "command",
    [
        AlterPlacements([]),
        AlterPlacements([PlacementRecord(TOPIC, 0, [])]),
        AlterPlacements([PlacementRecord(TOPIC, 0, records(1, 1))]),
        AlterPlacements([PlacementRecord(TOPIC, 0, None), PlacementRecord(TOPIC, 0, None)]),
        AlterPlacements([PlacementRecord("t", 0, None)]),
        AlterPlacements([PlacementRecord(TOPIC, -1, None)]),
        AlterPlacements([PlacementRecord("raft0", 1, records(1))]),
        AlterPlacements([PlacementRecord("raft0", 0, [])]),
        AlterPlacements([PlacementRecord("raft0", 0, records(1)), PlacementRecord(TOPIC, 0, None)]),
        FinishPlacement("raft0/0", (0, 1)),
        FinishPlacement(f"{TOPIC}/x", (0, 1)),
    ],
)
def test_an_impossible_command_is_refused_where_it_is_read(command):
    with pytest.raises(UnknownCommandError):
        decode_command(encode_command(command))


def test_what_is_restored_is_what_was_saved(machine):
    raised(machine)
    assert b"placements" not in machine.saved()
    assert finish(machine, moved(machine, 2, 3, 4)) is None
    moved(machine, 5, partition=1)
    moved(machine, 1, 2, partition=1)
    saved = machine.saved()
    other = Machine(OFFERED)
    other.restore(saved)
    assert other.saved() == saved
    assert topic_of(other) == topic_of(machine)
    assert other.state.tables.size_bytes == machine.state.tables.size_bytes
    # The features are counted with eight bytes more than they take.
    assert machine.state.tables.size_bytes == len(saved) + 8
    with pytest.raises(CorruptLogError):
        other.restore(saved[:-1])
    other.restore(saved)
    other.index = 200
    assert other.apply(DeleteTopic(TOPIC)) is None
    assert b"placements" not in other.saved()
    assert other.state.tables.size_bytes == len(other.saved()) + 8


_MOVES = st.tuples(st.integers(0, 1), st.lists(st.integers(1, 5), max_size=5, unique=True))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(_MOVES, st.just("finish"), st.just("grow")), max_size=12), st.integers(1, 5))
def test_the_size_is_that_of_the_snapshot_and_never_above_what_was_kept_free(steps, together):
    machine = Machine(OFFERED)
    machine.apply(SetFeature(MEMBERSHIP, 1))
    machine.apply(CreateTopic("t", TOPIC, [records(1, 2, 3), records(2, 3, 4)], {}))
    state = machine.state
    for number, step in enumerate(steps, start=1):
        if step == "finish":
            under_way = topic_of(machine).move_of(0)
            revision = (0, machine.index + 1) if under_way is None else tuple(under_way.revision)
            machine.note(FinishPlacement(GROUP, revision))
        elif step == "grow":
            machine.note(CreatePartitions(TOPIC, 2, [records(1)]))
        else:
            machine.note(move(*step[1], partition=step[0]))
        if number % together == 0:
            kept_free = state.fills()[0].used
            state.commit(machine.index)
            assert state.fills()[0].used <= kept_free
            assert state.tables.size_bytes == len(machine.saved()) + 8
