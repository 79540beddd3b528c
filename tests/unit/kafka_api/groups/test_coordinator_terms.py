"""What a coordinator says when its term ends or it is cut off, and what the next one knows."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

from cluster.groups.offsets_topic import OFFSETS_TOPIC, offsets_partition
from kafka_api.options import KafkaOptions
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.server import KafkaServer
from tests.unit.cluster.cluster_nodes import Cluster, run
from tests.unit.kafka_api.groups.group_calls import QUICK, Groups
from tests.unit.kafka_api.wire_client import Client


@asynccontextmanager
async def three_coordinators(directory):
    """Topic "t" on three nodes, and what a client of each says about group "g"."""
    cluster = Cluster(directory, 3)
    await cluster.start()
    servers, clients = {}, []

    async def connect(number):
        clients.append(Client(*await asyncio.open_connection("127.0.0.1", ports[number])))
        return Groups(clients[-1])

    try:
        ports = {}
        for number, node in cluster.nodes.items():
            servers[number] = KafkaServer(node.env, node, KafkaOptions(groups=QUICK))
            ports[number] = await servers[number].start("127.0.0.1", 0)
        await cluster.create_topic("t", replication_factor=3)
        groups = {number: await connect(number) for number in cluster.nodes}
        yield SimpleNamespace(cluster=cluster, groups=groups, connect=connect)
    finally:
        for client in clients:
            await client.close()
        for server in servers.values():
            await server.stop()
        await cluster.stop()


async def coordinator(brokers, *, other_than=-1):
    """Return the number of the broker that keeps the group, once it serves."""
    async with asyncio.timeout(20):
        while True:
            found = await brokers.groups[1].find()
            if not found.error_code and found.node_id != other_than:
                at = brokers.groups[found.node_id]
                if (await at.heartbeat("nobody", 1)) is ErrorCode.UNKNOWN_MEMBER_ID:
                    return found.node_id
            await asyncio.sleep(0.02)


def replica(brokers, number):
    """The replica of the partition that keeps the group."""
    node = brokers.cluster[number]
    topic = node.controller.topics.get(OFFSETS_TOPIC)
    return node.groups.get(topic.group(offsets_partition("g", len(topic.replicas))))


async def until_asked_to_join(groups, member_id, generation):
    async with asyncio.timeout(10):
        while await groups.heartbeat(member_id, generation) is not ErrorCode.REBALANCE_IN_PROGRESS:
            await asyncio.sleep(0.01)


def test_whoever_waits_is_sent_to_the_next_coordinator_when_the_term_ends(tmp_path):
    async def test():
        async with three_coordinators(tmp_path) as brokers:
            first = await coordinator(brokers)
            at = brokers.groups[first]
            me, generation = await at.member()
            assert await at.commit(42, member_id=me, generation=generation) == 0
            other = await brokers.connect(first)
            joining = asyncio.ensure_future(other.join(version=3))
            await until_asked_to_join(at, me, generation)
            replica(brokers, first).step_down("the test says so")
            assert (await joining).error_code == ErrorCode.NOT_COORDINATOR
            assert await at.heartbeat(me, generation) in (
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
            )
            # The next one has the generation that was stored, and nobody who had not got into one.
            at = brokers.groups[await coordinator(brokers)]
            assert await at.heartbeat(me, generation) == 0
            assert (await at.fetch())[:2] == (0, 42)
            assert [each.member_id for each in (await at.describe()).members] == [me]

    run(test)


def test_a_broker_that_does_not_keep_the_group_says_so(tmp_path):
    async def test():
        async with three_coordinators(tmp_path) as brokers:
            keeper = await coordinator(brokers)
            for number in brokers.groups.keys() - {keeper}:
                at = brokers.groups[number]
                assert (await at.join()).error_code == ErrorCode.NOT_COORDINATOR
                assert await at.commit(1) is ErrorCode.NOT_COORDINATOR
                assert (await at.fetch())[0] is ErrorCode.NOT_COORDINATOR
                assert (await at.fetch(version=1))[0] is ErrorCode.NOT_COORDINATOR
                assert (await at.fetch(version=7))[0] is ErrorCode.NOT_COORDINATOR

    run(test)


def test_a_coordinator_without_a_majority_answers_nothing_as_success(tmp_path):
    async def test():
        async with three_coordinators(tmp_path) as brokers:
            first = await coordinator(brokers)
            at = brokers.groups[first]
            me, generation = await at.member()
            await brokers.cluster.stop(*(brokers.cluster.nodes.keys() - {first}))
            refused = (
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            )
            assert await at.heartbeat(me, generation) in refused
            assert (await at.fetch())[0] in refused
            assert await at.commit(1, member_id=me, generation=generation) in refused
            assert (await at.sync(me, generation)).error_code in refused
            assert await at.leave(me) in refused
            assert (await at.list()).error_code in (0, *refused)

    run(test)
