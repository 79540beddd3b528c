"""Fetch: which batches, when, and the errors in their order."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from wire_client import FETCH, PRODUCE, broker_in, fetch_request, produce_request

from cluster.partition import Partition
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import FetchRequest
from storage.errors import CorruptLogError
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import FAST, run, until
from tests.unit.model.record_batches import build_batch


def joined(result):
    return b"".join(
        bytes(part)
        for part in ([result.records] if isinstance(result.records, (bytes, memoryview)) else result.records)
    )


async def three_batches(client):
    """Topic "t" with records 0-2, 3-5 and 6-8 in batches of some 200 bytes; return the batches as stored."""
    await client.create_topic("t")
    batches = []
    for base in (0, 3, 6):
        batch = build_batch(*[bytes([base]) * 50] * 3)
        assert (await client.produce("t", batch)).base_offset == base
        batches.append(build_batch(*[bytes([base]) * 50] * 3, base_offset=base, leader_epoch=1))
    return batches


@pytest.mark.parametrize(("offset", "first"), [(0, 0), (1, 0), (2, 0), (3, 1), (5, 1), (6, 2), (8, 2), (9, 3)])
def test_whole_batches_come_from_the_one_that_holds_the_offset_on(tmp_path, offset, first):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            batches = await three_batches(client)
            result = await client.fetch("t", offset)
            assert (result.error_code, result.high_watermark, result.last_stable_offset) == (0, 9, 9)
            assert result.log_start_offset == 0
            assert joined(result) == b"".join(batches[first:])

    run(test)


@pytest.mark.parametrize("limit", ["max_bytes", "partition_max_bytes"])
@pytest.mark.parametrize(("size", "count"), [(0, 1), (1, 1), (240, 1), (600, 2), (10_000, 3)])
def test_the_limits_hold_but_the_first_batch_comes_whatever_its_size(tmp_path, limit, size, count):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            batches = await three_batches(client)
            assert 230 < len(batches[0]) < 240
            result = await client.fetch("t", 0, **{limit: size})
            assert joined(result) == b"".join(batches[:count])

    run(test)


def test_a_negative_limit_is_as_good_as_none(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            batches = await three_batches(client)
            result = await client.fetch(
                "t", 0, max_bytes=-1, partition_max_bytes=-(2**31), min_bytes=-1, max_wait_ms=-1
            )
            assert joined(result) == batches[0]

    run(test)


def test_the_second_partition_of_a_full_response_is_empty_and_no_error(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t", 2)
            await client.call(ApiKey.PRODUCE, PRODUCE, produce_request("t", build_batch(b"a"), build_batch(b"b")))
            request = fetch_request("t", 0, max_bytes=10)
            request.topics[0].partitions.append(
                FetchRequest.FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=1000)
            )
            response = await client.call(ApiKey.FETCH, FETCH, request)
            first, second = response.responses[0].partitions
            assert joined(first)
            assert not joined(second)
            assert (second.error_code, second.high_watermark) == (0, 1)

    run(test)


def test_what_becomes_visible_during_a_fetch_is_below_the_high_watermark_that_is_told(tmp_path, monkeypatch):
    """Simulated seed 31122: one partition was read while a record of the next one, whose end was told, was committed."""
    read = Partition.fetch

    async def test():
        async with broker_in(tmp_path) as broker:
            client, producer = await broker.client(), await broker.client()
            await client.create_topic("t", 2)
            two = produce_request("t", build_batch(b"a"), build_batch(b"b"))
            await client.call(ApiKey.PRODUCE, PRODUCE, two)

            async def read_while_another_produces(partition, offset, max_bytes, **how):
                monkeypatch.setattr(Partition, "fetch", read)
                batches = await read(partition, offset, max_bytes, **how)
                await producer.call(ApiKey.PRODUCE, PRODUCE, two)
                return batches

            monkeypatch.setattr(Partition, "fetch", read_while_another_produces)
            request = fetch_request("t", 0)
            request.topics[0].partitions.append(
                FetchRequest.FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=1000)
            )
            response = await client.call(ApiKey.FETCH, FETCH, request)
            second = response.responses[0].partitions[1]
            assert len(joined(second)) == 2 * len(build_batch(b"b"))
            assert (second.high_watermark, second.last_stable_offset) == (2, 2)

    run(test)


@pytest.mark.parametrize("offset", [-1, 10, 2**62, -(2**63)])
def test_an_offset_out_of_range_is_said_at_once(tmp_path, offset):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await three_batches(client)
            result = await client.fetch("t", offset, max_wait_ms=20_000)
            assert result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    run(test)


@pytest.mark.parametrize(
    ("name", "partition", "version", "code"),
    [
        ("unknown", 0, FETCH, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 1, FETCH, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", -1, FETCH, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 0, 13, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_what_does_not_exist_is_said_at_once(tmp_path, name, partition, version, code):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            result = await client.fetch(
                name, 0, version=version, partition=partition, topic_id="e" * 32, max_wait_ms=20_000
            )
            assert result.error_code == code

    run(test)


ERRORS = {
    ErrorCode.OFFSET_OUT_OF_RANGE: {"offset": 99},
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: {"partition": 7},
    ErrorCode.FENCED_LEADER_EPOCH: {"epoch": 0},
    ErrorCode.UNKNOWN_LEADER_EPOCH: {"epoch": 99},
}


@pytest.mark.parametrize("code", ERRORS, ids=lambda code: code.name)
@pytest.mark.parametrize("version", range(4, 19))
def test_an_error_comes_with_records_of_length_0_and_without_positions(tmp_path, version, code):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            await client.produce("t")
            if "epoch" in ERRORS[code] and version < 9:
                return  # No epochs yet.
            fields = {"offset": 0, **ERRORS[code]}
            topic_id = broker.node.controller.topics.get("t").topic_id
            result = await client.fetch("t", version=version, topic_id=topic_id, isolation_level=1, **fields)
            assert result.error_code == code
            # Null records: librdkafka calls the whole response malformed and drops it ("invalid MessageSetSize -1").
            assert result.records is not None
            assert joined(result) == b""
            assert (result.high_watermark, result.last_stable_offset) == (-1, -1)
            assert result.log_start_offset == -1

    run(test)


def test_the_clients_epoch_is_compared_first(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await three_batches(client)
            epoch = broker.partition("t").leader_epoch
            assert (await client.fetch("t", 0, epoch=epoch)).error_code == 0
            # An offset out of range as well: the epoch's error comes first.
            assert (await client.fetch("t", 99, epoch=epoch - 1)).error_code == ErrorCode.FENCED_LEADER_EPOCH
            assert (await client.fetch("t", 99, epoch=epoch + 1)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH

    run(test)


def test_a_long_poll_wakes_at_the_next_produce(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client, producer = await broker.client(), await broker.client()
            await three_batches(client)
            client.send(ApiKey.FETCH, FETCH, fetch_request("t", 9, max_wait_ms=25_000))
            answer = asyncio.create_task(client.receive())
            await until(lambda: consensus_of(broker.partition("t")).monitor._watchers)
            assert not answer.done()
            await producer.produce("t", build_batch(b"news"))
            _, response = await answer
            assert joined(response.responses[0].partitions[0]) == build_batch(b"news", base_offset=9, leader_epoch=1)

    run(test)


def test_a_long_poll_goes_on_until_min_bytes_are_there(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client, producer = await broker.client(), await broker.client()
            await client.create_topic("t")
            size = len(build_batch())
            client.send(ApiKey.FETCH, FETCH, fetch_request("t", 0, max_wait_ms=25_000, min_bytes=3 * size))
            for _ in range(3):
                await producer.produce("t")
            _, response = await client.receive()
            assert len(joined(response.responses[0].partitions[0])) == 3 * size

    run(test)


@pytest.mark.parametrize("min_bytes", [1, 10_000])
def test_max_wait_ends_a_long_poll_with_what_there_is(tmp_path, min_bytes):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            batches = await three_batches(client)
            begin = asyncio.get_running_loop().time()
            result = await client.fetch("t", 6 if min_bytes > 1 else 9, max_wait_ms=150, min_bytes=min_bytes)
            assert 0.14 < asyncio.get_running_loop().time() - begin < 5
            assert joined(result) == (batches[2] if min_bytes > 1 else b"")
            assert result.error_code == 0

    run(test)


def test_min_bytes_of_0_never_waits(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            assert (await client.fetch("t", 0, max_wait_ms=25_000, min_bytes=0)).error_code == 0

    run(test)


def test_a_long_poll_ends_when_the_topic_is_deleted(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            topic_id = await client.create_topic("t")
            client.send(ApiKey.FETCH, FETCH, fetch_request("t", 0, max_wait_ms=25_000))
            await until(lambda: consensus_of(broker.partition("t")).monitor._watchers)
            await broker.cluster.delete_topic(topic_id)
            _, response = await client.receive()
            code = response.responses[0].partitions[0].error_code
            assert code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    run(test)


def test_a_client_that_leaves_in_a_long_poll_leaves_no_watcher_behind(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            monitor = consensus_of(broker.partition("t")).monitor
            before = len(monitor._watchers)
            client.send(ApiKey.FETCH, FETCH, fetch_request("t", 0, max_wait_ms=25_000))
            await until(lambda: len(monitor._watchers) == before + 1)
            await client.close()
            await until(lambda: len(monitor._watchers) == before)

    run(test)


def test_read_committed_gets_an_empty_list_of_aborted_transactions(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            assert (await client.fetch("t", 0, isolation_level=1)).aborted_transactions == []
            assert (await client.fetch("t", 0)).aborted_transactions is None

    run(test)


@asynccontextmanager
async def four_on_disk(tmp_path):
    """A client of a broker that keeps nothing in memory, whose topic "t" has a batch in each of four partitions."""
    async with broker_in(tmp_path, raft=replace(FAST, tail_cache_bytes=1)) as broker:
        client = await broker.client()
        await client.create_topic("t", 4)
        for number in range(4):
            await client.produce("t", build_batch(b"x" * 100), partition=number)
        yield client


def _of_four(partition_max_bytes):
    request = fetch_request("t", 0, partition_max_bytes=partition_max_bytes, max_bytes=8_000_000)
    [named] = request.topics
    [asked] = named.partitions
    named.partitions = [
        FetchRequest.FetchPartition(
            partition=number, current_leader_epoch=-1, fetch_offset=0, partition_max_bytes=asked.partition_max_bytes
        )
        for number in range(4)
    ]
    return request


@pytest.mark.parametrize(("partition_max_bytes", "at_once"), [(1_048_576, 4), (1, 1)])
def test_partitions_are_read_from_files_side_by_side_where_a_batch_has_room(
    tmp_path, monkeypatch, partition_max_bytes, at_once
):
    async def test():
        async with four_on_disk(tmp_path) as client:
            fetch, running, most = Partition.fetch, 0, 0

            async def counted(partition, offset, max_bytes, **how):
                nonlocal running, most
                running += 1
                most = max(most, running)
                try:
                    return await fetch(partition, offset, max_bytes, **how)
                finally:
                    running -= 1

            monkeypatch.setattr(Partition, "fetch", counted)
            response = await client.call(ApiKey.FETCH, FETCH, _of_four(partition_max_bytes))
            [topic] = response.responses
            # A client that wants a byte gets the first batch whatever its size, and no more.
            assert [bool(joined(each)) for each in topic.partitions] == [True, *[at_once == 4] * 3]
            assert most == at_once
            assert running == 0

    run(test)


def test_a_partition_that_cannot_be_read_leaves_the_others_of_the_fetch_as_they_are(tmp_path, monkeypatch):
    async def test():
        async with four_on_disk(tmp_path) as client:
            fetch = Partition.fetch

            async def damaged(partition, offset, max_bytes, **how):
                if partition.partition in (1, 3):
                    raise CorruptLogError("damaged")
                return await fetch(partition, offset, max_bytes, **how)

            monkeypatch.setattr(Partition, "fetch", damaged)
            response = await client.call(ApiKey.FETCH, FETCH, _of_four(1_048_576))
            codes = [each.error_code for each in response.responses[0].partitions]
            assert codes == [0, ErrorCode.KAFKA_STORAGE_ERROR, 0, ErrorCode.KAFKA_STORAGE_ERROR]

    run(test)
