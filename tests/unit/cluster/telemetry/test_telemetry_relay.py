"""What a broker takes of its peers, and what it tells of a replica that is far behind."""

import asyncio

import pytest

from cluster import leadership
from cluster.forwarding import Forwarder
from cluster.leadership import Leader
from cluster.telemetry.telemetry_record import FarOffsets
from cluster.telemetry.telemetry_relay import PUBLISH_TELEMETRY, PublishRequest, TelemetryError, TelemetryRelay
from cluster.telemetry.telemetry_topic import TELEMETRY_PARTITIONS, TELEMETRY_TOPIC
from model.ids import DirectoryId, GroupId, Index, NodeId, Replica, Term
from model.key_value_batch import KeyValue, encode_key_values
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import cluster_of, run


def batch() -> bytes:
    return bytes(encode_key_values([KeyValue(b"t-0", b"{}")], 1000))


async def publish(cluster, group: GroupId, term: int, payload: bytes) -> str:
    """Let a broker that does not lead the group ask the one that does; return its error."""
    leader = next(number for number, node in cluster.nodes.items() if is_leader(node, group))
    asker = next(number for number in cluster.nodes if number != leader)
    request = PublishRequest(group, term, 5.0)
    sent = cluster[asker].links.send(NodeId(leader), PUBLISH_TELEMETRY, request, [payload], timeout=10.0)
    return (await sent).error


def is_leader(node, group: GroupId) -> bool:
    partition = node.partitions.get(group)
    return partition is not None and partition.is_in_office


def test_a_leader_takes_whole_batches_for_the_topic_in_its_term_and_nothing_else(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic(TELEMETRY_TOPIC, TELEMETRY_PARTITIONS, 3)
            await cluster.create_topic("orders", 1, 3)
            own, foreign = cluster.leader_of(TELEMETRY_TOPIC), cluster.leader_of("orders")
            group, term = own.group, own.leader_epoch
            assert await publish(cluster, group, term, batch()) == ""
            assert own.high_watermark == 1
            refused = {
                "no such partition": (foreign.group, foreign.leader_epoch, batch()),
                "NotLeaderError": (group, term - 1, batch()),
                "too few": (group, term, b"short"),
                "CRC32C is wrong": (group, term, batch()[:-1] + b"x"),
                "at most": (group, term, bytes(2 * 1024 * 1024)),
            }
            for why, (where, when, payload) in refused.items():
                assert why in await publish(cluster, where, when, payload)
            assert own.high_watermark == 1
            assert foreign.end_offset == 0

    run(test)


def test_a_batch_reaches_the_leader_from_any_broker_and_fails_at_once_without_one(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic(TELEMETRY_TOPIC, 1, 3)
            leader = cluster.leader_of(TELEMETRY_TOPIC)
            relays = [relay_of(node) for node in cluster.nodes.values()]
            for relay in relays:
                await relay.send(leader.group, bytearray(batch()), 5.0)
            assert leader.high_watermark == 3
            with pytest.raises(TelemetryError, match="no leader"):
                await relays[0].send(GroupId("0" * 32 + "/0"), bytearray(batch()), 5.0)
            stranger = next(number for number in cluster.nodes if number != consensus_of(leader).state.node_id)
            node = cluster[stranger]
            leader, now = Leader(Term(1), NodeId(99), ()), asyncio.get_running_loop().time()
            told = leadership._News(leader, Replica(NodeId(99), DirectoryId("e" * 32)), now)
            node.leadership._heard[GroupId("f" * 32 + "/0")] = told
            with pytest.raises(TelemetryError, match="node 99"):
                await relay_of(node).send(GroupId("f" * 32 + "/0"), bytearray(batch()), 5.0)

    run(test)


def relay_of(node) -> TelemetryRelay:
    relay = TelemetryRelay.__new__(TelemetryRelay)
    relay._partitions, relay._leadership = node.partitions, node.leadership
    relay._self_node = node.options.node_id
    relay._forwarder = Forwarder(node.links, relay._self_node)
    return relay


def test_an_entry_that_memory_has_forgotten_is_read_once_and_forgotten_when_nobody_asks(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1) as cluster:
            await cluster.create_topic("t")
            for _ in range(6):
                await cluster.produce("t", b"a", b"b")
            partition = cluster.leader_of("t")
            log = consensus_of(partition).log
            log._marked, log._marks = [log.dirty_index], [log.next_offset]
            reads: list[int] = []
            read = log.reader.read

            async def counted(first, *more):
                reads.append(first)
                return await read(first, *more)

            log.reader.read = counted
            far = FarOffsets()
            for _ in range(3):
                far.begin_round()
                # Entry 1 is the barrier of the term.
                assert [await far.end_offset(partition, Index(index)) for index in (0, 3, 7)] == [0, 4, 12]
            assert reads == [3]
            far.begin_round()
            far.begin_round()
            assert await far.end_offset(partition, Index(3)) == 4
            assert reads == [3, 3]
            await asyncio.sleep(0)

    run(test)
