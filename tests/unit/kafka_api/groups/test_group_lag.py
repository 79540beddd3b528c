"""How far groups are behind, as their coordinator measures it; and who says nothing."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from cluster.groups.offsets_topic import OFFSETS_TOPIC, offsets_partition
from cluster.groups.records import CommittedOffset, OffsetKey
from kafka_api.groups.lag import LagReport
from kafka_api.options import KafkaOptions
from kafka_api.server import KafkaServer
from raftka.broker.group_lag_metrics import GroupLagCollector
from tests.unit.cluster.cluster_nodes import Cluster, can_take_over, run, until
from tests.unit.kafka_api.groups.group_calls import QUICK, Groups, with_groups
from tests.unit.kafka_api.wire_client import Client


@asynccontextmanager
async def three_brokers(directory):
    """Topic "t" whose partition n is led by broker n + 1, each its only replica; and a client of each broker."""
    cluster = Cluster(directory, 3)
    await cluster.start()
    servers, clients = {}, {}
    try:
        for number, node in cluster.nodes.items():
            servers[number] = KafkaServer(node.env, node, KafkaOptions(groups=QUICK))
            port = await servers[number].start("127.0.0.1", 0)
            clients[number] = Client(*await asyncio.open_connection("127.0.0.1", port))
        await cluster.create_topic("t", 1, 1, assignment=[[1], [2], [3]])
        for number in range(3):
            await cluster.produce("t", *[b"x"] * 10 * (number + 1), number=number)
        yield SimpleNamespace(cluster=cluster, servers=servers, clients=clients)
    finally:
        for client in clients.values():
            await client.close()
        for server in servers.values():
            await server.stop()
        await cluster.stop()


async def keeper_of(brokers, group="g"):
    """Return the broker that keeps a group and has loaded it."""
    async with asyncio.timeout(20):
        while True:
            for number, client in brokers.clients.items():
                if number in brokers.cluster.nodes:
                    await Groups(client, group).find()
                    if not isinstance(brokers.servers[number]._groups.locate(group), int):
                        return number
            await asyncio.sleep(0.02)


async def reports(brokers):
    """Let every broker measure; return what each says."""
    for number in brokers.cluster.nodes:
        await brokers.servers[number].group_lags.measure()
    return {number: brokers.servers[number].group_lags.lag_reports() for number in brokers.cluster.nodes}


def test_the_keeper_of_a_group_and_nobody_else_reports_its_lag_over_partitions_that_all_brokers_lead(tmp_path):
    async def test():
        async with three_brokers(tmp_path) as brokers:
            keeper = await keeper_of(brokers)
            at = Groups(brokers.clients[keeper])
            for number, offset in enumerate((10, 15, 3)):
                assert await at.commit(offset, partition=number) == 0
            told = await reports(brokers)
            assert told.pop(keeper) == [LagReport("g", 0 + 5 + 27, 27, 0, 0)]
            assert list(told.values()) == [[], []]

    run(test)


def test_a_partition_whose_leader_is_gone_is_unknown_and_not_0(tmp_path):
    async def test():
        async with three_brokers(tmp_path) as brokers:
            keeper = await keeper_of(brokers)
            gone = next(number for number in brokers.cluster.nodes if number != keeper)
            for number in range(3):
                assert await Groups(brokers.clients[keeper]).commit(1, partition=number) == 0
            known = sum(10 * number - 1 for number in brokers.cluster.nodes if number != gone)
            await brokers.cluster.stop(gone)
            most = max(10 * number - 1 for number in brokers.cluster.nodes)
            lags = brokers.servers[keeper].group_lags
            await lags.measure()
            assert lags.lag_reports() == [LagReport("g", known, most, 1, 0)]

    run(test)


def test_a_coordinator_out_of_office_reports_nothing_and_the_next_one_does(tmp_path):
    async def test():
        async with three_brokers(tmp_path) as brokers:
            first = await keeper_of(brokers)
            assert await Groups(brokers.clients[first]).commit(4) == 0
            old = brokers.servers[first].group_lags
            await old.measure()
            assert old.lag_reports() == [LagReport("g", 6, 6, 0, 0)]
            topic = brokers.cluster[first].controller.topics.get(OFFSETS_TOPIC)
            group = topic.group(offsets_partition("g", len(topic.replicas)))
            target = next(number for number in brokers.cluster.nodes if number != first)
            # A leader that was just elected hands over to nobody who has not answered it yet, or is being recovered.
            leader = brokers.cluster[first].groups.get(group)
            await until(lambda: can_take_over(leader, target))
            deadline = asyncio.get_running_loop().time() + 10
            await brokers.cluster[first].moves.move(group, target, deadline)
            # What it had measured is not told either.
            assert old.lag_reports() == []
            assert await keeper_of(brokers) == target
            told = await reports(brokers)
            assert told.pop(target) == [LagReport("g", 6, 6, 0, 0)]
            assert list(told.values()) == [[], []]

    run(test)


def test_a_move_between_the_question_and_its_answer_leaves_no_report(tmp_path, monkeypatch):
    async def test():
        async with three_brokers(tmp_path) as brokers:
            keeper = await keeper_of(brokers)
            assert await Groups(brokers.clients[keeper]).commit(4) == 0
            node, lags = brokers.cluster[keeper], brokers.servers[keeper].group_lags
            read = node.visible_ends.read

            async def deposed(groups):
                ends = await read(groups)
                topic = node.controller.topics.get(OFFSETS_TOPIC)
                node.groups.get(topic.group(offsets_partition("g", len(topic.replicas)))).step_down("the test says so")
                return ends

            monkeypatch.setattr(node.visible_ends, "read", deposed)
            await lags.measure()
            assert lags.lag_reports() == []

    run(test)


@with_groups()
async def test_members_are_counted_and_what_is_not_committed_or_gone_is_not(broker, groups):
    lags = broker.server.group_lags
    await groups.member()
    await lags.measure()
    assert lags.lag_reports() == [], "a group that has committed nothing has no lag that anybody knows"
    simple = Groups(groups.client, "simple")
    await groups.client.create_topic("u")
    await broker.cluster.produce("u", *[b"x"] * 5)
    assert await simple.commit(2, topic="u") == 0
    assert await simple.commit(-1, topic="t") == 0
    assert await simple.commit(3, topic="t", partition=1) == 0
    await lags.measure()
    # Ahead of the end by 3 is 0, too.
    assert lags.lag_reports() == [LagReport("simple", 3, 3, 0, 0)]
    await broker.cluster.delete_topic(broker.node.controller.topics.get("u").topic_id)
    await until(lambda: broker.node.controller.topics.get("u") is None)
    await lags.measure()
    assert lags.lag_reports() == [LagReport("simple", 0, 0, 0, 0)]


@with_groups()
async def test_groups_beyond_the_bound_add_up_in_one_row_and_a_row_stays_with_its_group(broker, groups):
    lags = broker.server.group_lags
    await broker.cluster.produce("t", *[b"x"] * 10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kafka_api.groups.lag.GROUPS_MAX", 2)
        for name, offset in (("a", 9), ("b", 8), ("_other", 7), ("c", 4)):
            assert await Groups(groups.client, name).commit(offset) == 0
        await lags.measure()
        rows = {row.group: row for row in lags.lag_reports()}
        assert len(rows) == len(lags.lag_reports()) == 3
        named = set(rows) - {"_other"}
        assert named < {"a", "b", "c"}
        total = {"a": 1, "b": 2, "_other": 3, "c": 6}
        assert {name: rows[name].lag_sum for name in named} == {name: total[name] for name in named}
        assert rows["_other"].lag_sum == sum(total.values()) - sum(total[name] for name in named)
        assert rows["_other"].lag_max == max(total[name] for name in total if name not in named)
        # One that has a row goes: the next round gives its place to another one.
        gone = min(named)
        assert await Groups(groups.client, gone).delete() == 0
        await lags.measure()
        after = {row.group for row in lags.lag_reports()}
        assert named - {gone} < after
        assert len(after) == 3
        assert gone not in after


@with_groups()
async def test_a_commit_that_is_not_applied_yet_moves_no_lag(broker, groups):
    lags = broker.server.group_lags
    await broker.cluster.produce("t", *[b"x"] * 10)
    assert await groups.commit(2) == 0
    active = broker.server._groups.locate("g")
    await lags.measure()
    active.state._tail.append((10**6, [(OffsetKey("g", "t", 0), CommittedOffset(9, 0, "", 0))]))
    try:
        await lags.measure()
        assert lags.lag_reports() == [LagReport("g", 8, 8, 0, 0)]
    finally:
        active.state._tail.pop()


@with_groups()
async def test_lag_is_measured_again_and_again_and_told_on_metrics(broker, groups):
    lags = broker.server.group_lags
    collector = GroupLagCollector(lags)
    assert list(collector.rows(0.0)) == []
    await broker.cluster.produce("t", *[b"x"] * 10)
    assert await groups.commit(2) == 0
    lags._interval_ms = 1
    again = asyncio.create_task(lags.run())
    await until(lambda: [row.lag_sum for row in lags.lag_reports()] == [8])
    await broker.cluster.produce("t", *[b"x"] * 4)
    await until(lambda: [row.lag_sum for row in lags.lag_reports()] == [12])
    again.cancel()
    told = {row.name.removeprefix("raftka_group_lag_"): (row.value, row.labels) for row in collector.rows(0.0) if row}
    assert told == {"records": (12, ("g",)), "max_records": (12, ("g",)), "unknown_partitions": (0, ("g",))}
