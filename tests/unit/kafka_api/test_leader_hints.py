"""Three brokers: who does not lead names who does, reads wait for a majority, and the answer names epochs that part."""

import asyncio

import pytest
from wire_client import LIST_OFFSETS, fetch_request, produce_request
from wire_cluster import with_brokers

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import MetadataRequest
from model.ids import NodeId
from raft.errors import TransferRefusedError
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import FAST, can_take_over, until
from tests.unit.model.record_batches import build_batch

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
LATEST_PRODUCE, LATEST_FETCH = 13, 18


def _is_led(cluster, name, number):
    group = cluster.nodes[1].controller.topics.get(name).group(number)
    return any((found := node.groups.get(group)) is not None and found.is_in_office for node in cluster.nodes.values())


async def _hand_over(cluster, target):
    consensus = consensus_of(cluster.leader_of("t"))
    # A leader that has just been elected does not know yet which replicas are in sync.
    await until(lambda: can_take_over(consensus, target))
    return await consensus.transfer.run(NodeId(target))


def _is_named(answer, result, brokers, *, has_endpoints):
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert result.current_leader.leader_id == brokers.leader
    assert result.current_leader.leader_epoch == brokers.cluster.leader_of("t").leader_epoch
    named = [(each.node_id, each.host, each.port) for each in answer.node_endpoints]
    assert named == ([(brokers.leader, "k", 9000 + brokers.leader)] if has_endpoints else [])


def test_who_does_not_lead_names_who_does(tmp_path):
    async def test(brokers):
        client = brokers.clients[brokers.other]
        for version in (9, 10, LATEST_PRODUCE):
            by_id = {"topic_id": brokers.topic_id} if version >= 13 else {}
            request = produce_request("t", build_batch(), **by_id)
            answer = await client.call(ApiKey.PRODUCE, version, request)
            result = answer.responses[0].partition_responses[0]
            if version >= 10:
                _is_named(answer, result, brokers, has_endpoints=True)
            else:
                assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        for version in (11, 12, 16, LATEST_FETCH):
            by_id = {"topic_id": brokers.topic_id} if version >= 13 else {}
            answer = await client.call(ApiKey.FETCH, version, fetch_request("t", 0, **by_id))
            result = answer.responses[0].partitions[0]
            if version >= 12:
                _is_named(answer, result, brokers, has_endpoints=version >= 16)
            else:
                assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    with_brokers(tmp_path, test)


def test_a_broker_that_leads_no_more_names_its_successor(tmp_path):
    async def test(brokers):
        cluster, client = brokers.cluster, brokers.clients[brokers.leader]
        successor = await _hand_over(cluster, brokers.other)
        assert successor == brokers.other
        await until(lambda: _is_led(cluster, "t", 0))
        await until(lambda: cluster[brokers.leader].leadership.leader_of(cluster.leader_of("t").group))
        request = produce_request("t", build_batch(), topic_id=brokers.topic_id)
        answer = await client.call(ApiKey.PRODUCE, LATEST_PRODUCE, request)
        assert answer.responses[0].partition_responses[0].current_leader.leader_id == successor
        result = await brokers.clients[successor].produce("t")
        assert result.error_code == 0

    with_brokers(tmp_path, test)


def test_while_nobody_leads_the_epoch_of_the_last_leader_is_told(tmp_path):
    async def test(brokers):
        cluster, client = brokers.cluster, brokers.clients[brokers.leader]
        epoch, group = cluster.leader_of("t").leader_epoch, cluster.leader_of("t").group
        await cluster.stop(*(number for number in cluster.nodes if number != brokers.leader))

        async def told():
            topics = [MetadataRequest.MetadataRequestTopic(name="t")]
            answer = await client.call(ApiKey.METADATA, 9, MetadataRequest(topics=topics))
            [partition] = answer.topics[0].partitions
            return partition.error_code, partition.leader_id, partition.leader_epoch

        assert await told() == (0, brokers.leader, epoch)
        await until(lambda: not cluster[brokers.leader].groups.get(group).is_in_office)
        assert await told() == (ErrorCode.LEADER_NOT_AVAILABLE, -1, epoch)

    with_brokers(tmp_path, test, raft=FAST)


@pytest.mark.parametrize("timestamp", [LATEST, MAX_TIMESTAMP, 5])
def test_a_leader_that_no_majority_confirms_tells_no_latest_offset(tmp_path, timestamp):
    async def test(brokers):
        client = brokers.clients[brokers.leader]
        assert (await client.list_offsets("t", timestamp)).error_code == 0
        assert brokers.cluster[brokers.leader].groups.probe.read_rounds >= 1
        others = [number for number in brokers.cluster.nodes if number != brokers.leader]
        await brokers.cluster.stop(*others)
        assert (await client.list_offsets("t", EARLIEST)).error_code == 0
        for version, code in ((4, ErrorCode.LEADER_NOT_AVAILABLE), (LIST_OFFSETS, ErrorCode.OFFSET_NOT_AVAILABLE)):
            result = await client.list_offsets("t", max(timestamp, LATEST), version=version)
            # At about the same time the leader gives up.
            assert result.error_code in (code, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            assert result.offset == -1

    with_brokers(tmp_path, test, raft=FAST)


def test_what_is_handed_over_at_a_stop_is_led_by_others(tmp_path):
    async def test(brokers):
        cluster = brokers.cluster
        await cluster.create_topic("many", partitions=8, replication_factor=3)
        node = cluster[brokers.leader]
        led = [consensus for consensus in node.groups if consensus.is_in_office]
        assert led
        await node.hand_over(3.0)
        assert [consensus.group for consensus in node.groups if consensus.state.is_leader] == []
        await until(lambda: all(_is_led(cluster, "many", number) for number in range(8)) and _is_led(cluster, "t", 0))
        # Nobody hands anything back to it.
        other = consensus_of(cluster.leader_of("t"))
        await until(lambda: can_take_over(other, brokers.leader))
        with pytest.raises(TransferRefusedError, match="is being stopped"):
            await other.transfer.run(NodeId(brokers.leader))

    with_brokers(tmp_path, test)


async def _fetch_after(client, offset, epoch, topic_id):
    request = fetch_request("t", offset, topic_id=topic_id)
    request.topics[0].partitions[0].last_fetched_epoch = epoch
    return (await client.call(ApiKey.FETCH, LATEST_FETCH, request)).responses[0].partitions[0]


def test_a_fetch_behind_the_end_of_its_epoch_is_told_where_that_ended(tmp_path):
    async def test(brokers):
        cluster = brokers.cluster
        await cluster.produce("t", b"a", b"b")
        old = cluster.leader_of("t").leader_epoch
        await _hand_over(cluster, brokers.other)
        await until(lambda: _is_led(cluster, "t", 0))
        await cluster.produce("t", b"c", b"d")
        new = cluster.leader_of("t").leader_epoch
        client = brokers.clients[brokers.other]
        for offset, epoch, parts in (
            (2, old, None),
            (4, new, None),
            (3, new, None),
            (3, old, (old, 2)),
            (0, old, None),
        ):
            result = await _fetch_after(client, offset, epoch, brokers.topic_id)
            assert result.error_code == 0
            diverging = result.diverging_epoch
            if parts is None:
                assert diverging is None or diverging.epoch == -1
            else:
                assert (diverging.epoch, diverging.end_offset) == parts
                assert bytes(result.records or b"") == b""
        # Who has read all of an epoch that is deleted meanwhile reads on.
        await cluster.leader_of("t").delete_records(2, asyncio.get_running_loop().time() + 10)
        result = await _fetch_after(client, 2, old, brokers.topic_id)
        assert (result.error_code, bool(result.records)) == (0, True)
        result = await _fetch_after(client, 3, old, brokers.topic_id)
        assert (result.diverging_epoch.epoch, result.diverging_epoch.end_offset) == (old, 2)
        result = await _fetch_after(client, 1, old, brokers.topic_id)
        assert result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    with_brokers(tmp_path, test)
