"""The wire client that benchmarks measure groups with, against a broker in this process."""

import asyncio

import pytest

from benchmarks.cluster import BenchmarkError
from benchmarks.compare.connections import close_all, open_served
from benchmarks.wire.connection import WireConnection
from benchmarks.wire.group_member import GroupMember, MeasuredGroup, find_coordinator
from kafka_api.protocol.error_codes import ErrorCode
from tests.unit.cluster.cluster_nodes import free_port, run, until
from tests.unit.kafka_api.groups.group_calls import QUICK, Groups
from tests.unit.kafka_api.wire_client import broker_in


def with_group(tmp_path, size, test):
    """Run `test(broker, group, calls)` with a measured group "g", and a plain client's view of it."""

    async def whole():
        async with broker_in(tmp_path, groups=QUICK) as broker:
            group = await MeasuredGroup.founded(f"127.0.0.1:{broker.port}", "g", size)
            await test(broker, group, Groups(await broker.client()))

    run(whole, seconds=60)


def test_all_members_have_an_assignment_after_each_rebalance(tmp_path):
    async def test(_broker, group, calls):
        for _ in range(3):
            before = await calls.describe()
            assert await group.rebalance() > 0
            after = await calls.describe()
            assert (after.group_state, len(after.members)) == ("Stable", 10)
            assert all(each.member_assignment for each in after.members)
            old, new = ({each.member_metadata for each in found.members} for found in (before, after))
            assert old.isdisjoint(new), "every member has said something new"
        await asyncio.gather(*(each.heartbeat() for each in group.members))
        await group.leave()
        assert (await calls.describe()).group_state == "Empty"

    with_group(tmp_path, 10, test)


def test_what_a_broker_refuses_ends_the_measurement(tmp_path):
    async def test(broker, group, calls):
        (member,) = group.members
        (described,) = (await calls.describe()).members
        assert await calls.leave(described.member_id) is ErrorCode.NONE
        with pytest.raises(BenchmarkError, match="Heartbeat: error 25"):
            await member.heartbeat()
        connection = await WireConnection.open(f"127.0.0.1:{broker.port}")
        nameless = GroupMember("", connection)
        with pytest.raises(BenchmarkError, match="JoinGroup: error 24"):
            await nameless.rejoin(1)
        await connection.close()
        with pytest.raises(BenchmarkError, match="no answer to LEAVE_GROUP"):
            await nameless.leave()
        await group.leave()

    with_group(tmp_path, 1, test)


def test_idle_connections_were_served_before_they_are_counted(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            opened = await open_served(f"127.0.0.1:{broker.port}", 20)
            assert len(broker.server._connections) == 20
            await close_all(opened)
            await until(lambda: not broker.server._connections)

    run(test)


def test_nobody_there_is_said_in_one_line():
    async def test():
        with pytest.raises(BenchmarkError, match="no connection to"):
            await find_coordinator(f"127.0.0.1:{free_port('127.0.0.1')}", "g")

    run(test)
