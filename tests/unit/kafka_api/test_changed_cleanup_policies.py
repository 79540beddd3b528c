"""A topic whose cleanup.policy changes while it is in use, by APPEND and SUBTRACT, with passes in between."""

import asyncio

from test_configs_api import APPEND, DELETE, SUBTRACT, change, values_of
from wire_client import broker_in

from kafka_api.protocol.error_codes import ErrorCode
from tests.unit.cluster.cluster_nodes import run, until
from tests.unit.kafka_api.test_compacted_topics import MIB, keyed


class Topic:
    """The topic `t` of a broker whose passes the test makes."""

    def __init__(self, broker, client):
        self.client = client
        self.partition = broker.partition("t")
        self.compactor = broker.node.compactor

    async def overwrite(self, count=30):
        for number in range(count):
            batch = keyed((b"k%d" % (number % 2), bytes(100_000)))
            assert (await self.client.produce("t", batch)).error_code == ErrorCode.NONE

    async def change(self, *changes, policy):
        for operation, value in changes:
            result = await change(self.client, "t", ("cleanup.policy", operation, value))
            assert result.error_code == ErrorCode.NONE, result.error_message
        assert (await values_of(self.client, "t"))["cleanup.policy"] == policy
        await until(lambda: self.partition.config.cleanup_policy == policy)

    async def is_keyless_taken(self):
        return (await self.client.produce("t", keyed((None, b"v")))).error_code == ErrorCode.NONE

    async def pass_over(self):
        """Look until there was a pass: what is compacted is in the saved state, which follows the closed segment."""
        before = self.compactor.counts.removed_records
        while not await self.compactor.look():
            await asyncio.sleep(0.05)
        assert self.compactor.counts.removed_records > before

    async def check_no_pass(self):
        """Make sure that no pass is made, though all that one needs is there."""
        consensus = self.partition._consensus
        await until(lambda: consensus.log.snapshot_index >= consensus.log.closed_index)
        passes = self.compactor.counts.passes
        assert not await self.compactor.look()
        assert (self.compactor.counts.passes, self.compactor.seen()) == (passes, [])

    @property
    def segments(self):
        return len(self.partition._consensus.log._segments)


def test_a_topic_in_use_becomes_compacted_by_append_and_deleted_by_subtract(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t", segment_bytes=str(MIB))
            await broker.node.compactor.stop()
            topic = Topic(broker, client)
            await topic.overwrite()
            assert await topic.is_keyless_taken()
            await topic.check_no_pass()

            await topic.change((APPEND, "compact"), policy="delete,compact")
            # Again: each word is there once.
            await topic.change((APPEND, "compact"), policy="delete,compact")
            assert not await topic.is_keyless_taken()
            before = topic.segments
            await topic.pass_over()
            # Retention judges whole segments, so each stays one of its own.
            assert topic.segments == before

            await topic.change((SUBTRACT, "delete"), policy="compact")
            assert not await topic.is_keyless_taken()
            await topic.overwrite()
            await topic.pass_over()
            assert topic.segments < before

            await topic.change((APPEND, "delete"), (SUBTRACT, "compact"), policy="delete")
            assert await topic.is_keyless_taken()
            await topic.overwrite()
            await topic.check_no_pass()
            counts = topic.compactor.counts
            assert (counts.passes, counts.failures) == (2, 0)

            # Nothing is left of it: neither of both does anything, and the default is what no value stands for.
            await topic.change((SUBTRACT, "delete"), policy="")
            await topic.check_no_pass()
            await topic.change((DELETE, None), policy="delete")
            result = await change(client, "t", ("cleanup.policy", APPEND, "shrink"))
            assert result.error_code == ErrorCode.INVALID_CONFIG
            assert "'shrink'" in result.error_message

    run(test, seconds=200)
