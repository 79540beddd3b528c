"""A compacted topic that is deleted during a pass: its replica goes, and passes over other topics go on."""

import asyncio
import os

from wire_client import broker_in

from cluster.compaction import CompactionOptions, Compactor
from cluster.compaction_rule import NO_MAX_LAG, CompactionPolicy
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import DeleteTopicsRequest
from runtime.child import ChildError
from storage.cleaning_process import clean_in_child
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import run, until
from tests.unit.kafka_api.test_compacted_topics import MIB, keyed

POLICY = CompactionPolicy(0.5, 1000, 0, NO_MAX_LAG, is_deleted=False, segment_bytes=MIB)


class SlowCleaner:
    """Passes in child processes, at a byte per second for one directory."""

    def __init__(self, files, slow):
        self._files = files
        self._slow = slow
        self.begun = asyncio.Event()
        # What was in the slow directory when its child had ended.
        self.left = None

    async def clean(self, request):
        is_slow = request.directory.endswith(self._slow)
        if is_slow:
            self.begun.set()
        try:
            return await clean_in_child(self._files, request, int(is_slow), 60)
        finally:
            if is_slow:
                self.left = os.listdir(request.directory)


async def overwritten(client, topic):
    await client.create_topic(topic, cleanup_policy="compact", segment_bytes=str(MIB))
    for number in range(30):
        batch = keyed((b"k%d" % (number % 2), bytes(100_000)))
        assert (await client.produce(topic, batch)).base_offset == number


async def delete(client, topic):
    request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000)
    (result,) = (await client.call(ApiKey.DELETE_TOPICS, 5, request)).responses
    assert result.error_code == ErrorCode.NONE


async def passed(compactor):
    """Look until there was a pass: what is compacted is in the saved state, which follows the closed segment."""
    while not await compactor.look():
        await asyncio.sleep(0.05)


def test_a_topic_is_deleted_during_a_pass_over_it_and_the_next_topic_is_compacted(tmp_path, caplog):
    async def test():
        async with broker_in(tmp_path) as broker:
            client, compactor = await broker.client(), broker.node.compactor
            # The test looks instead.
            await compactor.stop()
            await overwritten(client, "gone")
            group = broker.partition("gone").group
            compactor._cleaner = cleaner = SlowCleaner(broker.node.env.files, group.replace("/", "-"))
            passing = asyncio.ensure_future(passed(compactor))
            await cleaner.begun.wait()
            await delete(client, "gone")
            await until(lambda: broker.cluster.group_directories(1) == [], seconds=60)
            # The child had ended before anything went.
            assert len([name for name in cleaner.left if name.endswith(".log")]) > 2
            await until(lambda: broker.node.backend.is_reconciled)
            assert "was not removed" not in caplog.text
            await overwritten(client, "kept")
            await passing
            counts = compactor.counts
            assert (counts.passes, counts.failures, compactor.suspended()) == (1, 0, [])
            assert [seen.partition.name for seen in compactor.seen()] == ["kept-0"]

    # Children are at nice 19.
    run(test, seconds=200)


def test_a_topic_that_is_deleted_between_look_and_pass_has_not_failed(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client, node = await broker.client(), broker.node
            await overwritten(client, "t")
            partition, partitions = broker.partition("t"), [broker.partition("t")]

            def policy_of(_):
                # From here on the look awaits what the log says.
                partitions.clear()
                return POLICY

            options = node.env.wall_clock, lambda: 1 << 40, CompactionOptions()
            compactor = Compactor(partitions, policy_of, None, *options)
            await consensus_of(partition).log.close()
            assert not await compactor.look()
            assert (compactor.counts.failures, compactor._failures) == (0, {})
            # One that stays is one that fails.
            compactor = Compactor([partition], lambda _: POLICY, None, *options)
            assert not await compactor.look()
            assert compactor.counts.failures == 1

    run(test)


def test_a_pass_that_is_killed_over_a_topic_that_is_deleted_has_not_failed(tmp_path):
    class KilledCleaner:
        async def clean(self, request):
            await delete(client, "t")
            raise ChildError("it was killed")

    async def test():
        nonlocal client
        async with broker_in(tmp_path) as broker:
            client, compactor = await broker.client(), broker.node.compactor
            await compactor.stop()
            await overwritten(client, "t")
            compactor._cleaner = KilledCleaner()
            await until(lambda: broker.node.partitions)
            async with asyncio.timeout(20):
                while len(broker.node.partitions) > 0:
                    assert not await compactor.look()
                    # Nothing wakes the test when the state is saved, or when the replica has left.
                    await asyncio.sleep(0.05)
            assert compactor.counts.failures == 0
            await until(lambda: broker.cluster.group_directories(1) == [])

    client = None
    run(test)
