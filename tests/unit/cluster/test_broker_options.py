"""Options that are set while brokers run: what the tables keep, who may set them, and how raft0's state holds them."""

import asyncio
from dataclasses import replace

import pytest

from cluster.admin_messages import AlterBrokerConfigsRequest
from cluster.commands import (
    AlterBrokerConfigs,
    BrokerRecord,
    CreateTopic,
    RegisterBroker,
    ReplicaRecord,
    SetFeature,
    decode_command,
    encode_command,
)
from cluster.controller_state import ControllerState
from cluster.dynamic_options import altered_options
from cluster.errors import FeatureLevelError, InvalidBrokerConfigError, UnknownBrokerError
from cluster.option_table import OptionTable
from cluster.topic_changes import ConfigChange
from model.config_definition import InvalidConfigError
from model.features import MEMBERSHIP, OFFERED
from model.ids import Index, NodeId
from model.topic_config import TopicConfig
from storage.errors import CorruptLogError
from tests.feature_levels import LEVEL_0
from tests.unit.cluster.cluster_nodes import FAST, Cluster, run, until
from tests.unit.cluster.test_features import Machine, item

SET, DELETE, APPEND, SUBTRACT = range(4)
BOTH = [AlterBrokerConfigs(None, {"a": "1"}), AlterBrokerConfigs(2, {"a": "2", "b": "3"})]


class Numbers:
    """Options `a` and `b`, also called `c`: whole numbers, of which `a` must not be above `b`. `z` is not dynamic."""

    def __init__(self):
        self.applied = []

    def key_of(self, name):
        if name not in ("a", "b", "c"):
            raise InvalidConfigError(f"unknown option {name}")
        return "b" if name == "c" else name

    def normalized(self, key, value):
        try:
            return str(int(value))
        except ValueError:
            raise InvalidConfigError(f"{key}={value}: not a number") from None

    def check(self, for_all, own):
        values = {"a": "0", "b": "100", **for_all, **own}
        if int(values["a"]) > int(values["b"]):
            raise InvalidConfigError(f"a={values['a']} is above b={values['b']}")

    def apply(self, for_all, own):
        self.applied.append((dict(for_all), dict(own)))


@pytest.fixture(name="machine")
def fixture_machine():
    machine = Machine(OFFERED)
    told = {MEMBERSHIP: 1}
    for node in (1, 2):
        record = BrokerRecord(node, f"dir{node}", "k", 9092, "r", 1, "a", 2, told)
        assert machine.apply(RegisterBroker(record)) is None
    return machine


def raised(machine):
    assert machine.apply(SetFeature(MEMBERSHIP, 1)) is None
    return machine


def changed(table, node, *changes, replaces_all=False):
    return altered_options(table, node, [ConfigChange(*each) for each in changes], Numbers(), replaces_all=replaces_all)


def test_options_are_refused_below_the_level_of_the_feature_and_nothing_is_kept(machine):
    refusal = machine.apply(BOTH[0])
    assert isinstance(refusal, FeatureLevelError)
    assert "need raftka.membership at level 1, and the cluster uses it at level 0" in str(refusal)
    assert machine.state.tables.options.all() == []
    assert machine.saved()[0] == 1


def test_what_is_set_replaces_what_was_and_nothing_set_is_nothing_kept(machine):
    raised(machine)
    table, heard = machine.state.tables.options, []
    table.add_listener(lambda: heard.append(len(table.all())))
    for command in BOTH:
        assert machine.apply(command) is None
    assert table.all() == BOTH
    assert (table.of(None), table.of(NodeId(2)), table.of(NodeId(1))) == ({"a": "1"}, {"a": "2", "b": "3"}, {})
    assert machine.apply(AlterBrokerConfigs(2, {"b": "4"})) is None
    assert table.of(NodeId(2)) == {"b": "4"}
    assert machine.apply(AlterBrokerConfigs(2, {})) is None
    assert (table.all(), table.nodes(), heard) == (BOTH[:1], [], [1, 2, 2, 1])


@pytest.mark.parametrize("options", [[], BOTH[:1], BOTH[1:], BOTH])
def test_what_is_restored_is_what_was_saved_and_nothing_set_is_as_before_there_were_options(machine, options):
    before = raised(machine).saved()
    for command in options:
        assert machine.apply(command) is None
    saved = machine.saved()
    assert (saved == before) is (options == [])
    assert (b"options" in saved) is (options != [])
    other = Machine(OFFERED)
    other.restore(saved)
    assert other.saved() == saved
    assert other.state.tables.options.all() == options
    # A state of the time before is read, too, and takes away what is not in it.
    other.restore(before)
    assert other.state.tables.options.all() == []


def test_brokers_that_have_applied_as_much_have_the_same_state(machine):
    raised(machine)
    other = Machine(OFFERED)
    other.restore(machine.saved())
    other.index = int(other.state.applied_index)
    for one, command in ((machine, BOTH[1]), (machine, BOTH[0]), (other, BOTH[0])):
        assert one.apply(command) is None
    assert other.apply(AlterBrokerConfigs(2, {"b": "3", "a": "2"})) is None
    assert machine.saved() == other.saved()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (item(["options", 2, 0]), "block 'options' of version 2 is unknown"),
        (item(["options", 1, 1]), "block 'options' lacks items, or has a broker twice"),
        (item(["options", 1, 2]) + item([1, {"a": "1"}]) * 2, "block 'options' lacks items, or has a broker twice"),
        (item(["options", 1, 1]) + item([1, {"a": 1}]), "cannot be read"),
        (item(["options", 1, 1]) + item(["x", {}]), "cannot be read"),
    ],
)
def test_a_block_of_options_that_does_not_fit_is_refused(machine, more, says):
    with pytest.raises(CorruptLogError, match=says):
        Machine(OFFERED).restore(raised(machine).saved() + more)


def test_a_block_of_options_below_the_level_of_the_feature_is_refused(machine):
    raised(machine)
    tables = machine.saved()
    # Of another feature only: the level of this one is 0.
    head, _, _ = tables.partition(item(["features", 1, 1]))
    block = item(["features", 1, 1]) + item([{"x.one": 1}, 1]) + item(["options", 1, 1]) + item([1, {"a": "1"}])
    with pytest.raises(CorruptLogError, match=r"block 'options' is there, but raftka\.membership is below level 1"):
        Machine(OFFERED).restore(head + block)


def test_the_size_of_the_tables_is_known_with_and_without_options(machine):
    raised(machine)
    tables = machine.state.tables
    topic = CreateTopic("t", "a" * 32, [[ReplicaRecord(1, "dir1")]], {})
    for command in (*BOTH, topic, AlterBrokerConfigs(2, {}), AlterBrokerConfigs(None, {"a": "12345"})):
        foretold, reserved, before = tables.size_with(command), tables.reserve_bytes(command), tables.size_bytes
        assert machine.apply(command) is None
        assert len(machine.saved()) <= tables.size_bytes == foretold
        assert tables.size_bytes - before <= reserved
        assert tables.size_bytes - len(machine.saved()) < 16


@pytest.mark.parametrize("command", BOTH)
def test_a_command_is_read_as_it_was_written(command):
    assert decode_command(encode_command(command)) == command


def table_with(*commands):
    table = OptionTable()
    table.replace(commands)
    return table


def test_keys_are_set_and_deleted_and_other_names_stand_for_them():
    table = table_with(*BOTH)
    assert changed(table, NodeId(2), ("c", SET, " 7 "), ("a", DELETE, None)) == {"b": "7"}
    assert changed(table, NodeId(2)) == {"a": "2", "b": "3"}
    assert changed(table, None, ("b", SET, "50")) == {"a": "1", "b": "50"}
    assert changed(table, None, ("b", SET, "50"), replaces_all=True) == {"b": "50"}
    assert changed(table, NodeId(3), ("a", DELETE, None)) == {}


def test_a_key_of_a_newer_version_can_be_deleted_and_not_set():
    table = table_with(AlterBrokerConfigs(None, {"newer": "1"}))
    assert changed(table, None, ("newer", DELETE, None)) == {}
    with pytest.raises(InvalidBrokerConfigError, match="unknown option newer"):
        changed(table, None, ("newer", SET, "2"))


@pytest.mark.parametrize(
    ("node", "changes", "says"),
    [
        (None, [("z", SET, "1")], "unknown option z"),
        (None, [("z", DELETE, None)], "unknown option z"),
        (None, [("a", SET, "x")], "a=x: not a number"),
        (None, [("a", SET, None)], "a: a value is missing"),
        (None, [("a", APPEND, "1")], "a is no list"),
        (None, [("a", SUBTRACT, "1")], "a is no list"),
        (None, [("a", 9, "1")], "a: unknown operation 9"),
        (None, [("b", SET, "1"), ("c", SET, "2")], "b is named twice"),
        (1, [("a", SET, "101")], "a=101 is above b=100"),
        (None, [("a", SET, "101")], "a=101 is above b=100"),
        # For all it fits, and with what broker 2 has of its own it does not.
        (None, [("b", SET, "1")], "a=2 is above b=1"),
    ],
)
def test_what_may_not_be_set_is_refused(node, changes, says):
    table = table_with(AlterBrokerConfigs(2, {"a": "2"}))
    with pytest.raises(InvalidBrokerConfigError, match=says):
        changed(table, node, *changes)


def request(node, *changes, **fields):
    given = {"replaces_all": False, "validate_only": False, "timeout": 10.0} | fields
    return AlterBrokerConfigsRequest(node, [ConfigChange(*each) for each in changes], **given)


class Brokers:
    """A cluster whose brokers may be of a version without features."""

    def __init__(self, path, count, raft=None):
        self.cluster = Cluster(path, count, raft=raft)
        self.dynamic = {}

    async def start(self, *numbers, features=OFFERED):
        for number in numbers:
            self.dynamic[number] = Numbers()
        nodes = [self.cluster.make(number, dynamic=self.dynamic[number], features=features) for number in numbers]
        await asyncio.gather(*(node.start() for node in nodes))
        await until(lambda: all(node.controller.leader_id is not None for node in nodes))
        for node in nodes:
            number = int(node.options.node_id)
            rpc = node.options.rpc_host, node.options.rpc_port
            node.register(BrokerRecord(number, node.replica.directory_id, "k", 9000 + number, *rpc, "a", 2))
        await asyncio.gather(*(node.is_registered.wait() for node in nodes))
        return nodes


def test_any_broker_takes_options_of_all_and_each_broker_applies_them(tmp_path):
    async def test():
        brokers = Brokers(tmp_path, 3)
        one, two, three = await brokers.start(1, 2, 3)
        await until(brokers.cluster.has_controller)
        reply = await one.admin.alter_broker_configs(request(None, ("a", SET, "1")))
        reply = await two.admin.alter_broker_configs(request(3, ("a", SET, "3"), ("b", SET, "4")))
        for node in (one, two, three):
            await node.controller.wait_applied(Index(reply.applied_index))
        assert brokers.dynamic[1].applied[-1] == brokers.dynamic[2].applied[-1] == ({"a": "1"}, {})
        assert brokers.dynamic[3].applied[-1] == ({"a": "1"}, {"a": "3", "b": "4"})
        with pytest.raises(UnknownBrokerError, match="broker 9 is not in the cluster"):
            await three.admin.alter_broker_configs(request(9, ("a", SET, "1")))
        with pytest.raises(InvalidBrokerConfigError, match="unknown option z"):
            await three.admin.alter_broker_configs(request(3, ("z", SET, "1")))
        await brokers.cluster.stop()

    run(test)


def test_nothing_is_proposed_where_nothing_changes_or_only_a_check_is_wanted(tmp_path):
    async def test():
        brokers = Brokers(tmp_path, 1)
        (node,) = await brokers.start(1)
        await node.admin.alter_broker_configs(request(1, ("a", SET, "1")))
        end = node.controller.consensus.log.dirty_index
        for unchanged in (
            request(1, ("a", SET, "01")),
            request(1, ("b", DELETE, None)),
            request(1, ("a", SET, "2"), validate_only=True),
            request(None, replaces_all=True),
        ):
            await node.admin.alter_broker_configs(unchanged)
        with pytest.raises(InvalidBrokerConfigError):
            await node.admin.alter_broker_configs(request(1, ("a", SET, "x"), validate_only=True))
        assert node.controller.consensus.log.dirty_index == end
        assert node.controller.options.of(NodeId(1)) == {"a": "1"}
        await brokers.cluster.stop()

    run(test)


@pytest.mark.parametrize("is_saved", [False, True], ids=["from the log", "from a snapshot"])
def test_options_are_in_force_again_before_clients_are_served(tmp_path, is_saved):
    async def test():
        brokers = Brokers(tmp_path, 1, replace(FAST, snapshot_entries=2 if is_saved else 20_000))
        (node,) = await brokers.start(1)
        await node.admin.alter_broker_configs(request(None, ("a", SET, "1")))
        await node.admin.alter_broker_configs(request(1, ("b", SET, "2")))
        await brokers.cluster.stop()
        await brokers.start(1)
        assert brokers.dynamic[1].applied[-1] == ({"a": "1"}, {"b": "2"})
        await brokers.cluster.stop()

    run(test)


def test_without_the_feature_the_request_is_not_even_sent(tmp_path):
    async def test():
        brokers = Brokers(tmp_path, 1)
        (node,) = await brokers.start(1, features=LEVEL_0)
        with pytest.raises(FeatureLevelError, match=r"raftka\.membership at level 1"):
            await node.admin.alter_broker_configs(request(None, ("a", SET, "1")))
        await brokers.cluster.stop()

    run(test)


def test_defaults_of_topics_change_what_topics_leave_open_and_nothing_else():
    state = ControllerState(TopicConfig())
    topics = state.tables.topics
    for name, identity, configs in (("a", "a" * 32, {}), ("b", "b" * 32, {"max.message.bytes": "5"})):
        state.tables.apply(CreateTopic(name, identity, [[ReplicaRecord(1, "dir1")]], configs))
    heard, revision = [], topics.revision
    topics.add_config_listener(lambda topic: heard.append((topic.name, topic.config.max_message_bytes)))
    topics.set_defaults(TopicConfig(max_message_bytes=7))
    assert heard == [("a", 7)]
    assert topics.revision == revision + 1
    topics.set_defaults(TopicConfig(max_message_bytes=7))
    assert len(heard) == 1
    assert topics.get("b").config.max_message_bytes == 5
