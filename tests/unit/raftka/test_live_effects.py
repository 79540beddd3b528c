"""What options that are set while a broker runs do to those who are under way: groups, disks, retention."""

import asyncio

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import FindCoordinatorRequest, JoinGroupRequest
from tests.unit.cluster.cluster_nodes import run, until
from tests.unit.model.record_batches import build_batch
from tests.unit.raftka.test_dynamic_options import running


async def find_coordinator(client):
    request = FindCoordinatorRequest(key="g")
    return (await client.call(ApiKey.FIND_COORDINATOR, 2, request)).error_code == 0


async def join(client, member_id=""):
    """Return the code, and the member id that the coordinator gives."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=1000,
        member_id=member_id,
        protocol_type="c",
        protocols=[protocol],
    )
    answer = await client.call(ApiKey.JOIN_GROUP, 4, request)
    return ErrorCode(answer.error_code), answer.member_id


async def eventually(ask):
    """Ask until the answer is not empty, and return it; `run` bounds the time."""
    while not (answer := await ask()):
        # Between two polls; `until` cannot wait for an answer that is awaited itself.
        await asyncio.sleep(0.005)
    return answer


def test_a_smaller_bound_of_members_holds_for_a_group_that_exists_and_sends_nobody_away(tmp_path):
    async def test():
        async with running(tmp_path, group_initial_rebalance_delay_ms=0) as broker:
            await eventually(lambda: find_coordinator(broker.client))

            async def first_id():
                code, member_id = await join(broker.client)
                return member_id if code is ErrorCode.MEMBER_ID_REQUIRED else ""

            member = await eventually(first_id)
            assert (await join(broker.client, member))[0] is ErrorCode.NONE
            await broker.set("", group_max_size="1")
            assert (await join(broker.client, member))[0] is ErrorCode.NONE
            assert (await join(broker.client))[0] is ErrorCode.GROUP_MAX_SIZE_REACHED
            await broker.set("", group_max_size="2")
            assert (await join(broker.client))[0] is ErrorCode.MEMBER_ID_REQUIRED

    run(test)


def test_producers_are_refused_while_the_disk_has_less_than_the_new_reserve(tmp_path):
    async def test():
        async with running(tmp_path, disk_reserve_bytes=0) as broker:
            await broker.client.create_topic("t")
            assert (await broker.client.produce("t")).error_code == 0
            await until(lambda: broker.node.groups.limits.disk.spare_bytes)
            await broker.set("1", disk_reserve_bytes=str(1024**4))
            assert (await broker.client.produce("t")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert (await broker.change("1", ("disk.reserve.bytes", 1, None))).error_code == 0
            assert (await broker.client.produce("t")).error_code == 0

    run(test)


def test_a_shorter_interval_of_retention_does_not_wait_for_the_end_of_the_longer_one(tmp_path):
    async def test():
        options = {"log.retention.check.interval.ms": 3_600_000, "log.segment.bytes": 1024 * 1024}
        async with running(tmp_path, **options) as broker:
            await broker.client.create_topic("t")
            batch = build_batch(b"x" * 700_000)
            for _ in range(4):
                assert (await broker.client.produce("t", batch)).error_code == 0
            await broker.set("", log_retention_bytes="0")
            await broker.set("", log_retention_check_interval_ms="10")

            async def has_moved():
                return (await broker.client.list_offsets("t", -2)).offset > 0

            await eventually(has_moved)

    run(test)
