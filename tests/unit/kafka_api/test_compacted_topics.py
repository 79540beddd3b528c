"""Compacted topics: what producers may write to them, what a pass leaves to readers, and what does not delete."""

import asyncio
from dataclasses import replace

import cramjam
import pytest
from wire_client import broker_in

from cluster.partition_status import PartitionStatusReader
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import DeleteRecordsRequest
from model.record_batch import read_header
from model.record_codec import unpack_records
from model.record_filter import keyed_records
from tests.unit.cluster.cluster_nodes import run
from tests.unit.model.record_batches import LZ4, ZSTD, build_batch, packed
from tests.unit.model.test_record_filter import batch_of, record

MIB = 1024 * 1024
NOW_MS = 1_700_000_000_000


def keyed(*pairs, **how):
    """A batch of records with these keys and values."""
    return batch_of([record(delta, key, value) for delta, (key, value) in enumerate(pairs)], **how)


def compacted(test):
    """Run a test with a broker, its client, and the compacted topic `t`."""

    async def with_broker(tmp_path):
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t", cleanup_policy="compact", segment_bytes=str(MIB))
            await test(broker, client)

    return lambda tmp_path: run(lambda: with_broker(tmp_path))


@pytest.mark.parametrize("codec", range(5))
def test_records_without_a_key_are_named_and_their_batch_is_refused(tmp_path, codec):
    @compacted
    async def test(broker, client):
        keys = [b"a", None, b"", None, b"b"]
        records = b"".join(record(delta, key, b"v") for delta, key in enumerate(keys))
        batch = build_batch(*[b""] * len(keys), codec=codec, payload=packed(codec, records))
        result = await client.produce("t", batch, version=8)
        assert (result.error_code, result.base_offset) == (ErrorCode.INVALID_RECORD, -1)
        assert [each.batch_index for each in result.record_errors] == [1, 3]
        assert result.error_message == "2 records without a key: a compacted topic takes none"
        # Before version 8 a response cannot name them.
        assert (await client.produce("t", batch, version=7)).error_code == ErrorCode.INVALID_RECORD
        assert broker.partition("t").end_offset == 0
        records = b"".join(record(delta, b"k", b"v") for delta in range(2000))
        batch = build_batch(*[b""] * 2000, codec=codec, payload=packed(codec, records))
        assert (await client.produce("t", batch)).base_offset == 0
        assert broker.partition("t").end_offset == 2000

    test(tmp_path)


def test_no_more_than_1000_records_are_named(tmp_path):
    @compacted
    async def test(broker, client):
        result = await client.produce("t", keyed(*[(None, b"v")] * 5000), version=9)
        assert [each.batch_index for each in result.record_errors] == list(range(1000))
        assert result.error_message.startswith("at least 1000 records without a key")

    test(tmp_path)


def test_records_that_no_pass_could_read_are_refused(tmp_path):
    @compacted
    async def test(broker, client):
        bomb = bytes(cramjam.zstd.compress(bytes(16 * MIB))) * 128
        for batch in (
            build_batch(b"", codec=ZSTD, payload=bomb),
            build_batch(b"", codec=LZ4, payload=b"garbage"),
            batch_of([record(0, b"a", b"1"), b"\x02ab"]),
            batch_of([record(0, b"a", b"1"), record(7, b"b", b"1")]),
        ):
            result = await client.produce("t", batch, version=9)
            assert (result.error_code, result.record_errors) == (ErrorCode.INVALID_RECORD, [])
            assert result.error_message.startswith("its keys cannot be read: ")
        assert broker.partition("t").end_offset == 0

    test(tmp_path)


def test_a_compressed_batch_is_appended_at_acks_1_whatever_the_time_out_of_its_request(tmp_path):
    @compacted
    async def test(broker, client):
        records = record(0, b"k", b"v")
        batch = build_batch(b"", codec=LZ4, payload=packed(LZ4, records))
        assert (await client.produce("t", batch, acks=1, timeout_ms=0)).error_code == ErrorCode.NONE
        assert broker.partition("t").end_offset == 1

    test(tmp_path)


def test_a_pass_leaves_the_newest_record_of_each_key_to_readers(tmp_path):
    @compacted
    async def test(broker, client):
        for number in range(60):
            value = b"%d" % number + bytes(100_000)
            batch = keyed((b"k%d" % (number % 2), value), timestamps=[NOW_MS + number])
            assert (await client.produce("t", batch)).base_offset == number
        partition = broker.partition("t")
        before = partition.size_bytes
        # The test looks instead: two passes over one log at once are not allowed.
        await broker.node.compactor.stop()
        # What is compacted is in the saved state, which follows the closed segment.
        async with asyncio.timeout(30):
            while not await broker.node.compactor.look():
                await asyncio.sleep(0.05)
        assert partition.size_bytes < before / 3
        (seen,) = broker.node.compactor.seen()
        counts = broker.node.compactor.counts
        assert (seen.partition, seen.is_due, seen.holders, counts.passes, counts.failures) == (
            partition,
            True,
            (),
            1,
            0,
        )
        assert counts.removed_records > 30
        assert counts.cleaned_bytes == seen.facts.cleanable_bytes
        held = broker.node.compactor.held_bytes
        statuses = PartitionStatusReader(broker.node.links, broker.node.partitions, broker.node.options.node_id, held)
        (status,) = await statuses.gather(broker.node.controller.topics.get("t"), 0)
        # The segment that is written to is dirty.
        assert 40 < status.compaction.cleaned.offset < 59
        assert 0 < status.compaction.dirty_bytes < partition.size_bytes
        assert status.compaction.held_bytes == 0
        newest, offset = {}, 0
        while offset < 60:
            batch = bytes((await client.fetch("t", offset)).records)
            while batch:
                header = read_header(batch)
                for each in keyed_records(header, unpack_records(batch[: header.size])):
                    assert header.base_offset + each.offset_delta not in newest.values()
                    newest[each.key] = header.base_offset + each.offset_delta
                offset = header.base_offset + header.last_offset_delta + 1
                batch = batch[header.size :]
        assert newest == {b"k0": 58, b"k1": 59}
        # The record of this time is gone: the next one that is there answers.
        found = await client.list_offsets("t", NOW_MS + 3)
        assert found.offset > 40
        assert found.timestamp == NOW_MS + found.offset
        assert (await client.list_offsets("t", -2)).offset == 0
        assert (await client.list_offsets("t", -1)).offset == 60

    test(tmp_path)


def test_records_are_deleted_only_where_the_policy_says_so(tmp_path):
    @compacted
    async def test(broker, client):
        for number in range(12):
            assert (await client.produce("t", keyed((b"k%d" % number, bytes(200_000))))).base_offset == number
        asked = DeleteRecordsRequest(
            topics=[
                DeleteRecordsRequest.DeleteRecordsTopic(
                    name="t",
                    partitions=[DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=5)],
                )
            ],
            timeout_ms=10_000,
        )
        partition = broker.partition("t")
        for policy, code in (("compact", ErrorCode.POLICY_VIOLATION), ("", ErrorCode.POLICY_VIOLATION)):
            partition.apply_config(replace(partition.topic.config, cleanup_policy=policy, retention_bytes=0))
            (result,) = (await client.call(ApiKey.DELETE_RECORDS, 2, asked)).topics[0].partitions
            assert (result.error_code, result.low_watermark) == (code, -1)
            soon = asyncio.get_running_loop().time() + 10
            assert await partition.apply_retention(NOW_MS, soon) is None
        partition.apply_config(replace(partition.topic.config, cleanup_policy="compact,delete", retention_bytes=0))
        (result,) = (await client.call(ApiKey.DELETE_RECORDS, 2, asked)).topics[0].partitions
        assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 5)
        assert await partition.apply_retention(NOW_MS, asyncio.get_running_loop().time() + 10) > 5

    test(tmp_path)
