"""Each assert of the tables, of a partition and of what opens replicas can fail: a wrong state trips it."""

import asyncio
from unittest.mock import AsyncMock

import pytest
from cluster_nodes import cluster_of, run
from producer_batches import new_batch, placed

from cluster.commands import BrokerRecord, RegisterBroker, encode_command
from cluster.controller_state import ControllerState
from cluster.groups.offsets_log_state import OffsetsLogState
from cluster.groups.records import CommittedOffset, OffsetKey, encode_record
from cluster.producer_ids import ProducerIds
from cluster.producer_state import ProducerState
from cluster.topic_table import Topic
from model.ids import Index, Offset, Term, TopicId
from model.key_value_batch import encode_key_values
from model.topic_config import TopicConfig
from raft.consensus import Consensus
from storage.entry import Entry, EntryKind
from storage.log import Log
from tests.engine import consensus_of

_PRODUCER = 7


def _command(index):
    command = RegisterBroker(BrokerRecord(1, "d", "k", 9092, "r", 1, "a", 2))
    return Entry(Index(index), Term(1), EntryKind.COMMAND, Offset(0), 0, encode_command(command))


def _records(index):
    record = encode_record(OffsetKey("g", "t", 0), CommittedOffset(index, 0, "", 0))
    return Entry(Index(index), Term(1), EntryKind.DATA, Offset(0), 1, bytes(encode_key_values([record], 0)))


_TABLES = [
    pytest.param(lambda: ControllerState(TopicConfig()), _command, id="raft0"),
    pytest.param(OffsetsLogState, _records, id="groups"),
]


@pytest.mark.parametrize(("new_state", "entry"), _TABLES)
def test_a_table_takes_entries_in_the_order_of_the_log(new_state, entry):
    state = new_state()
    state.note(entry(2))
    with pytest.raises(AssertionError):
        state.note(entry(2))


@pytest.mark.parametrize(("new_state", "entry"), _TABLES)
def test_a_table_applies_no_entry_twice(new_state, entry):
    state = new_state()
    state.note(entry(2))
    state.applied_index = Index(2)
    with pytest.raises(AssertionError):
        state.commit(Index(2))


@pytest.mark.parametrize("reserved", [-10_000, 1])
def test_raft0_keeps_room_for_nothing_but_commands_that_are_to_be_applied(reserved):
    state = ControllerState(TopicConfig())
    state.note(_command(1))
    state.note(_command(2))
    state._reserved += reserved
    with pytest.raises(AssertionError):
        # With a negative sum already while a command is left.
        state.commit(Index(1 if reserved < 0 else 2))


def test_records_counted_ahead_are_those_of_the_table_once_all_is_applied():
    state = OffsetsLogState()
    state.note(_records(1))
    state._ahead.record_count += 1
    with pytest.raises(AssertionError):
        state.commit(Index(1))


def _producers_out_of_order():
    state = ProducerState(lambda: 0)
    for index in (1, 2):
        state.note(placed(new_batch(_PRODUCER, index - 1), index, index - 1))
    state._tail.of(_PRODUCER).reverse()
    return state


def test_a_producers_newest_batch_is_the_one_that_a_truncation_removes():
    with pytest.raises(AssertionError):
        _producers_out_of_order().truncate(Index(2))


def test_a_producers_oldest_batch_is_the_one_that_is_settled():
    with pytest.raises(AssertionError):
        _producers_out_of_order().commit(Index(1))


def test_no_producer_id_of_another_brokers_block_is_handed_out():
    ids = ProducerIds(None)
    ids._next_id, ids._end_id = 5, 3
    with pytest.raises(AssertionError):
        asyncio.run(ids.allocate(1))


def test_one_step_of_a_group_is_under_way_at_a_time(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1) as cluster:
            backend, group = cluster[1].backend, Topic("t", TopicId("a" * 32), ((),), {}, TopicConfig()).group(0)
            backend._steps.under_way[group] = asyncio.get_running_loop().create_future()
            with pytest.raises(AssertionError):
                backend._steps.begin(group, asyncio.Event().wait)
            del backend._steps.under_way[group]

    run(test)


def test_a_replica_that_is_open_is_not_opened_again(tmp_path, monkeypatch):
    async def test():
        async with cluster_of(tmp_path, 1) as cluster:
            await cluster.create_topic("t")
            backend, topic = cluster[1].backend, cluster.leader_of("t").topic
            # Without `GroupManager.create` and `PartitionManager.add`, which refuse a second replica, too.
            backend._partitions.discard(topic.group(0))
            monkeypatch.setattr(backend._groups, "create", AsyncMock(return_value=backend._groups.get(topic.group(0))))
            with pytest.raises(AssertionError):
                await backend._start(topic, 0, topic.replicas[0])

    run(test)


async def _three_records(cluster):
    await cluster.create_topic("t")
    for value in (b"a", b"b", b"c"):
        await cluster.produce("t", value)
    return cluster.leader_of("t")


def test_a_deletion_is_not_answered_before_the_log_starts_there(tmp_path, monkeypatch):
    async def move_log_start(*_):
        """Move nothing."""

    async def test():
        async with cluster_of(tmp_path, 1) as cluster:
            partition = await _three_records(cluster)
            monkeypatch.setattr(Consensus, "move_log_start", move_log_start)
            with pytest.raises(AssertionError):
                await partition.delete_records(2, asyncio.get_running_loop().time() + 5)

    run(test)


def test_a_fetch_returns_nothing_above_the_visible_index(tmp_path, monkeypatch):
    whole = Log.read

    async def read(log, first, max_bytes, last=None):
        return await whole(log, first, max_bytes)

    async def test():
        async with cluster_of(tmp_path, 1) as cluster:
            partition = await _three_records(cluster)
            assert len(await partition.fetch(Offset(0), 10_000)) == 3
            monkeypatch.setattr(Log, "read", read)
            consensus = consensus_of(partition)
            monkeypatch.setattr(consensus.state, "visible_index", consensus.log.dirty_index - 1)
            with pytest.raises(AssertionError):
                await partition.fetch(Offset(0), 10_000)

    run(test)
