"""raft0's tables that begin with a snapshot know all that the tables know which have applied the log (E5 of RFC 0020)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.commands import (
    AdmitBroker,
    AllocateProducerIds,
    AlterBrokerConfigs,
    AlterPlacements,
    AlterTopicConfigs,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    FinishPlacement,
    PlacementRecord,
    RegisterBroker,
    RemoveBroker,
    ReplicaRecord,
    RetireDirectory,
    SetBrokerState,
    SetFeature,
)
from cluster.controller_tables import ControllerTables
from cluster.errors import ClusterError
from cluster.members_table import FOUNDING_EPOCH
from model.features import MEMBERSHIP, OFFERED
from model.ids import RAFT0, NodeId
from model.topic_config import TopicConfig
from tests.unit.cluster.test_members import FOUNDERS, Machine, record

TOPICS = {"t": "a" * 32, "u": "b" * 32}

_nodes = st.integers(1, 5)
_directories = st.tuples(_nodes, st.sampled_from("de")).map(lambda pair: (pair[0], f"{pair[1]}{pair[0]}"))
_ports = st.integers(1, 3)
_topic_ids = st.sampled_from(list(TOPICS.values()))
_replicas = st.lists(_directories, min_size=1, max_size=3, unique_by=lambda pair: pair[0]).map(
    lambda pairs: [ReplicaRecord(*pair) for pair in pairs]
)
_partitions = st.lists(_replicas, min_size=1, max_size=2)
_of_brokers = st.one_of(
    st.builds(lambda pair, port: RegisterBroker(record(*pair, port)), _directories, _ports),
    st.builds(lambda pair, port: AdmitBroker(*pair, "h", port), _directories, _ports),
    st.builds(SetBrokerState, _nodes, st.sampled_from(["active", "draining", "decommissioning"])),
    st.builds(lambda pair: RetireDirectory(*pair), _directories),
    st.builds(RemoveBroker, _nodes),
    st.builds(AlterBrokerConfigs, st.none() | _nodes, st.sampled_from([{}, {"k": "v"}])),
)
_of_topics = st.one_of(
    st.builds(lambda name, partitions: CreateTopic(name, TOPICS[name], partitions, {}), st.sampled_from("tu"), _partitions),
    st.builds(lambda topic, partitions: CreatePartitions(topic, 2, partitions), _topic_ids, _partitions),
    st.builds(AlterTopicConfigs, _topic_ids, st.sampled_from([{}, {"retention.ms": "5"}])),
    st.builds(DeleteTopic, _topic_ids),
)  # fmt: skip
_moves = st.one_of(
    st.builds(lambda topic, number, to: AlterPlacements([PlacementRecord(topic, number, to)]),
              _topic_ids, st.integers(0, 2), st.none() | _replicas),
    st.builds(lambda to: AlterPlacements([PlacementRecord(RAFT0, 0, to)]), _replicas),
)  # fmt: skip
_steps = st.one_of(
    _of_brokers, _of_brokers, _of_topics, _moves, st.just(SetFeature(MEMBERSHIP, 1)), st.sampled_from(["finish", "ids"])
)


class Blank(Machine):
    """Tables of the founding: nothing is raised, and nobody has registered."""

    def __init__(self, tables=None, index=0):
        self.tables = tables or ControllerTables(TopicConfig(), OFFERED, FOUNDERS)
        self.index = index

    def step(self, step):
        """Apply a step; return why the tables refuse it, None if they take it."""
        if step == "ids":
            step = AllocateProducerIds(self.tables.producer_ids.next_id, 1000)
        elif step == "finish":
            step = FinishPlacement(*self._under_way())
        try:
            self.apply(step)
        except ClusterError as refusal:
            return type(refusal), str(refusal)
        return None

    def _under_way(self):
        if self.tables.raft0.move is not None:
            return RAFT0, tuple(self.tables.raft0.move.revision)
        for topic in self.tables.topics.all():
            for number in topic.placements:
                move = topic.move_of(number)
                if move is not None:
                    return topic.group(number), tuple(move.revision)
        return f"{TOPICS['t']}/0", (0, 1)


def known(tables):
    """All that the tables know, and how large they are."""
    members = tables.members
    return {
        "registered": members.all(),
        "admitted": members.admitted(),
        "retired": (members.retired, members.removed, members.changed),
        "levels": (tables.features.all(), tables.features.epoch),
        "options": tables.options.all(),
        "topics": tables.topics.all(),
        "counts": [tables.topics.replica_count(NodeId(node)) for node in range(1, 6)],
        "producer ids": tables.producer_ids.next_id,
        "raft0": (tables.raft0.voters, tables.raft0.move, tables.raft0.saved),
        "bytes": b"".join(tables.encode()),
        "size": tables.size_bytes,
    }


@settings(max_examples=300, deadline=None)
@given(st.booleans(), st.lists(_steps, max_size=25), st.lists(_steps, max_size=8))
def test_tables_of_a_snapshot_are_those_that_have_applied_the_log(is_raised, before, after):
    machine = Blank()
    if is_raised:
        machine.step(SetFeature(MEMBERSHIP, 1))
    for step in before:
        machine.step(step)
        if not machine.tables.features.level(MEMBERSHIP):
            assert machine.members.saved() is None
            assert b"".join(machine.tables.encode())[0] == 1
    other = Blank(machine.restored(), machine.index)
    assert known(other.tables) == known(machine.tables)
    for step in after:
        assert other.step(step) == machine.step(step)
    assert known(other.tables) == known(machine.tables)


def test_a_snapshot_has_the_address_that_a_founder_was_admitted_with_again():
    machine = Blank()
    machine.apply(SetFeature(MEMBERSHIP, 1))
    # It came with other addresses and nobody dials it any more, so it has asked to be let in.
    machine.apply(AdmitBroker(1, "d1", "elsewhere", 7))
    for members in (machine.members, machine.restored().members):
        founder = members.member(NodeId(1))
        assert (founder.rpc_host, founder.rpc_port, founder.epoch) == ("elsewhere", 7, FOUNDING_EPOCH)
    machine.apply(RegisterBroker(record(1)))
    assert machine.members.saved() is None
    machine.apply(AdmitBroker(1, "d1", "elsewhere", 8))
    assert machine.restored().members.member(NodeId(1)).rpc_port == 8


def test_below_the_level_a_snapshot_tells_addresses_by_registrations_alone():
    machine = Machine(level=0)
    machine.apply(RegisterBroker(record(1, "another", 7)))
    assert machine.members.saved() is None
    assert machine.restored().members.admitted() == machine.members.admitted()
    machine.apply(SetFeature(MEMBERSHIP, 1))
    assert machine.restored().members.admitted() == machine.members.admitted()
