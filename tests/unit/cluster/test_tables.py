"""raft0's tables, and the state of its log that feeds them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.commands import (
    AllocateProducerIds,
    AlterTopicConfigs,
    BrokerRecord,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    RegisterBroker,
    ReplicaRecord,
    UnknownCommandError,
    encode_command,
)
from cluster.controller_state import ControllerState
from cluster.errors import InvalidPartitionsError, ProducerIdsTakenError, TopicExistsError, UnknownTopicError
from model.ids import Index, NodeId, Offset, Term, TopicId
from model.topic_config import TopicConfig
from storage.entry import Entry, EntryKind
from storage.errors import CorruptLogError


def broker(node, port=9092):
    return BrokerRecord(node, f"dir{node}", "k", port, "r", 1, "a", 2)


def create(name, topic_id, *placements, configs=None):
    partitions = [[ReplicaRecord(node, f"dir{node}") for node in nodes] for nodes in placements or [(1,)]]
    return CreateTopic(name, topic_id * 32, partitions, configs or {})


def grow(topic_id, first, *placements):
    partitions = [[ReplicaRecord(node, f"dir{node}") for node in nodes] for nodes in placements]
    return CreatePartitions(topic_id * 32, first, partitions)


class Machine:
    """The state with its tables, fed commands at consecutive indexes, each committed at once."""

    def __init__(self):
        self.log_state = ControllerState(TopicConfig())
        self.members = self.log_state.tables.members
        self.topics = self.log_state.tables.topics
        self.producer_ids = self.log_state.tables.producer_ids
        self.index = 0

    def apply(self, command):
        """Apply; return why it was refused, if it was."""
        return self.apply_entry(EntryKind.COMMAND, encode_command(command))

    def apply_entry(self, kind, payload):
        self.index += 1
        self.note(kind, payload, self.index)
        self.log_state.commit(Index(self.index))
        return self.log_state.refusal(Index(self.index))

    def note(self, kind, payload, index):
        self.log_state.note(Entry(Index(index), Term(1), kind, Offset(0), 0, payload))

    def snapshot(self):
        return b"".join(self.log_state.snapshot())

    def restore(self, saved, index):
        for _ in self.log_state.restore(saved, Index(index)):
            pass
        self.index = index

    @property
    def state(self):
        return self.members.all(), self.topics.all(), self.producer_ids.next_id


def test_brokers_are_listed_by_node_id_and_the_last_registration_counts():
    machine = Machine()
    for record in (broker(3), broker(1), broker(2), broker(3, port=7)):
        assert machine.apply(RegisterBroker(record)) is None
    assert machine.members.all() == [broker(1), broker(2), broker(3, port=7)]
    assert machine.members.get(NodeId(3)).kafka_port == 7
    assert machine.members.get(NodeId(4)) is None


def test_blocks_of_producer_ids_follow_each_other_and_no_block_is_given_away_twice():
    machine = Machine()
    assert machine.apply(AllocateProducerIds(0, 1000)) is None
    assert machine.apply(AllocateProducerIds(1000, 1000)) is None
    assert isinstance(machine.apply(AllocateProducerIds(1000, 1000)), ProducerIdsTakenError)
    assert isinstance(machine.apply(AllocateProducerIds(5000, 1000)), ProducerIdsTakenError)
    assert machine.producer_ids.next_id == 2000


def test_a_created_topic_is_found_by_name_and_by_id():
    machine = Machine()
    assert machine.apply(create("b", "b", (1, 2), (2, 3), configs={"segment.ms": "9000"})) is None
    assert machine.apply(create("a", "a")) is None
    topic = machine.topics.get("b")
    assert topic is machine.topics.get_by_id(TopicId("b" * 32))
    assert [[replica.node_id for replica in each] for each in topic.replicas] == [[1, 2], [2, 3]]
    assert topic.replicas[0][1].directory_id == "dir2"
    assert topic.config == TopicConfig(segment_ms=9000)
    assert topic.group(1) == "b" * 32 + "/1"
    assert [each.name for each in machine.topics.all()] == ["a", "b"]
    assert machine.topics.get("c") is None
    assert machine.topics.get_by_id(TopicId("c" * 32)) is None


@pytest.mark.parametrize("number", [-1, 2])
def test_there_is_no_group_beyond_the_partitions(number):
    machine = Machine()
    machine.apply(create("t", "a", (1,), (1,)))
    with pytest.raises(AssertionError):
        machine.topics.get("t").group(number)


def test_of_two_creations_of_a_name_the_first_in_the_log_wins_and_the_second_is_told():
    machine = Machine()
    machine.apply(create("t", "a"))
    state = machine.state
    assert isinstance(machine.apply(create("t", "b")), TopicExistsError)
    assert machine.state == state
    assert machine.topics.get_by_id(TopicId("b" * 32)) is None


def test_a_second_deletion_is_refused_and_changes_nothing():
    machine = Machine()
    machine.apply(create("t", "a"))
    assert machine.apply(DeleteTopic("a" * 32)) is None
    state = machine.state
    assert isinstance(machine.apply(DeleteTopic("a" * 32)), UnknownTopicError)
    assert machine.state == state
    assert machine.topics.all() == []


def test_a_late_deletion_does_not_hit_a_topic_created_again_under_the_name():
    machine = Machine()
    machine.apply(create("t", "a"))
    machine.apply(DeleteTopic("a" * 32))
    machine.apply(create("t", "b"))
    assert isinstance(machine.apply(DeleteTopic("a" * 32)), UnknownTopicError)
    assert machine.topics.get("t").topic_id == "b" * 32


def test_replicas_are_counted_per_node():
    machine = Machine()
    machine.apply(create("a", "a", (1, 2), (2, 3)))
    machine.apply(create("b", "b", (2,)))
    assert [machine.topics.replica_count(NodeId(node)) for node in (1, 2, 3, 4)] == [1, 3, 1, 0]


def test_listeners_hear_of_changes_and_of_nothing_else():
    machine = Machine()
    heard, deleted = [], []
    machine.topics.add_listener(lambda: heard.append([topic.name for topic in machine.topics.all()]))
    machine.topics.add_delete_listener(lambda topic: deleted.append((topic.name, topic.topic_id[0])))
    machine.apply(create("t", "a"))
    machine.apply(create("t", "b"))
    machine.apply(DeleteTopic("c" * 32))
    machine.apply(DeleteTopic("a" * 32))
    assert heard == [["t"], []]
    assert deleted == [("t", "a")]
    assert machine.topics.revision == 2


def test_a_topic_grows_behind_its_last_partition_and_of_two_growths_the_first_wins():
    machine = Machine()
    machine.apply(create("t", "a", (1,), configs={"segment.ms": "9000"}))
    assert machine.apply(grow("a", 1, (2,), (3,))) is None
    topic = machine.topics.get("t")
    assert [[replica.node_id for replica in each] for each in topic.replicas] == [[1], [2], [3]]
    assert topic.config == TopicConfig(segment_ms=9000)
    state = machine.state
    assert isinstance(machine.apply(grow("a", 1, (2,))), InvalidPartitionsError)
    assert isinstance(machine.apply(grow("b", 1, (2,))), UnknownTopicError)
    assert machine.state == state
    machine.apply(DeleteTopic("a" * 32))
    assert machine.topics.all() == []


def test_an_altered_configuration_replaces_what_was_set_and_its_listeners_hear_of_it():
    machine = Machine()
    heard = []
    machine.topics.add_config_listener(lambda topic: heard.append((topic.name, dict(topic.overrides))))
    machine.apply(create("t", "a", configs={"segment.ms": "9000"}))
    assert heard == []
    assert machine.apply(AlterTopicConfigs("a" * 32, {"retention.ms": "5"})) is None
    topic = machine.topics.get_by_id(TopicId("a" * 32))
    assert topic is machine.topics.get("t")
    assert topic.config == TopicConfig(retention_ms=5)
    assert heard == [("t", {"retention.ms": "5"})]
    assert isinstance(machine.apply(AlterTopicConfigs("b" * 32, {})), UnknownTopicError)
    assert len(heard) == 1


@pytest.mark.parametrize("kind", [kind for kind in EntryKind if kind is not EntryKind.COMMAND])
def test_only_commands_are_applied(kind):
    machine = Machine()
    state = machine.state
    assert machine.apply_entry(kind, encode_command(create("t", "a"))) is None
    assert machine.apply_entry(kind, b"anything") is None
    assert machine.state == state


def test_a_command_of_a_newer_version_stops_the_replica_instead_of_being_passed_over():
    with pytest.raises(UnknownCommandError):
        Machine().apply_entry(EntryKind.COMMAND, b"\2whatever")


def test_refusals_are_kept_for_the_last_thousand_commands_only():
    machine = Machine()
    machine.apply(create("t", "a"))
    for _ in range(2000):
        machine.apply(create("t", "b"))
    assert machine.log_state.refusal(Index(2)) is None
    assert isinstance(machine.log_state.refusal(Index(machine.index - 1000)), TopicExistsError)
    assert len(machine.log_state._refused) <= 1024


commands = st.one_of(
    st.builds(lambda node, port: RegisterBroker(broker(node, port)), st.integers(1, 3), st.integers(1, 3)),
    st.builds(create, st.sampled_from("xyz"), st.sampled_from("abcdef")),
    st.builds(lambda topic: DeleteTopic(topic * 32), st.sampled_from("abcdef")),
    st.builds(lambda topic, first: grow(topic, first, (1,)), st.sampled_from("abcdef"), st.integers(1, 2)),
    st.builds(
        lambda topic, value: AlterTopicConfigs(topic * 32, {"retention.ms": str(value)}),
        st.sampled_from("abcdef"),
        st.integers(-1, 3),
    ),
)


@settings(deadline=None)
@given(st.lists(commands, max_size=40))
def test_the_tables_are_a_function_of_the_log(log):
    one, two = Machine(), Machine()
    refusals = [type(one.apply(command)) for command in log]
    # The other node restarts in the middle and replays from the start.
    for command in log[: len(log) // 2]:
        two.apply(command)
    two = Machine()
    assert [type(two.apply(command)) for command in log] == refusals
    assert one.state == two.state
    by_name = {topic.name: topic for topic in one.topics.all()}
    assert len(by_name) == len(one.topics.all())
    assert all(one.topics.get_by_id(topic.topic_id) is topic for topic in by_name.values())


def test_a_command_waits_for_its_commit_and_is_forgotten_when_it_is_truncated():
    machine = Machine()
    for index, name in enumerate("abc", start=1):
        machine.note(EntryKind.COMMAND, encode_command(create(name, name)), index)
    machine.log_state.commit(Index(1))
    machine.log_state.truncate(Index(3))
    machine.note(EntryKind.COMMAND, encode_command(create("d", "d")), 3)
    assert [topic.name for topic in machine.topics.all()] == ["a"]
    machine.log_state.commit(Index(3))
    assert [topic.name for topic in machine.topics.all()] == ["a", "b", "d"]


@settings(deadline=None)
@given(st.lists(commands, max_size=30), st.lists(commands, max_size=10))
def test_a_snapshot_and_the_commands_behind_it_make_the_same_tables(log, more):
    one, two = Machine(), Machine()
    for command in log:
        one.apply(command)
    one.apply(AllocateProducerIds(0, 1000))
    saved = one.snapshot()
    two.restore(saved, one.index)
    assert two.state == one.state
    assert two.snapshot() == saved
    # What is in the snapshot is noted again where the log still has it.
    two.note(EntryKind.COMMAND, encode_command(create("again", "e")), one.index)
    assert [type(two.apply(command)) for command in more] == [type(one.apply(command)) for command in more]
    assert two.state == one.state


def test_listeners_hear_what_a_snapshot_has_changed():
    one, two = Machine(), Machine()
    for machine in (one, two):
        machine.apply(create("stays", "a", configs={"retention.ms": "5"}))
        machine.apply(create("goes", "b"))
        machine.apply(create("changes", "c"))
    deleted, changed = [], []
    two.topics.add_delete_listener(lambda topic: deleted.append(topic.name))
    two.topics.add_config_listener(lambda topic: changed.append((topic.name, topic.config.retention_ms)))
    one.apply(DeleteTopic("b" * 32))
    one.apply(create("goes", "d"))
    one.apply(AlterTopicConfigs("c" * 32, {"retention.ms": "7"}))
    two.restore(one.snapshot(), one.index)
    assert deleted == ["goes"]
    assert changed == [("changes", 7)]
    assert two.topics.get("goes").topic_id == "d" * 32


def test_a_state_that_begins_anew_deletes_nothing():
    machine = Machine()
    machine.apply(create("t", "a"))
    deleted = []
    machine.topics.add_delete_listener(lambda topic: deleted.append(topic.name))
    machine.log_state.reset()
    assert machine.topics.all() == []
    machine.restore(Machine().snapshot(), 0)
    assert deleted == []


@given(st.binary(max_size=60))
def test_bytes_that_are_no_snapshot_are_refused_and_change_nothing(noise):
    machine = Machine()
    machine.apply(create("t", "a"))
    state, saved = machine.state, machine.snapshot()
    for bad in (noise, saved[:1] + noise, saved + noise[:7] + b"x", saved[:-1]):
        with pytest.raises(CorruptLogError):
            machine.restore(bad, 5)
    assert machine.state == state
