"""raft0's table of brokers: admissions, states, retired directories, removals, and how it is saved."""

from contextlib import suppress
from random import Random

import pytest

from cluster.broker_rules import check_unnamed_retirement
from cluster.broker_waits import Staying, going_from, staying
from cluster.commands import (
    AdmitBroker,
    AlterBrokerConfigs,
    AlterPlacements,
    BrokerRecord,
    CreateTopic,
    FinishPlacement,
    PlacementRecord,
    RegisterBroker,
    RemoveBroker,
    ReplicaRecord,
    RetireDirectory,
    SetBrokerState,
    SetFeature,
)
from cluster.controller_state import ControllerState
from cluster.controller_tables import ControllerTables
from cluster.errors import (
    BrokerAdmittedError,
    BrokerInUseError,
    BrokerNotAdmittedError,
    FeatureLevelError,
    InvalidReplicationFactorError,
    UnknownBrokerError,
)
from cluster.evacuation import evacuated, raised, wanted_moves
from cluster.members_table import FOUNDING_EPOCH, BrokerState
from cluster.raft0_candidates import raft0_candidates
from cluster.raft0_table import raft0_target
from model.features import MEMBERSHIP, OFFERED, told_features
from model.ids import DirectoryId, Index, NodeId, Replica
from model.topic_config import TopicConfig
from raft.group_configuration import Revision
from storage.errors import CorruptLogError

FOUNDERS = tuple(Replica(NodeId(node), DirectoryId(f"d{node}")) for node in (1, 2, 3))
TOPIC = "a" * 32


def record(node, directory=None, port=33145):
    return BrokerRecord(
        *(node, directory or f"d{node}", "k", 9092, f"r{node}", port, "a", 9644), told_features(OFFERED)
    )


class Machine:
    """Tables whose commands have indexes."""

    def __init__(self, level=1):
        self.tables = ControllerTables(TopicConfig(), OFFERED, FOUNDERS)
        self.index = 0
        if level:
            self.apply(SetFeature(MEMBERSHIP, 1))
        for founder in FOUNDERS:
            self.apply(RegisterBroker(record(founder.node_id)))

    def apply(self, command):
        self.index += 1
        size = self.tables.size_with(command)
        self.tables.apply(command, Index(self.index))
        encoded = len(b"".join(self.tables.encode()))
        assert encoded <= self.tables.size_bytes <= size
        return self.index

    @property
    def members(self):
        return self.tables.members

    def topic(self, *nodes, name="t", topic_id=TOPIC):
        self.apply(CreateTopic(name, topic_id, [[ReplicaRecord(node, f"d{node}") for node in nodes]], {}))

    def restored(self):
        other = ControllerTables(TopicConfig(), OFFERED, FOUNDERS)
        steps = other.decode(b"".join(self.tables.encode()))
        while True:
            try:
                next(steps)
            except StopIteration as end:
                other.replace(end.value)
                return other


def restore(state, saved, index):
    for _ in state.restore(saved, Index(index)):
        pass


def test_founders_are_admitted_and_nothing_is_saved_of_it():
    machine = Machine()
    assert [member.replica for member in machine.members.admitted()] == list(FOUNDERS)
    assert {member.epoch for member in machine.members.admitted()} == {FOUNDING_EPOCH}
    assert machine.members.saved() is None
    assert machine.restored().members.admitted() == machine.members.admitted()


def test_a_broker_is_admitted_and_its_epoch_is_the_command():
    machine = Machine()
    index = machine.apply(AdmitBroker(4, "d4", "r4", 7))
    assert machine.members.member(NodeId(4)).epoch == Revision(0, index)
    assert machine.members.usable() == [record(1), record(2), record(3)]
    machine.apply(RegisterBroker(record(4, port=8)))
    assert machine.members.member(NodeId(4)).rpc_port == 8
    # Again with another address: the epoch stays.
    machine.apply(AdmitBroker(4, "d4", "r4", 9))
    assert machine.members.member(NodeId(4)).epoch == Revision(0, index)
    assert machine.members.member(NodeId(4)).rpc_port == 9


def test_a_node_id_is_taken_until_its_directory_is_retired():
    machine = Machine()
    with pytest.raises(BrokerAdmittedError, match="raftka broker replace 3"):
        machine.apply(AdmitBroker(3, "new", "r", 1))
    machine.apply(RetireDirectory(3, "d3"))
    assert machine.members.refusal_of(NodeId(3)) is not None
    index = machine.apply(AdmitBroker(3, "new", "r", 1))
    assert machine.members.member(NodeId(3)).epoch == Revision(0, index)
    with pytest.raises(BrokerNotAdmittedError, match="retired"):
        machine.apply(AdmitBroker(3, "d3", "r", 1))
    with pytest.raises(BrokerNotAdmittedError, match="retired"):
        machine.apply(RegisterBroker(record(3)))
    machine.apply(RegisterBroker(record(3, "new")))
    assert machine.members.refusal_of(NodeId(3)) is None


@pytest.mark.parametrize(
    "command",
    [AdmitBroker(4, "d4", "r", 1), SetBrokerState(1, "draining"), RetireDirectory(1, "d1"), RemoveBroker(1)],
)
def test_below_level_1_no_broker_is_changed(command):
    machine = Machine(level=0)
    with pytest.raises(FeatureLevelError):
        machine.apply(command)
    assert b"".join(machine.tables.encode())[0] == 1


def test_from_level_1_on_only_admitted_brokers_register():
    machine = Machine()
    with pytest.raises(BrokerNotAdmittedError):
        machine.apply(RegisterBroker(record(9)))
    with pytest.raises(BrokerNotAdmittedError):
        machine.apply(RegisterBroker(record(1, "another")))


def test_a_broker_that_joins_again_knows_which_directory_it_has_replaced():
    machine = Machine()
    machine.apply(AdmitBroker(4, "d4", "r", 1))
    assert {member.replaced for member in machine.members.admitted()} == {""}
    machine.apply(RetireDirectory(4, "d4"))
    check_unnamed_retirement(machine.members, machine.members.member(NodeId(4)))
    machine.apply(AdmitBroker(4, "new", "r", 1))
    machine.apply(AdmitBroker(4, "new", "r", 2))
    for members in (machine.members, machine.restored().members):
        assert members.member(NodeId(4)).replaced == "d4"
        with pytest.raises(BrokerInUseError, match="raftka broker replace 4 --directory new"):
            check_unnamed_retirement(members, members.member(NodeId(4)))
    machine.apply(RetireDirectory(4, "new"))
    # Once more does no harm.
    check_unnamed_retirement(machine.members, machine.members.member(NodeId(4)))


@pytest.mark.parametrize("seed", range(20))
def test_a_node_and_its_directory_have_one_epoch_for_ever(seed):
    """So a registration, which names both, need not name the epoch."""
    rng = Random(seed)
    machine = Machine()
    epochs = {}
    for _ in range(200):
        node, directory = rng.randint(2, 5), f"d{rng.randint(1, 9)}"
        command = rng.choice(
            [
                AdmitBroker(node, directory, "r", rng.randint(1, 9)),
                RegisterBroker(record(node, directory)),
                RetireDirectory(node, directory),
                RemoveBroker(node),
            ]
        )
        # A founder that votes in raft0 is not removed; others are.
        with suppress(BrokerAdmittedError, BrokerInUseError, BrokerNotAdmittedError, UnknownBrokerError):
            machine.apply(command)
        for member in machine.members.admitted():
            assert epochs.setdefault(member.replica, member.epoch) == member.epoch
            assert member.epoch <= Revision(0, machine.index)
    assert len(epochs) > len(FOUNDERS) + 1


def test_a_state_is_set_and_a_directory_is_retired_by_its_name():
    machine = Machine()
    machine.apply(SetBrokerState(2, "draining"))
    assert machine.members.member(NodeId(2)).state is BrokerState.DRAINING
    assert "draining" in machine.members.refusal_of(NodeId(2))
    changed = machine.members.changed
    machine.apply(SetBrokerState(2, "draining"))
    assert machine.members.changed == changed
    with pytest.raises(UnknownBrokerError):
        machine.apply(SetBrokerState(9, "active"))
    with pytest.raises(UnknownBrokerError, match="another data directory"):
        machine.apply(RetireDirectory(2, "former"))


def test_a_decommission_that_leaves_too_few_brokers_names_the_topics():
    machine = Machine()
    machine.topic(1, 2, 3)
    with pytest.raises(InvalidReplicationFactorError, match=r"2 active brokers.*: t;"):
        machine.apply(SetBrokerState(1, "decommissioning"))
    machine.apply(AdmitBroker(4, "d4", "r", 1))
    machine.apply(SetBrokerState(1, "decommissioning"))


def test_a_broker_is_removed_once_nothing_names_it():
    machine = Machine()
    machine.topic(3)
    with pytest.raises(BrokerInUseError, match="votes in raft0"):
        machine.apply(RemoveBroker(3))
    machine.apply(AdmitBroker(4, "d4", "r", 1))
    machine.apply(RegisterBroker(record(4)))
    machine.topic(4, name="u", topic_id="b" * 32)
    with pytest.raises(BrokerInUseError, match="holds 1 replica:"):
        machine.apply(RemoveBroker(4))
    machine.apply(AlterPlacements([PlacementRecord("b" * 32, 0, [ReplicaRecord(1, "d1")])]))
    # On the way it holds the partition, too.
    with pytest.raises(BrokerInUseError):
        machine.apply(RemoveBroker(4))


def test_a_removed_broker_is_gone_and_its_directory_retired():
    machine = Machine()
    machine.apply(AdmitBroker(4, "d4", "r", 1))
    machine.apply(RegisterBroker(record(4)))
    machine.apply(RemoveBroker(4))
    assert machine.members.get(NodeId(4)) is None
    assert machine.members.member(NodeId(4)) is None
    assert (machine.members.retired, machine.members.removed) == ({"d4"}, {4})
    assert machine.restored().members.removed == {4}
    with pytest.raises(BrokerNotAdmittedError):
        machine.apply(AdmitBroker(4, "d4", "r", 1))
    # The number may be used again, by another disk.
    machine.apply(AdmitBroker(4, "other", "r", 1))
    assert machine.members.removed == frozenset()


def test_what_was_changed_is_saved_and_read_back():
    machine = Machine()
    machine.apply(AdmitBroker(4, "d4", "r", 1))
    machine.apply(SetBrokerState(2, "draining"))
    machine.apply(RetireDirectory(3, "d3"))
    members = machine.restored().members
    assert members.admitted() == machine.members.admitted()
    assert members.removed == frozenset()
    assert (members.retired, members.changed) == (machine.members.retired, machine.members.changed)


def test_nobody_hears_of_a_snapshot_before_all_tables_are_of_its_moment():
    """A target between two moments would have the revision of the new one and the voters of the old one."""
    machine = Machine()
    old = b"".join(machine.tables.encode())
    machine.apply(AdmitBroker(4, "d4", "r", 1))
    machine.apply(RegisterBroker(record(4)))
    machine.topic(4)
    machine.apply(AlterPlacements([PlacementRecord("raft0", 0, [ReplicaRecord(1, "d1"), ReplicaRecord(4, "d4")])]))
    machine.apply(FinishPlacement("raft0", (0, machine.index)))
    machine.apply(SetBrokerState(3, "draining"))
    machine.apply(AlterBrokerConfigs(None, {"retention.ms": "7"}))
    state = ControllerState(TopicConfig(), offered=OFFERED, founders=FOUNDERS)
    restore(state, old, 4)
    tables, heard = state.tables, []

    def look():
        target = raft0_target(tables.raft0, raft0_candidates(tables.members))
        heard.append((target, tables.topics.get("t") is not None, tables.options.of(None), state.applied_index))

    for table in (tables.members, tables.topics, tables.features, tables.raft0, tables.options):
        table.add_listener(look)
    restore(state, b"".join(machine.tables.encode()), machine.index)
    assert len(heard) == 5
    assert heard == [heard[-1]] * 5
    assert {voter.node_id for voter in heard[0][0].voters} == {1, 4}


def test_a_damaged_block_of_members_is_refused():
    machine = Machine()
    machine.apply(AdmitBroker(4, "d4", "r", 1))
    state = b"".join(machine.tables.encode()).replace(b"active", b"asleep")
    with pytest.raises(CorruptLogError, match="asleep"):
        list(ControllerTables(TopicConfig(), OFFERED, FOUNDERS).decode(state))


# -- what must move -------------------------------------------------------------------------------------------------


def test_a_decommissioned_broker_s_replicas_go_to_the_emptiest_active_one():
    machine = Machine()
    machine.topic(1, 2, 3)
    for node in (4, 5):
        machine.apply(AdmitBroker(node, f"d{node}", "r", 1))
        machine.apply(RegisterBroker(record(node)))
    machine.apply(SetBrokerState(1, "decommissioning"))
    counts = {NodeId(4): 2, NodeId(5): 1}
    target = evacuated(FOUNDERS, machine.members, counts)
    assert [replica.node_id for replica in target] == [5, 2, 3]
    machine.apply(SetBrokerState(5, "draining"))
    assert [replica.node_id for replica in evacuated(FOUNDERS, machine.members, counts)] == [4, 2, 3]


def test_a_lost_disk_s_replicas_wait_for_its_node():
    machine = Machine()
    machine.topic(1, 2, 3)
    for node in (4,):
        machine.apply(AdmitBroker(node, f"d{node}", "r", 1))
        machine.apply(RegisterBroker(record(node)))
    machine.apply(RetireDirectory(3, "d3"))
    assert evacuated(FOUNDERS, machine.members, {}) is None
    assert wanted_moves(machine.tables.topics, machine.members, 8) == []
    machine.apply(AdmitBroker(3, "new", "r", 1))
    assert evacuated(FOUNDERS, machine.members, {}) is None
    machine.apply(RegisterBroker(record(3, "new")))
    (move,) = wanted_moves(machine.tables.topics, machine.members, 8)
    assert move.target == (*FOUNDERS[:2], Replica(NodeId(3), DirectoryId("new")))


def test_a_lost_disk_of_a_broker_that_is_to_be_empty_is_not_waited_for():
    machine = Machine()
    machine.topic(1, 2, 3)
    machine.apply(AdmitBroker(4, "d4", "r", 1))
    machine.apply(RegisterBroker(record(4)))
    machine.apply(RetireDirectory(3, "d3"))
    machine.apply(SetBrokerState(3, "decommissioning"))
    assert [replica.node_id for replica in evacuated(FOUNDERS, machine.members, {})] == [1, 2, 4]


def test_without_another_broker_nothing_moves():
    machine = Machine()
    machine.apply(SetBrokerState(3, "decommissioning"))
    assert evacuated(FOUNDERS, machine.members, {}) is None


def test_internal_topics_rise_to_three_replicas():
    machine = Machine()
    machine.topic(1, name="__consumer_offsets")
    (move,) = wanted_moves(machine.tables.topics, machine.members, 8)
    assert [replica.node_id for replica in move.target] == [1, 2, 3]
    assert raised(FOUNDERS, machine.members, {}) is None
    assert wanted_moves(machine.tables.topics, machine.members, 0) == []


def internal(machine, *nodes, name="__consumer_offsets"):
    machine.topic(*nodes, name=name, topic_id="c" * 32)


def test_internal_topics_do_not_keep_three_brokers_from_becoming_two():
    machine = Machine()
    internal(machine, 1, 2, 3)
    machine.topic(1, 3)
    machine.apply(SetBrokerState(3, "decommissioning"))
    assert nodes_of(wanted_moves(machine.tables.topics, machine.members, 8)) == {
        "__consumer_offsets": [1, 2],
        "t": [1, 2],
    }
    # As a move that is under way, too.
    machine.apply(AlterPlacements([PlacementRecord("c" * 32, 0, [ReplicaRecord(3, "d3"), ReplicaRecord(1, "d1")])]))
    assert nodes_of(wanted_moves(machine.tables.topics, machine.members, 0)) == {"__consumer_offsets": [2, 1]}


def test_an_internal_topic_never_loses_its_last_replica():
    machine = Machine()
    internal(machine, 2, 3)
    machine.apply(SetBrokerState(2, "decommissioning"))
    machine.apply(SetBrokerState(3, "decommissioning"))
    assert nodes_of(wanted_moves(machine.tables.topics, machine.members, 8)) == {"__consumer_offsets": [1]}
    with pytest.raises(InvalidReplicationFactorError, match=r"0 active brokers.*: __consumer_offsets;"):
        machine.apply(SetBrokerState(1, "decommissioning"))


def test_an_internal_topic_loses_no_replica_on_a_broker_that_may_come_back():
    machine = Machine()
    internal(machine, 1, 2, 3)
    machine.apply(SetBrokerState(2, "draining"))
    machine.apply(RetireDirectory(3, "d3"))
    assert wanted_moves(machine.tables.topics, machine.members, 8) == []


def test_a_decommission_waits_for_no_broker_where_an_internal_topic_may_shrink():
    machine = Machine()
    internal(machine, 1, 2, 3)
    machine.apply(SetBrokerState(3, "decommissioning"))
    going = going_from(machine.members, NodeId(3))
    topic = machine.tables.topics.get("__consumer_offsets")
    assert staying(topic, 0, machine.members, going) == Staying("__consumer_offsets-0", is_moving=False, why="")


def test_a_topic_that_is_to_have_more_replicas_needs_as_many_brokers():
    machine = Machine()
    machine.topic(1, 2)
    machine.apply(AlterPlacements([PlacementRecord(TOPIC, 0, [ReplicaRecord(node, f"d{node}") for node in (1, 2, 3)])]))
    with pytest.raises(InvalidReplicationFactorError, match=": t;"):
        machine.apply(SetBrokerState(3, "decommissioning"))


def joined(machine, *nodes):
    for node in nodes:
        machine.apply(AdmitBroker(node, f"d{node}", "r", 1))
        machine.apply(RegisterBroker(record(node)))


def nodes_of(moves):
    return {move.topic.name: [replica.node_id for replica in move.target] for move in moves}


def test_a_node_that_has_joined_anew_keeps_its_own_place_though_it_is_the_emptiest():
    machine = Machine()
    machine.topic(1, 2, 3)
    joined(machine, 4)
    machine.apply(RetireDirectory(2, "d2"))
    machine.apply(AdmitBroker(2, "new", "r", 1))
    machine.apply(RegisterBroker(record(2, "new")))
    machine.apply(SetBrokerState(1, "decommissioning"))
    (move,) = wanted_moves(machine.tables.topics, machine.members, 8)
    assert [replica.node_id for replica in move.target] == [4, 2, 3]


def test_a_partition_that_can_agree_on_nothing_takes_no_place():
    machine = Machine()
    machine.topic(1, 2, 3)
    machine.topic(1, name="u", topic_id="b" * 32)
    joined(machine, 4, 5)
    machine.apply(RetireDirectory(1, "d1"))
    machine.apply(AdmitBroker(1, "new", "r", 1))
    machine.apply(RegisterBroker(record(1, "new")))
    # The only replica of u is lost.
    assert nodes_of(wanted_moves(machine.tables.topics, machine.members, 1)) == {"t": [1, 2, 3]}


def test_a_move_that_must_go_elsewhere_needs_no_further_place():
    machine = Machine()
    machine.topic(1, 2, 3)
    joined(machine, 4, 5)
    to_four = [ReplicaRecord(4, "d4"), ReplicaRecord(2, "d2"), ReplicaRecord(3, "d3")]
    machine.apply(AlterPlacements([PlacementRecord(TOPIC, 0, to_four)]))
    machine.apply(SetBrokerState(4, "decommissioning"))
    assert nodes_of(wanted_moves(machine.tables.topics, machine.members, 0)) in ({"t": [5, 2, 3]}, {"t": [1, 2, 3]})


def test_brokers_that_work_get_replicas_before_those_that_do_not():
    machine = Machine()
    machine.topic(1, 2, 3)
    joined(machine, 4, 5)
    machine.apply(SetBrokerState(1, "decommissioning"))
    moves = wanted_moves(machine.tables.topics, machine.members, 8, lambda node: node != 4)
    assert nodes_of(moves) == {"t": [5, 2, 3]}
