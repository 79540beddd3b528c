"""The bound of raft0's tables: counted in the bytes of their snapshot, over all that lies in the log."""

import tracemalloc

import pytest
from cluster_nodes import cluster_of, create_request, run
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.admin_messages import AlterTopicConfigsRequest, CreatePartitionsRequest, DeleteTopicRequest
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
from cluster.errors import TablesFullError
from cluster.producer_batch import BatchSequence
from cluster.producer_table import PlacedBatch, PlacedMark, ProducerOptions, ProducerTable
from cluster.state_bounds import StateFullError, StateOptions
from cluster.topic_changes import ConfigChange, ConfigOperation
from cluster.transactions.open_transactions import Transaction
from kafka_api.error_mapping import error_code
from kafka_api.protocol.error_codes import ErrorCode
from model.control_batch import Prepare
from model.ids import Index, Offset, Term
from model.topic_config import TopicConfig
from raft.replicate_item import NewEntry
from storage.entry import Entry, EntryKind
from storage.snapshot_file import STATE_BYTES_MAX

_DEFAULTS = TopicConfig()


def broker(node, host="k"):
    return BrokerRecord(node, f"{node:032x}", host, 9092, "r", 1, "a", 2)


def records(*placements):
    return [[ReplicaRecord(node, f"{node:032x}") for node in nodes] for nodes in placements]


def create(name, digit, *placements, configs=None):
    return CreateTopic(name, digit * 32, records(*(placements or [(1,)])), configs or {})


class Log:
    """The state behind a log that the leader writes."""

    def __init__(self, bytes_max=STATE_BYTES_MAX):
        self.state = ControllerState(_DEFAULTS, StateOptions(raft0_bytes_max=bytes_max))
        self.entries = []

    def offer(self, command):
        """Return the refusal; what is not refused gets its place."""
        payload = encode_command(command)
        refusal = self.state.admit(NewEntry(EntryKind.COMMAND, payload, 0))
        if refusal is None:
            self.entries.append(Entry(Index(len(self.entries) + 1), Term(1), EntryKind.COMMAND, Offset(0), 0, payload))
            self.state.note(self.entries[-1])
        return refusal

    def commit(self, index=None):
        self.state.commit(Index(len(self.entries) if index is None else index))

    @property
    def encoded(self):
        return len(b"".join(self.state.snapshot()))


_PLACEMENTS = st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=3, unique=True), min_size=1, max_size=20)
_CONFIGS = st.dictionaries(
    st.sampled_from(["retention.ms", "segment.bytes", "write.caching"]), st.just("true"), max_size=2
).map(lambda found: {key: "true" if key == "write.caching" else "1048576" for key in found})
_NAMES, _DIGITS = st.sampled_from(["a", "b" * 249, "c"]), st.sampled_from("0123")
_COMMANDS = st.one_of(
    st.builds(lambda node, host: RegisterBroker(broker(node, host)), st.integers(1, 300), st.sampled_from(["k", "ü" * 9])),
    st.builds(lambda name, digit, places, configs: create(name, digit, *places, configs=configs),
              _NAMES, _DIGITS, _PLACEMENTS, _CONFIGS),
    st.builds(lambda digit: DeleteTopic(digit * 32), _DIGITS),
    st.builds(lambda digit, first, places: CreatePartitions(digit * 32, first, records(*places)),
              _DIGITS, st.integers(1, 20), _PLACEMENTS),
    st.builds(lambda digit, configs: AlterTopicConfigs(digit * 32, configs), _DIGITS, _CONFIGS),
    st.builds(lambda first: AllocateProducerIds(first * 1000, 1000), st.integers(0, 3)),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(_COMMANDS, st.sampled_from(["wait", "commit", "truncate", "restart"])), max_size=25))
def test_the_size_is_that_of_the_snapshot_and_no_command_in_the_log_takes_it_above_what_was_judged(steps):
    log, committed = Log(), 0
    for command, then in steps:
        log.offer(command)
        reserved = log.state.fills()[0].used
        match then:
            case "commit":
                committed = len(log.entries)
                log.commit()
                assert log.state.fills()[0].used <= reserved
            case "truncate":
                del log.entries[committed:]
                log.state.truncate(Index(committed + 1))
            case "restart":
                saved, log.state = b"".join(log.state.snapshot()), ControllerState(_DEFAULTS)
                list(log.state.restore(saved, Index(committed)))
                for entry in log.entries:
                    log.state.note(entry)
        assert log.state.tables.size_bytes == log.encoded
    log.commit()
    assert log.state.tables.size_bytes == log.encoded == log.state.fills()[0].used


def test_the_size_is_an_upper_bound_where_there_are_many_replicas():
    log = Log()
    for first in range(1, 400, 40):
        log.offer(create(f"t{first}", f"{first:032x}"[-1], *((node,) for node in range(first, first + 40))))
        log.commit()
    assert log.encoded <= log.state.tables.size_bytes <= 1.05 * log.encoded


@pytest.mark.parametrize(("share", "is_taken"), [(90, True), (100, True), (101, False)])
def test_the_tables_are_filled_to_their_bound_and_no_further(share, is_taken):
    whole, configs = Log(), {"write.caching": " " * 1000 + "true"}
    whole.offer(create("t", "0", configs=configs))
    whole.commit()
    log = Log(whole.encoded)
    spaces = " " * (10 * share)
    assert (log.offer(create("t", "0", configs={"write.caching": spaces + "true"})) is None) == is_taken
    log.commit()
    assert log.encoded <= whole.encoded


def test_what_is_in_the_log_and_not_committed_takes_its_part_of_the_bound():
    log = Log(1000)
    taken = [log.offer(create(name * 249, name)) is None for name in "012345"]
    assert taken == [True, True, False, False, False, False]
    log.commit()
    # Committed, it takes no more than it does, and the next one fits.
    assert log.offer(create("2" * 249, "2")) is None
    log.commit()
    assert isinstance(log.offer(create("3" * 249, "3")), StateFullError)
    assert log.encoded <= 1000
    assert log.offer(DeleteTopic("0" * 32)) is None


def test_a_broker_registers_where_topics_have_filled_the_tables():
    log = Log(400)
    assert log.offer(create("t" * 249, "0")) is None
    log.commit()
    assert isinstance(log.offer(create("u" * 249, "1")), StateFullError)
    for node in range(1, 4):
        assert log.offer(RegisterBroker(broker(node))) is None
    assert log.offer(AllocateProducerIds(0, 1000)) is None
    assert isinstance(log.offer(RegisterBroker(broker(9, "h" * STATE_BYTES_MAX))), StateFullError)


def test_what_another_version_configures_is_refused_by_name():
    state = ControllerState(_DEFAULTS)
    entry = Entry(
        Index(1), Term(1), EntryKind.COMMAND, Offset(0), 0, encode_command(create("t", "0", configs={"k": "v"}))
    )
    with pytest.raises(UnknownCommandError, match="unknown or unsupported topic configuration 'k'"):
        state.note(entry)


def test_the_largest_table_of_producers_fits_into_a_snapshot_ten_times():
    options = ProducerOptions()
    table, largest = ProducerTable(options), 2**31 - 1
    for producer in range(options.producers_max):
        for number in range(9):
            first = (largest - 20 + 2 * number) & largest
            sequence = BatchSequence(2**63 - 1 - producer, 2**15 - 1, first, (first + 1) & largest)
            table.settle(PlacedBatch(sequence, *[2**63 - 1] * 4), 0)
        place = (2**63 - 1 - producer, 2**15 - 1, *[2**63 - 1] * 3)
        table.settle(PlacedMark(*place, Prepare(2**63 - 1, 2**63 - 1), 2**31 - 1), 0)
    table.expire(0, lambda producer: False)
    # Each has one open, at the largest places that a log could have.
    open_ = [
        Transaction(2**63 - 1 - producer, 2**15 - 1, Index(2**63 - 1), Offset(2**63 - 1), 2**63 - 1)
        for producer in range(options.producers_max)
    ]
    size = len(b"".join(table.encode(open_)))
    assert len(table) == options.producers_max
    assert size <= options.state_bytes_max < STATE_BYTES_MAX / 10


def test_a_producer_takes_no_more_memory_than_is_documented():
    """In its table, with the five batches that are kept and its part of the last snapshot. See RFC 0007, Limits."""
    count = 500
    tracemalloc.start()
    try:
        table = ProducerTable(ProducerOptions())
        for place in range(7 * count):
            sequence = BatchSequence(10**9 + place % count, 5, place, place + 9)
            table.settle(PlacedBatch(sequence, 10**12 + place, 10**10 + place, 300, 10**12 + place), 10**9 + place)
        b"".join(table.encode())
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert ProducerOptions().producers_max == 20_000
    assert taken / count <= 2500


def test_no_table_of_producers_is_allowed_that_a_snapshot_cannot_hold():
    with pytest.raises(ValueError, match="producers_max"):
        ProducerOptions(producers_max=1_000_000)


def test_the_request_that_would_pass_the_bound_is_refused_and_the_cluster_goes_on(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1, state=StateOptions(raft0_bytes_max=1500)) as cluster:
            admin, made = cluster[1].admin, []
            for number in range(3):
                await admin.create_topic(create_request(f"{number}" * 200))
                made.append(number)
            long = {"write.caching": " " * 600 + "true"}
            with pytest.raises(TablesFullError, match="the tables of raft0 may have 1500 bytes") as refused:
                await admin.create_topic(create_request("8" * 200, configs=long))
            assert error_code(refused.value) is ErrorCode.POLICY_VIOLATION
            tables = cluster[1].controller
            first = "0" * 200
            with pytest.raises(TablesFullError):
                await admin.create_topic(create_request("9" * 200, configs=long, validate_only=True))
            with pytest.raises(TablesFullError):
                await admin.create_partitions(CreatePartitionsRequest(first, 1000, [], False, 5.0))
            spaces = ConfigChange("write.caching", ConfigOperation.SET, " " * 1000 + "true")
            with pytest.raises(TablesFullError):
                await admin.alter_topic_configs(AlterTopicConfigsRequest(first, [spaces], False, False, 5.0))
            assert [fill.refused for fill in tables.fills()] == [4]
            for number in made[:2]:
                await admin.delete_topic(DeleteTopicRequest(f"{number}" * 200, "", 5.0))
            await admin.create_topic(create_request("9" * 200, configs=long))
            await cluster.stop(1)
            await cluster.start(1)
            assert [topic.name[0] for topic in cluster[1].controller.topics.all()] == ["2", "9"]

    run(test)
