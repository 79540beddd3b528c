"""While a state is too large for a snapshot, retention leaves the log as it is: followers need its entries."""

import asyncio
from dataclasses import replace

import pytest
from cluster_nodes import FAST, cluster_of, run, until

from storage.snapshot_file import STATE_BYTES_MAX
from tests.engine import consensus_of

_FOR_EVER_MS = 10**15


@pytest.mark.parametrize(("bytes_max", "moves"), [(STATE_BYTES_MAX, True), (1, False)])
def test_the_start_of_a_log_moves_only_where_its_state_can_be_saved(tmp_path, bytes_max, moves):
    async def test():
        raft = replace(FAST, snapshot_entries=2, state_bytes_max=bytes_max)
        async with cluster_of(tmp_path, 1, raft=raft, raft0_segment_bytes=1024) as cluster:
            await cluster.create_topic("t", configs={"retention.ms": "1000"})
            for _ in range(5):
                await cluster.produce("t", b"x")
            for number in range(10):
                await cluster.delete_topic(await cluster.create_topic(f"passing-{number}"))
            partition, controller = cluster.leader_of("t"), cluster[1].controller
            for consensus in (consensus_of(partition), controller.consensus):
                await until(
                    lambda consensus=consensus: (
                        consensus.log.snapshot_index > 0 or consensus.snapshot_refusal is not None
                    )
                )
            deadline = asyncio.get_running_loop().time() + 10
            start = await partition.apply_retention(_FOR_EVER_MS, deadline)
            assert start == (5 if moves else None)
            assert await controller.apply_retention(1024, 0, deadline) is moves
            # It stands and serves all the same.
            assert len(await cluster.leader_of("t").fetch(0 if start is None else start, 1000)) == (0 if moves else 5)
            assert partition.failure is None

    run(test)
