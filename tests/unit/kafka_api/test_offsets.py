"""ListOffsets and OffsetForLeaderEpoch."""

import asyncio

import pytest
from wire_client import broker_in

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import OffsetForLeaderEpochRequest
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import run, until
from tests.unit.model.record_batches import GZIP, LZ4, NONE, SNAPPY, ZSTD, build_batch, packed, record

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6


async def topic_with_times(client, *batches):
    """Topic "t" with one batch per list of timestamps."""
    await client.create_topic("t")
    for times in batches:
        result = await client.produce("t", build_batch(*[b"x"] * len(times), timestamps=times))
        assert result.error_code == 0


async def epoch_end(client, epoch, *, topic="t", partition=0, current=-1):
    asked = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
        partition=partition, current_leader_epoch=current, leader_epoch=epoch
    )
    named = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=topic, partitions=[asked])
    response = await client.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, OffsetForLeaderEpochRequest(topics=[named]))
    return response.topics[0].partitions[0]


async def new_epoch(broker):
    """Let the leader of "t" step down and take office again; return the new epoch."""
    partition = broker.partition("t")
    before = partition.leader_epoch
    consensus_of(partition).step_down("test")
    await until(lambda: partition.is_in_office)
    assert partition.leader_epoch > before
    return partition.leader_epoch


@pytest.mark.parametrize(
    ("timestamp", "offset", "found"),
    [
        (EARLIEST, 0, -1),
        (EARLIEST_LOCAL, 0, -1),
        (LATEST, 6, -1),
        (LATEST_TIERED, -1, -1),
        (EARLIEST_PENDING_UPLOAD, -1, -1),
        (MAX_TIMESTAMP, 3, 900),
        (0, 0, 100),
        (100, 0, 100),
        (101, 1, 300),
        (301, 3, 900),
        (900, 3, 900),
        (901, -1, -1),
        (2**63 - 1, -1, -1),
    ],
)
def test_offsets_are_found_by_name_and_by_time(tmp_path, timestamp, offset, found):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await topic_with_times(client, [100, 300, 200], [900, 50], [400])
            result = await client.list_offsets("t", timestamp, version=11)
            assert (result.error_code, result.offset, result.timestamp) == (0, offset, found)
            assert result.leader_epoch == (-1 if offset < 0 else 1)

    run(test)


@pytest.mark.parametrize(
    ("timestamp", "offset"), [(EARLIEST, 0), (LATEST, 0), (MAX_TIMESTAMP, -1), (0, -1), (EARLIEST_LOCAL, 0)]
)
def test_an_empty_partition_has_a_start_an_end_and_no_record(tmp_path, timestamp, offset):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            result = await client.list_offsets("t", timestamp)
            assert (result.error_code, result.offset, result.timestamp) == (0, offset, -1)

    run(test)


@pytest.mark.parametrize(
    ("timestamp", "since"),
    [
        (MAX_TIMESTAMP, 7),
        (EARLIEST_LOCAL, 8),
        (LATEST_TIERED, 9),
        (EARLIEST_PENDING_UPLOAD, 11),
        (-7, 99),
        (-(2**63), 99),
    ],
)
def test_a_special_timestamp_is_unknown_below_its_version(tmp_path, timestamp, since):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            for version in range(1, 12):
                result = await client.list_offsets("t", timestamp, version=version)
                assert result.error_code == (0 if version >= since else ErrorCode.UNSUPPORTED_VERSION)

    run(test)


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_a_record_in_the_middle_of_a_compressed_batch_is_found(tmp_path, codec):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            await client.produce("t", build_batch(*[b"x"] * 100, timestamps=list(range(100, 200)), codec=codec))
            result = await client.list_offsets("t", 150)
            assert (result.offset, result.timestamp) == (50, 150)

    run(test)


def test_log_append_time_is_the_time_of_the_whole_batch(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t", message_timestamp_type="LogAppendTime")
            taken = (await client.produce("t", build_batch(b"a", b"b", timestamps=[1, 2]))).log_append_time_ms
            for wanted in (1, 2, taken):
                found = await client.list_offsets("t", wanted)
                assert (found.offset, found.timestamp) == (0, taken)
            assert (await client.list_offsets("t", taken + 1)).offset == -1

    run(test)


@pytest.mark.parametrize(
    ("start", "timestamp", "offset", "found"),
    [
        (1, 100, 1, 300),
        (1, 300, 1, 300),
        (2, 0, 2, 200),
        (2, 201, 4, 250),
        (2, MAX_TIMESTAMP, 4, 250),
        (1, MAX_TIMESTAMP, 1, 300),
        (4, 201, 4, 250),
        (4, 251, -1, -1),
    ],
)
def test_records_below_a_start_inside_a_batch_are_not_found(tmp_path, start, timestamp, offset, found):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await topic_with_times(client, [100, 300, 200, 50], [250])
            deadline = asyncio.get_running_loop().time() + 10
            assert await broker.partition("t").delete_records(start, deadline) == start
            result = await client.list_offsets("t", timestamp)
            assert (result.error_code, result.offset, result.timestamp) == (0, offset, found)

    run(test)


def test_log_append_time_below_a_start_inside_a_batch_is_not_found(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t", message_timestamp_type="LogAppendTime")
            await client.produce("t", build_batch(b"a", b"b", b"c"))
            await broker.partition("t").delete_records(2, asyncio.get_running_loop().time() + 10)
            for timestamp in (1, MAX_TIMESTAMP):
                assert (await client.list_offsets("t", timestamp)).offset == 2
            await broker.partition("t").delete_records(3, asyncio.get_running_loop().time() + 10)
            for timestamp in (1, MAX_TIMESTAMP):
                assert (await client.list_offsets("t", timestamp)).offset == -1

    run(test)


HOSTILE = {
    "garbage as gzip": build_batch(codec=GZIP, payload=b"\xff" * 30),
    "a record past the end": build_batch(payload=b"\x7f\0\0"),
    "an offset beyond 64 bits": build_batch(payload=record(b"x", offset_delta=2**66)),
    "a time beyond 64 bits": build_batch(payload=record(b"x", timestamp_delta=2**66)),
    "tens of millions of nothing": build_batch(codec=GZIP, payload=packed(GZIP, bytes(100_000_000)), count=2**31 - 1),
}


@pytest.mark.parametrize("batch", HOSTILE.values(), ids=HOSTILE.keys())
def test_records_that_nobody_can_read_are_an_error_of_their_own_partition_only(tmp_path, batch):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            assert (await client.produce("t", batch)).error_code == 0
            assert (await client.list_offsets("t", 500)).error_code == ErrorCode.CORRUPT_MESSAGE
            assert (await client.list_offsets("t", LATEST)).error_code == 0

    run(test)


def test_other_connections_are_served_while_a_huge_batch_is_searched(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            searcher, other = await broker.client(), await broker.client()
            await searcher.create_topic("t")
            records = record(b"", timestamp_delta=0) * 300_000
            batch = build_batch(payload=packed(ZSTD, records), codec=ZSTD, count=300_000, max_timestamp=2000)
            assert (await searcher.produce("t", batch)).error_code == 0
            # No record is as late as the header says.
            search = asyncio.create_task(searcher.list_offsets("t", 1500))
            served = 0
            while not search.done():
                assert (await other.list_offsets("t", LATEST)).offset == 300_000
                served += 1
            assert served > 3
            assert (await search).offset == -1

    run(test)


@pytest.mark.parametrize(("topic", "partition"), [("unknown", 0), ("t", 1), ("t", -1)])
def test_what_does_not_exist_is_said(tmp_path, topic, partition):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            result = await client.list_offsets(topic, LATEST, partition=partition)
            assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            result = await epoch_end(client, 1, topic=topic, partition=partition)
            assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(test)


def test_the_clients_epoch_is_compared(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            current = await new_epoch(broker)
            codes = {
                current - 1: ErrorCode.FENCED_LEADER_EPOCH,
                current: 0,
                current + 1: ErrorCode.UNKNOWN_LEADER_EPOCH,
            }
            for epoch, code in codes.items():
                assert (await client.list_offsets("t", LATEST, epoch=epoch)).error_code == code
                assert (await epoch_end(client, 1, current=epoch)).error_code == code

    run(test)


def test_an_epoch_ends_where_the_next_one_begins_and_the_current_one_at_the_high_watermark(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await topic_with_times(client, [1, 2, 3])
            first = broker.partition("t").leader_epoch
            second = await new_epoch(broker)
            await client.produce("t")
            third = await new_epoch(broker)
            ends = {}
            for epoch in (first, second, third):
                result = await epoch_end(client, epoch)
                assert result.error_code == 0
                ends[result.leader_epoch] = result.end_offset
            assert ends == {first: 3, second: 4, third: 4}
            assert (await client.list_offsets("t", LATEST)).leader_epoch == third
            assert (await client.list_offsets("t", EARLIEST)).leader_epoch == first
            assert (await client.list_offsets("t", 2)).leader_epoch == first

    run(test)


def test_an_epoch_before_all_that_is_left_ended_where_the_log_starts_now(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await topic_with_times(client, [1, 2, 3])
            first = broker.partition("t").leader_epoch
            second = await new_epoch(broker)
            await client.produce("t")
            await new_epoch(broker)
            await broker.partition("t").delete_records(3, asyncio.get_running_loop().time() + 10)
            for epoch, end in ((first, 3), (0, 3), (second, 4)):
                result = await epoch_end(client, epoch)
                assert (result.error_code, result.leader_epoch, result.end_offset) == (0, epoch, end)

    run(test)


@pytest.mark.parametrize("epoch", [-1, -2, 99, 2**31 - 1])
def test_an_epoch_that_never_was_has_no_end(tmp_path, epoch):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await topic_with_times(client, [1])
            result = await epoch_end(client, epoch)
            assert (result.error_code, result.leader_epoch, result.end_offset) == (0, -1, -1)

    run(test)
