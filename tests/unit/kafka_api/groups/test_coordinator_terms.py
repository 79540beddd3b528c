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


def of_group(brokers, number, group):
    """What the client of a broker says about another group."""
    return Groups(brokers.groups[number].client, group)


async def coordinator(brokers, *, group="g"):
    """Return the number of the broker that keeps the group, once it serves."""
    async with asyncio.timeout(20):
        while True:
            found = await of_group(brokers, 1, group).find()
            if not found.error_code:
                at = of_group(brokers, found.node_id, group)
                if (await at.heartbeat("nobody", 1)) is ErrorCode.UNKNOWN_MEMBER_ID:
                    return found.node_id
            await asyncio.sleep(0.02)


def test_the_first_search_of_a_new_cluster_waits_for_a_coordinator(tmp_path):
    """librdkafka asks three times within 0.3 s, and then its request hangs for its whole time."""

    async def test():
        async with three_coordinators(tmp_path) as brokers:
            found = await asyncio.gather(
                *(brokers.groups[number].find(version) for number, version in ((1, 2), (2, 4)))
            )
            assert [answer.error_code for answer in found] == [0, 0]

    run(test)


def replica(brokers, number, group="g"):
    """The replica of the partition that keeps the group."""
    node = brokers.cluster[number]
    topic = node.controller.topics.get(OFFSETS_TOPIC)
    return node.groups.get(topic.group(offsets_partition(group, len(topic.replicas))))


def test_whoever_waits_is_sent_to_the_next_coordinator_when_the_term_ends(tmp_path):
    async def test():
        async with three_coordinators(tmp_path) as brokers:
            first = await coordinator(brokers)
            at = brokers.groups[first]
            me, generation = await at.member()
            assert await at.commit(42, member_id=me, generation=generation) == 0
            other = await brokers.connect(first)
            joining = asyncio.ensure_future(other.join(version=3))
            await at.until_moving(me, generation)
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


async def kept_elsewhere(brokers, keeper):
    """Return a group that another broker keeps, and that broker's number."""
    async with asyncio.timeout(60):
        while True:
            for group in "abcdefh":
                if (number := await coordinator(brokers, group=group)) != keeper:
                    return group, number
            # One broker leads all of them: it gives up that of one.
            replica(brokers, keeper, group).step_down("the test says so")
            await asyncio.sleep(0.02)


def test_of_two_groups_in_one_fetch_each_coordinator_tells_its_own(tmp_path):
    async def test():
        async with three_coordinators(tmp_path) as brokers:
            keeper = await coordinator(brokers)
            other, elsewhere = await kept_elsewhere(brokers, keeper)
            here, there = brokers.groups[keeper], of_group(brokers, elsewhere, other)
            assert await here.commit(42) == 0
            assert await there.commit(43) == 0
            refused = (ErrorCode.NOT_COORDINATOR, {})
            told = await here.fetch_together((other, None), ("g", "t"))
            assert told == {other: refused, "g": (0, {("t", 0): 42})}
            told = await there.fetch_together(("g", None), (other, None))
            assert told == {"g": refused, other: (0, {("t", 0): 43})}
            # What was asked for by name is not there either, and not known to be uncommitted.
            assert (await there.fetch_together(("g", "t")))["g"][0] is ErrorCode.NOT_COORDINATOR

    run(test, seconds=120)


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


def test_requests_that_come_together_share_the_rounds_that_confirm_their_coordinator(tmp_path):
    async def test():
        async with three_coordinators(tmp_path) as brokers:
            first = await coordinator(brokers)
            me, generation = await brokers.groups[first].member()
            others = [await brokers.connect(first) for _ in range(30)]
            probe = brokers.cluster[first].groups.probe
            before = probe.read_rounds
            told = await asyncio.gather(*(each.heartbeat(me, generation) for each in others))
            assert set(told) == {ErrorCode.NONE}
            # Not one each. Requests that come in while a round is on its way share the next one.
            assert 1 <= probe.read_rounds - before < len(others) // 2

    run(test)
