"""Produce: what is appended, what is refused and with which code, and when the answer comes."""

import asyncio

import pytest
from wire_client import PRODUCE, broker_in, fetch_request, produce_request

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from tests.feature_levels import LIVING
from tests.unit.cluster.cluster_nodes import run, until
from tests.unit.model.record_batches import CONTROL, GZIP, TRANSACTIONAL, ZSTD, build_batch


def corrupt(batch):
    changed = bytearray(batch)
    changed[-1] ^= 1
    return bytes(changed)


REFUSED = {
    "no records": (b"", ErrorCode.INVALID_RECORD),
    "a cut header": (build_batch()[:60], ErrorCode.INVALID_RECORD),
    "magic 1": (build_batch(magic=1), ErrorCode.INVALID_RECORD),
    "a bad CRC": (corrupt(build_batch()), ErrorCode.CORRUPT_MESSAGE),
    "two batches": (build_batch() + build_batch(), ErrorCode.INVALID_RECORD),
    "a cut batch": (build_batch()[:-1], ErrorCode.INVALID_RECORD),
    "no record": (build_batch(count=0), ErrorCode.INVALID_RECORD),
    "counts that differ": (build_batch(count=5, last_offset_delta=3), ErrorCode.INVALID_RECORD),
    "a control batch": (build_batch(attributes=CONTROL), ErrorCode.INVALID_RECORD),
    "a transactional batch": (
        build_batch(attributes=TRANSACTIONAL, producer_id=1, base_sequence=0),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    "a producer id below -1": (build_batch(producer_id=-2, base_sequence=0), ErrorCode.INVALID_RECORD),
    "a producer without a sequence": (build_batch(producer_id=1), ErrorCode.INVALID_RECORD),
    "a producer without an epoch": (
        build_batch(producer_id=1, base_sequence=0, producer_epoch=-1),
        ErrorCode.INVALID_RECORD,
    ),
    "an unknown codec": (build_batch(codec=5, payload=b"x"), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "too large a batch": (build_batch(b"x" * 2000), ErrorCode.MESSAGE_TOO_LARGE),
}


@pytest.mark.parametrize(("batch", "code"), REFUSED.values(), ids=REFUSED.keys())
def test_a_batch_that_must_not_be_appended_is_refused_with_its_code_and_words(tmp_path, batch, code):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t", max_message_bytes="1000")
            result = await client.produce("t", batch, version=8)
            assert result.error_code == code
            assert result.base_offset == -1
            assert result.error_message
            assert broker.partition("t").end_offset == 0
            # The connection lives, and the next batch takes the first offset.
            assert (await client.produce("t")).base_offset == 0

    run(test)


def test_null_instead_of_records_is_refused(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            request = produce_request("t", None)
            response = await client.call(ApiKey.PRODUCE, 9, request)
            assert response.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_RECORD

    run(test)


@pytest.mark.parametrize(("topic", "partition"), [("unknown", 0), ("t", 1), ("t", -1), ("t", 2**31 - 1)])
def test_an_unknown_topic_or_partition_is_refused(tmp_path, topic, partition):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            result = await client.produce(topic, partition=partition)
            assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(test)


def test_an_unknown_topic_id_is_refused_and_a_known_one_is_taken(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            topic_id = await client.create_topic("t")
            assert (await client.produce(None, version=13, topic_id=topic_id)).error_code == 0
            result = await client.produce(None, version=13, topic_id="f" * 32)
            assert result.error_code == ErrorCode.UNKNOWN_TOPIC_ID

    run(test)


@pytest.mark.parametrize(("version", "code"), [(3, 76), (6, 76), (7, 0), (13, 0)])
def test_zstd_needs_version_7(tmp_path, version, code):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            topic_id = await client.create_topic("t")
            result = await client.produce("t", build_batch(b"x", codec=ZSTD), version=version, topic_id=topic_id)
            assert result.error_code == code
            assert (await client.produce("t", build_batch(codec=GZIP), version=3)).error_code == 0

    run(test)


@pytest.mark.parametrize("acks", [2, -2, 127, -32768])
def test_other_acks_than_all_none_and_one_are_refused(tmp_path, acks):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            assert (await client.produce("t", acks=acks)).error_code == ErrorCode.INVALID_REQUIRED_ACKS
            assert broker.partition("t").end_offset == 0

    run(test)


def test_a_transactional_producer_is_refused_where_the_cluster_uses_no_transactions(tmp_path):
    async def test():
        async with broker_in(tmp_path, founded=LIVING) as broker:
            client = await broker.client()
            await client.create_topic("t")
            result = await client.produce("t", transactional_id="tx")
            assert result.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    run(test)


@pytest.mark.parametrize("timeout_ms", [0, -1, -(2**31)])
def test_no_time_at_all_times_out_instead_of_waiting_or_failing(tmp_path, timeout_ms):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            result = await client.produce("t", timeout_ms=timeout_ms)
            assert result.error_code in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)
            assert (await client.produce("t")).error_code == 0

    run(test)


@pytest.mark.parametrize("acks", [-1, 1])
def test_offsets_grow_by_records_and_each_partition_has_its_own(tmp_path, acks):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t", 2)
            for expected in (0, 3, 6):
                request = produce_request("t", build_batch(b"a", b"b", b"c"), build_batch(b"d"), acks=acks)
                response = await client.call(ApiKey.PRODUCE, PRODUCE, request)
                first, second = response.responses[0].partition_responses
                assert (first.error_code, first.base_offset, first.log_start_offset) == (0, expected, 0)
                assert (second.error_code, second.base_offset) == (0, expected // 3)

    run(test)


def test_one_refused_partition_does_not_keep_the_others_from_being_written(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t", 3)
            request = produce_request("t", build_batch(), build_batch(magic=0), build_batch())
            response = await client.call(ApiKey.PRODUCE, PRODUCE, request)
            codes = [result.error_code for result in response.responses[0].partition_responses]
            assert codes == [0, ErrorCode.INVALID_RECORD, 0]

    run(test)


def test_acks_0_has_no_response_and_is_written_all_the_same(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            for _ in range(3):
                client.send(ApiKey.PRODUCE, PRODUCE, produce_request("t", build_batch(), acks=0))
            # The next response on the line is that of the next request which has one.
            assert (await client.produce("t")).base_offset == 3

    run(test)


@pytest.mark.parametrize("topic", ["t", "unknown"])
def test_a_refused_batch_at_acks_0_ends_the_connection(tmp_path, topic):
    async def test():
        async with broker_in(tmp_path) as broker:
            client, other = await broker.client(), await broker.client()
            await other.create_topic("t")
            client.send(ApiKey.PRODUCE, PRODUCE, produce_request(topic, build_batch(magic=0), acks=0))
            assert await client.is_closed()
            assert (await other.produce("t")).base_offset == 0

    run(test)


def test_hostile_timestamps_and_counts_are_stored_and_do_no_harm(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t", message_timestamp_after_max_ms=str(2**63 - 1))
            extremes = [-(2**62), -1, 0, 2**63 - 1]
            batches = [build_batch(timestamps=[time], max_timestamp=other) for time in extremes for other in extremes]
            batches.append(build_batch(count=2**31 - 1))
            for batch in batches:
                result = await client.produce("t", batch)
                assert result.error_code == 0
            for timestamp in (*extremes, -3, 5):
                await client.list_offsets("t", timestamp)
            assert broker.partition("t").end_offset == len(batches) - 1 + 2**31 - 1
            response = await client.call(ApiKey.FETCH, 12, fetch_request("t", 0))
            assert response.responses[0].partitions[0].error_code == 0

    run(test)


def test_a_topic_deleted_under_a_producer_is_unknown_from_then_on(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            topic_id = await client.create_topic("t")
            sent = [client.send(ApiKey.PRODUCE, PRODUCE, produce_request("t", build_batch())) for _ in range(5)]
            deletion = asyncio.create_task(broker.cluster.delete_topic(topic_id))
            for correlation_id in sent:
                answered, response = await client.receive()
                code = response.responses[0].partition_responses[0].error_code
                assert answered == correlation_id
                assert code in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            await deletion
            await until(lambda: len(broker.node.partitions) == 0)
            assert (await client.produce("t")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(test)
