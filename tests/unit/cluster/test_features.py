"""Levels of features: who may raise them, what happens to a broker that lacks one, and how raft0's state holds them."""

import asyncio

import msgspec
import pytest

from cluster.admin_messages import RegisterBrokerRequest, UpdateFeatureRequest
from cluster.commands import (
    AllocateProducerIds,
    BrokerRecord,
    CreateTopic,
    RegisterBroker,
    ReplicaRecord,
    SetFeature,
    UnknownCommandError,
    decode_command,
    encode_command,
)
from cluster.controller_state import ControllerState
from cluster.errors import FeatureUpdateError, PermanentStartupError
from model.features import MEMBERSHIP, LevelRange, told_features
from model.ids import Index, NodeId, Offset, Term
from model.topic_config import TopicConfig
from storage.entry import Entry, EntryKind
from storage.errors import CorruptLogError, UnknownFormatError
from tests.feature_levels import LEVEL_0
from tests.unit.cluster.cluster_nodes import Cluster, cluster_of, run, until

OFFERED = {"x.one": LevelRange(0, 2), "x.two": LevelRange(1, 3)}
TOLD = {"x.one": 2, "x.two": 3}


def broker(node, features=None):
    return BrokerRecord(node, f"dir{node}", "k", 9092, "r", 1, "a", 2, features or {})


def create(name="t"):
    return CreateTopic(name, "a" * 32, [[ReplicaRecord(1, "dir1")]], {})


class Machine:
    """raft0's state, fed commands that are committed at once."""

    def __init__(self, offered=OFFERED, founders=()):
        self.state = ControllerState(TopicConfig(), offered=offered, founders=founders)
        self.features = self.state.tables.features
        self.index = 0

    def note(self, command):
        self.index += 1
        entry = Entry(Index(self.index), Term(1), EntryKind.COMMAND, Offset(0), 0, encode_command(command))
        self.state.note(entry)

    def apply(self, command):
        """Return why it was refused; None: it was not."""
        self.note(command)
        self.state.commit(Index(self.index))
        return self.state.refusal(Index(self.index))

    def saved(self):
        return b"".join(self.state.snapshot())

    def restore(self, saved):
        for _ in self.state.restore(saved, Index(100)):
            pass


@pytest.fixture(name="machine")
def fixture_machine():
    machine = Machine()
    for node in (1, 2):
        assert machine.apply(RegisterBroker(broker(node, TOLD))) is None
    return machine


def test_a_level_is_raised_and_never_lowered(machine):
    assert (machine.features.level("x.one"), machine.features.epoch) == (0, 0)
    assert machine.apply(SetFeature("x.one", 1)) is None
    assert machine.apply(SetFeature("x.two", 3)) is None
    assert machine.apply(SetFeature("x.one", 1)) is None
    assert (machine.features.all(), machine.features.epoch) == ({"x.one": 1, "x.two": 3}, 2)
    refusal = machine.apply(SetFeature("x.two", 2))
    assert isinstance(refusal, FeatureUpdateError)
    assert str(refusal) == "x.two is at level 3, and a level is never lowered"
    assert machine.features.level("x.two") == 3


def test_a_level_that_a_registered_broker_lacks_is_refused_and_the_brokers_are_named(machine):
    assert machine.apply(RegisterBroker(broker(3, {"x.one": 1}))) is None
    assert machine.apply(RegisterBroker(broker(4))) is None
    refusal = machine.apply(SetFeature("x.one", 2))
    assert isinstance(refusal, FeatureUpdateError)
    assert "broker 3 has 1, broker 4 has 0" in str(refusal)
    assert machine.features.all() == {}


def test_what_a_level_was_judged_by_replaces_what_the_tables_have(machine):
    other = Machine()
    for record in (broker(1, TOLD), broker(2)):
        assert other.apply(RegisterBroker(record)) is None
    for each in (machine, other):
        assert each.apply(SetFeature("x.one", 2, {1: TOLD, 2: TOLD})) is None
        assert each.features.all() == {"x.one": 2}
    assert [record.features for record in other.state.tables.members.all()] == [TOLD, TOLD]
    assert other.saved() == machine.saved()


@pytest.mark.parametrize("told", [{2: {"x.one": 1}}, {2: {}}, {1: TOLD, 3: {}}], ids=["lower", "none", "unregistered"])
def test_a_level_that_names_a_broker_without_it_is_refused_and_nothing_changes(machine, told):
    before = machine.saved()
    refusal = machine.apply(SetFeature("x.one", 2, told))
    assert isinstance(refusal, FeatureUpdateError)
    assert f"broker {max(told)} has" in str(refusal)
    assert machine.saved() == before


def test_a_level_that_names_no_brokers_has_the_bytes_that_it_had_before_it_could(machine):
    encoded = encode_command(SetFeature("x.one", 1))
    assert msgspec.msgpack.decode(encoded[1:]) == {"type": "set_feature", "name": "x.one", "level": 1}
    named = SetFeature("x.one", 1, {1: TOLD})
    assert decode_command(encode_command(named)) == named


def test_a_broker_without_a_level_in_force_is_not_registered(machine):
    assert machine.apply(SetFeature("x.one", 2)) is None
    refusal = machine.apply(RegisterBroker(broker(2, {"x.one": 1, "x.two": 3})))
    assert isinstance(refusal, FeatureUpdateError)
    assert "the cluster uses x.one 2, which the version of broker 2 does not have" in str(refusal)
    assert machine.state.tables.members.get(2).features == TOLD


@pytest.mark.parametrize("offered", [{}, {"x.one": LevelRange(0, 1)}], ids=["unknown", "lower"])
def test_a_version_stops_at_a_level_that_it_does_not_have(offered):
    with pytest.raises(UnknownCommandError, match=r"the cluster uses x\.one at level 2, and this version has level"):
        Machine(offered).note(SetFeature("x.one", 2))


def test_state_has_the_former_format_until_a_level_is_raised(machine):
    assert machine.apply(create()) is None
    assert machine.apply(AllocateProducerIds(0, 1000)) is None
    assert machine.saved()[0] == 1
    assert machine.apply(SetFeature("x.one", 2)) is None
    assert machine.saved()[0] == 2


@pytest.mark.parametrize("levels", [{}, {"x.one": 2}, {"x.one": 1, "x.two": 3}])
def test_what_is_restored_is_what_was_saved(machine, levels):
    assert machine.apply(create()) is None
    for name, level in levels.items():
        assert machine.apply(SetFeature(name, level)) is None
    other = Machine()
    other.restore(machine.saved())
    assert other.saved() == machine.saved()
    assert (other.features.all(), other.features.epoch) == (levels, len(levels))
    assert other.state.tables.members.all() == machine.state.tables.members.all()
    assert [topic.name for topic in other.state.tables.topics.all()] == ["t"]


def test_state_of_a_level_that_this_version_does_not_have_is_refused(machine):
    assert machine.apply(SetFeature("x.one", 2)) is None
    with pytest.raises(UnknownFormatError, match=r"the cluster uses x\.one at level 2, and this version has level 0"):
        Machine({}).restore(machine.saved())


def item(value):
    encoded = msgspec.msgpack.encode(value)
    return len(encoded).to_bytes(4, "little") + encoded


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (item(["transactions", 1, 0]), "block 'transactions' of version 1 is unknown"),
        (item(["features", 2, 0]), "block 'features' of version 2 is unknown"),
        (item(["features", 1, 1]) + item([{"x.one": 1}, 1]), "block 'features' is there twice"),
        (item(["tables", 1, 0]), "block 'tables' is there twice"),
        (b"\x05\x00\x00\x00x", "cannot be read"),
    ],
)
def test_a_block_that_is_unknown_or_does_not_fit_is_refused_by_name(machine, more, says):
    assert machine.apply(SetFeature("x.one", 2)) is None
    with pytest.raises(CorruptLogError, match=says):
        Machine().restore(machine.saved() + more)


@pytest.mark.parametrize(
    ("items", "says"),
    [
        (item(["features", 1, 1]) + item([{"x.one": 1}, 1]), "no block 'tables'"),
        (item(["features", 1, 2]) + item([{"x.one": 1}, 1]) + item([{}, 1]), "more items than it can have"),
        (item(["features", 1, 0]), "cannot be read"),
        (item(["tables", 1, 0]), "cannot be read"),
    ],
)
def test_state_whose_blocks_lack_something_is_refused(items, says):
    with pytest.raises(CorruptLogError, match=says):
        Machine().restore(b"\x02" + items)


def test_the_size_of_the_tables_is_known_with_and_without_levels(machine):
    assert machine.apply(create()) is None
    tables = machine.state.tables
    for command in (
        RegisterBroker(broker(2)),
        SetFeature("x.one", 1, {1: TOLD, 2: TOLD}),
        SetFeature("x.two", 3),
        SetFeature("x.one", 2),
        RegisterBroker(broker(3, TOLD)),
    ):
        foretold, reserved, before = tables.size_with(command), tables.reserve_bytes(command), tables.size_bytes
        assert machine.apply(command) is None
        assert len(machine.saved()) <= tables.size_bytes == foretold
        assert tables.size_bytes - before <= reserved
        assert tables.size_bytes - len(machine.saved()) < 16


def test_a_record_without_features_has_the_bytes_that_it_had_before_there_were_any():
    class FormerRecord(msgspec.Struct, frozen=True):
        node_id: int
        directory_id: str
        kafka_host: str
        kafka_port: int
        rpc_host: str
        rpc_port: int
        admin_host: str
        admin_port: int

    former = FormerRecord(1, "dir1", "k", 9092, "r", 1, "a", 2)
    assert msgspec.msgpack.encode(broker(1)) == msgspec.msgpack.encode(former)
    # And an older version reads a record that has some.
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(broker(1, TOLD)), type=FormerRecord) == former
    assert decode_command(encode_command(RegisterBroker(broker(1, TOLD)))).broker.features == TOLD


def test_a_feature_that_is_only_at_level_0_is_not_told():
    assert told_features({"x.none": LevelRange(0, 0), **OFFERED}) == TOLD


def test_a_level_outlives_a_restart_and_a_version_that_lacks_it_does_not_start(tmp_path):
    async def test():
        cluster = Cluster(tmp_path, 1)

        async def start(offered):
            node = cluster.make(1, features=offered)
            await node.start()
            await until(lambda: node.controller.is_in_office)
            node.register(BrokerRecord(1, node.replica.directory_id, "k", 9092, "r", 1, "a", 2))
            await node.is_registered.wait()
            return node

        node = await start({"x.two": OFFERED["x.two"]})
        assert node.controller.features.all() == {"x.two": 3}
        await cluster.stop()
        node = await start(OFFERED)
        await node.admin.update_feature(UpdateFeatureRequest("x.one", 2, False, 5.0))
        assert node.controller.members.get(1).features == TOLD
        await cluster.stop()
        node = await start(OFFERED)
        assert node.controller.features.all() == {"x.one": 2, "x.two": 3}
        await cluster.stop()
        # Its directory says so, before raft0 is read.
        with pytest.raises(PermanentStartupError, match=r"only versions with x\.one 2 can read: start such a version"):
            await start({**OFFERED, "x.one": LevelRange(0, 1)})
        await cluster.stop()

    run(test)


def test_a_new_cluster_begins_at_the_levels_of_its_founders_before_anybody_registers(tmp_path):
    async def test():
        cluster = Cluster(tmp_path, 3)
        nodes = [
            cluster.make(number, features={"x.one": LevelRange(0, min(number, 2)), "x.two": LevelRange(1, 3)})
            for number in (1, 2, 3)
        ]
        await asyncio.gather(*(node.start() for node in nodes))
        await until(lambda: all(node.controller.leader_id is not None for node in nodes))
        for number, node in enumerate(nodes, start=1):
            node.register(BrokerRecord(number, node.replica.directory_id, "k", 9000, "r", 1, "a", 2))
        await asyncio.gather(*(node.is_registered.wait() for node in nodes))
        for node in nodes:
            assert node.cluster.features == {"x.one": 1, "x.two": 3}
            assert (node.controller.features.all(), node.controller.features.epoch) == ({"x.one": 1, "x.two": 3}, 2)
        await cluster.stop()

    run(test)


def test_brokers_register_where_one_lacks_a_level_of_the_founding(tmp_path, caplog):
    """A version was changed amid the founding, so the founders have written down different levels."""

    async def test():
        async with cluster_of(tmp_path, 1, features=LEVEL_0) as cluster:
            await cluster.stop()
            cluster.features = {MEMBERSHIP: LevelRange(0, 1)}
            await cluster.start()
            node = cluster[1]
            await node.admin.register_broker(RegisterBrokerRequest(broker(2), 5.0))
            node.admin._first_levels = {MEMBERSHIP: 1}
            moved = msgspec.structs.replace(node.controller.members.get(NodeId(1)), kafka_port=1234)
            await node.admin.register_broker(RegisterBrokerRequest(moved, 5.0))
            assert node.controller.members.get(NodeId(1)) == moved
            assert node.controller.features.level(MEMBERSHIP) == 0
            assert "raftka cluster features upgrade raftka.membership=1" in caplog.text

    run(test)


def test_a_founder_that_lost_its_record_takes_the_levels_of_the_others(tmp_path):
    """A cluster of an older version is upgraded while one founder has yet to write it down: nothing is raised."""

    async def test():
        cluster = Cluster(tmp_path, 3, features=LEVEL_0)
        await cluster.start()
        await cluster.stop()
        del cluster.durable[3]["node/cluster"]
        nodes = [cluster.make(number, features=OFFERED) for number in (1, 2, 3)]
        await asyncio.gather(*(node.start() for node in nodes))
        assert [node.cluster.features for node in nodes] == [{}, {}, {}]
        await cluster.stop()

    run(test)
