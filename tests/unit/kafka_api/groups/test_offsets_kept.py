"""How long what groups have committed is kept, and how much of the log for it."""

import asyncio

from cluster.groups.offsets_topic import OFFSETS_TOPIC
from kafka_api.groups.options import GroupOptions
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import run, until
from tests.unit.kafka_api.groups.group_calls import QUICK, Groups
from tests.unit.kafka_api.wire_client import broker_in

_FOR_EVER_MS = 10**15


def test_offsets_that_nobody_uses_expire_and_the_group_with_them(tmp_path):
    async def test():
        options = GroupOptions(initial_rebalance_delay_ms=0, offsets_retention_ms=1000, retention_check_interval_ms=50)
        async with broker_in(tmp_path, groups=options) as broker:
            client = await broker.client()
            await client.create_topic("t")
            await client.create_topic("u")
            groups, idle = Groups(client), Groups(client, "idle")
            await groups.wait_found()
            me, generation = await groups.member()
            assert await groups.commit(1, member_id=me, generation=generation) == 0
            assert await groups.commit(1, member_id=me, generation=generation, topic="u") == 0
            assert await idle.commit(1) == 0
            async with asyncio.timeout(10):
                while (await groups.fetch(topic="u"))[1] != -1 or (await idle.fetch())[1] != -1:
                    await asyncio.sleep(0.05)
            # What its members read stays, and so does the group.
            assert (await groups.fetch())[1] == 1
            assert [each.group_id for each in (await groups.list()).groups] == ["g"]
            assert await groups.leave(me) == 0
            async with asyncio.timeout(10):
                while (await groups.list()).groups:
                    await asyncio.sleep(0.05)
            assert (await groups.fetch(everything=True))[1] is None

    run(test)


def test_the_log_begins_later_and_a_restart_knows_all_that_was_committed(tmp_path):
    async def test():
        async with broker_in(tmp_path, groups=QUICK) as broker:
            client = await broker.client()
            await client.create_topic("t", partitions=2)
            size = str(1024 * 1024)
            await client.create_topic(OFFSETS_TOPIC, segment_bytes=size, retention_bytes=size, retention_ms="-1")
            groups = Groups(client)
            await groups.wait_found()
            assert await groups.commit(7, partition=1) == 0
            for offset in range(600):
                assert await groups.commit(offset, metadata="x" * 4096) == 0
            partition = broker.partition(OFFSETS_TOPIC)
            deadline = asyncio.get_running_loop().time() + 10
            assert await partition.apply_retention(_FOR_EVER_MS, deadline) > 0
            log = consensus_of(partition).log
            await until(lambda: log.snapshot_index >= log.start_index)
            assert (await groups.fetch())[1] == 599
            assert (await groups.fetch(partition=1))[1] == 7
            await broker.cluster.stop(1)
            await broker.cluster.start(1)
            node = broker.cluster[1]
            group = node.controller.topics.get(OFFSETS_TOPIC).group(0)
            await until(lambda: node.partitions.get(group) is not None and node.partitions.get(group).is_in_office)
            restarted = node.partitions.get(group)
            assert restarted.start_offset > 0
            offsets = restarted.log_state.table.offsets("g")
            assert {place: each.offset for place, each in offsets.items()} == {("t", 0): 599, ("t", 1): 7}

    run(test, seconds=60)
