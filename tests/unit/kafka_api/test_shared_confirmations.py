"""What ListOffsets costs between brokers: nothing for the start and for leaders that answer alone; few messages else."""

import asyncio

import pytest
from wire_cluster import with_brokers

from cluster.admin_messages import AlterTopicConfigsRequest
from cluster.topic_changes import ConfigChange, ConfigOperation
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.messages import ListOffsetsRequest
from model.topic_config import TopicConfig
from raft.heartbeat_manager import HeartbeatManager
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import FAST, until
from tests.unit.kafka_api.wire_client import Client
from tests.unit.model.record_batches import build_batch

LATEST, EARLIEST, MAX_TIMESTAMP, BY_TIME = -1, -2, -3, 5
_VERSION = 9
_ALONE = TopicConfig(list_offsets_linearizable=False)


def request(topic, partitions, timestamp=LATEST, isolation=0):
    asked = [ListOffsetsRequest.ListOffsetsPartition(partition_index=each, timestamp=timestamp) for each in partitions]
    topics = [ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=asked)]
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)


async def tell(client, topic, partitions, timestamp=LATEST, isolation=0):
    """Return (error, offset) of each partition."""
    answer = await client.call(ApiKey.LIST_OFFSETS, _VERSION, request(topic, partitions, timestamp, isolation))
    return [(each.error_code, each.offset) for each in answer.topics[0].partitions]


def rounds(brokers):
    return brokers.cluster[brokers.leader].groups.probe.read_rounds


async def _set(brokers, value):
    """Set the option on the topic, None: take it back; wait until its leader knows."""
    operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
    change = ConfigChange("list.offsets.linearizable", operation, value)
    node = brokers.cluster[brokers.leader]
    await node.admin.alter_topic_configs(AlterTopicConfigsRequest("t", [change], False, False, 10.0))
    wanted = brokers.cluster.defaults.list_offsets_linearizable if value is None else value == "true"
    await until(lambda: brokers.cluster.leader_of("t").config.list_offsets_linearizable == wanted)


@pytest.mark.parametrize("isolation", [0, 1])
@pytest.mark.parametrize("timestamp", [LATEST, MAX_TIMESTAMP, BY_TIME])
def test_a_topic_may_let_its_leader_answer_alone_and_may_take_that_back(tmp_path, timestamp, isolation):
    async def test(brokers):
        client = brokers.clients[brokers.leader]
        assert (await client.produce("t", build_batch(b"a", timestamps=[BY_TIME]))).error_code == 0
        found = [(0, 1 if timestamp == LATEST else 0)]
        for value, wait in ((None, 1), ("false", 0), ("true", 1), ("false", 0), (None, 1)):
            await _set(brokers, value)
            before = rounds(brokers)
            assert await tell(client, "t", [0], timestamp, isolation) == found
            assert rounds(brokers) == before + wait

    with_brokers(tmp_path, test)


def test_a_brokers_default_holds_for_topics_that_do_not_say_and_a_topic_overrides_it(tmp_path):
    async def test(brokers):
        client = brokers.clients[brokers.leader]
        for value, wait in ((None, 0), ("true", 1), (None, 0)):
            await _set(brokers, value)
            before = rounds(brokers)
            assert await tell(client, "t", [0]) == [(0, 0)]
            assert rounds(brokers) == before + wait

    with_brokers(tmp_path, test, defaults=_ALONE)


def test_a_leader_that_no_majority_confirms_tells_what_was_visible_where_it_may(tmp_path):
    async def test(brokers):
        client = brokers.clients[brokers.leader]
        assert (await client.produce("t")).error_code == 0
        partition = brokers.cluster.leader_of("t")
        await brokers.cluster.stop(*(number for number in brokers.cluster.nodes if number != brokers.leader))
        assert await tell(client, "t", [0]) == [(0, 1)]
        await until(lambda: not partition.is_in_office)
        [(error, offset)] = await tell(client, "t", [0])
        assert error != 0
        assert offset == -1, "out of office it tells nothing, whatever the topic says"

    with_brokers(tmp_path, test, raft=FAST, defaults=_ALONE)


def test_the_start_of_a_log_costs_no_message(tmp_path, monkeypatch):
    async def test(brokers):
        client = brokers.clients[brokers.leader]
        asked = []
        monkeypatch.setattr(HeartbeatManager, "beat_soon", lambda _manager, _group, nodes: asked.append(nodes))
        before = rounds(brokers)
        for _ in range(20):
            assert await tell(client, "t", [0], EARLIEST) == [(0, 0)]
        assert rounds(brokers) == before
        assert asked == []

    with_brokers(tmp_path, test)


async def _many(brokers, count):
    """Topic "many", all partitions led by the leader of "t"; nothing of it moves any more."""
    cluster = brokers.cluster
    await cluster.create_topic("many", partitions=count, replication_factor=3)
    for number in range(count):
        consensus = consensus_of(cluster.leader_of("many", number))
        if consensus.state.node_id != brokers.leader:
            await until(lambda consensus=consensus: brokers.leader in consensus.in_sync)
            await consensus.transfer.run(brokers.leader)
        await until(lambda number=number: _leads(cluster, number, brokers.leader))
    return range(count)


def _leads(cluster, number, node):
    found = cluster.find_leader("many", number)
    return found is not None and found.is_in_office and consensus_of(found).state.node_id == node


@pytest.mark.parametrize("askers", [1, 6])
def test_all_askers_of_a_node_pair_share_messages(tmp_path, monkeypatch, askers):
    """While the first message is not answered, all who come wait; then one message has all of them."""

    async def test(brokers):
        partitions = await _many(brokers, 12)
        leader = brokers.cluster[brokers.leader]
        # One follower is left to ask: one node pair.
        await brokers.cluster.stop(brokers.other)
        await until(lambda: not leader.groups._heartbeats._client.is_up(brokers.other))
        manager, sent, held = leader.groups._heartbeats, [], []
        # No ticks between, and nobody else is asked: what is counted is what readers cost.
        whole_dispatch, whole_send = manager._dispatch, manager._send

        def dispatch(wanted, *, are_asked=False):
            if are_asked:
                whole_dispatch(wanted, are_asked=True)

        def send(node_id, groups, beats, *, are_asked):
            sent.append((node_id, sorted(int(beat.group.split("/")[1]) for beat in beats if "/" in beat.group)))
            if len(sent) == 1:
                # It is under way until the others have come.
                manager._asked.on_sent(node_id)
                held.append(lambda: whole_send(node_id, groups, beats, are_asked=True))
            else:
                whole_send(node_id, groups, beats, are_asked=are_asked)

        monkeypatch.setattr("raft.asked_heartbeats.SHARE_SECONDS", 60.0)
        monkeypatch.setattr("raft.linearizable_barrier._ASK_ALL_SECONDS", 60.0)
        monkeypatch.setattr(manager, "_dispatch", dispatch)
        monkeypatch.setattr(manager, "_send", send)
        port = brokers.clients[brokers.leader]._writer.get_extra_info("peername")[1]
        clients = [Client(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(askers)]
        try:
            first = asyncio.ensure_future(tell(brokers.clients[brokers.leader], "t", [0]))
            await until(lambda: sent)
            [node_id] = {node_id for node_id, _ in sent}
            others = [asyncio.ensure_future(tell(client, "many", partitions)) for client in clients]
            lane = manager._asked._lanes[node_id]
            await until(lambda: len(lane.waiting) == len(partitions))
            assert len(sent) == 1
            held.pop()()
            manager._asked.on_ended(node_id)
            assert await first == [(0, 0)]
            assert await asyncio.gather(*others) == [[(0, 0)] * len(partitions)] * askers
        finally:
            for client in clients:
                await client.close()
        of_many = [groups for _, groups in sent[1:] if len(groups) > 1]
        assert of_many[0] == list(partitions)
        # Who came after it was sent would have one more: at most one message per round trip, not one per partition.
        assert len(sent) <= 1 + 2 * askers

    with_brokers(tmp_path, test)
