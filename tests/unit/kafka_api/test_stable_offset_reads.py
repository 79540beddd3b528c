"""Readers at read_committed by other ways than a plain Fetch: sessions, long polls, ListOffsets, a log start that moves.

Producers, coordinator and markers are real.
"""

import asyncio

import pytest
from test_fetch import joined
from wire_client import fetch_request

from kafka_api.handlers.registry import SERVED
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import (
    DeleteRecordsRequest,
    DescribeProducersRequest,
    ListOffsetsRequest,
)
from raftka.kafka.wire.record_batches import AbortedTransaction, read_layout
from tests.unit.cluster.cluster_nodes import until
from tests.unit.kafka_api.transactions.transaction_calls import Producer, found, with_transactions
from tests.unit.model.record_batches import build_batch

NONE = ErrorCode.NONE
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
FIRST_VERSION_WITH_MAX_TIMESTAMP = 7


async def another(producer, name):
    """Return a second producer, whose coordinator is the same broker."""
    return await (await found(Producer(producer.client, name=name))).init()


def rows(result):
    return [(each.producer_id, each.first_offset) for each in result.aborted_transactions]


def shown(result):
    """Return the offsets of the records that a client at read_committed shows of an answer."""
    layout = read_layout(joined(result), [AbortedTransaction(*row) for row in rows(result)])
    return [at for each in layout if not (each.is_control or each.is_aborted) for at in each.offsets()]


class Session:
    """A consumer at read_committed with an incremental session of partition 0 of "t"."""

    def __init__(self, client):
        self.client = client
        self.session = {"session_id": 0, "session_epoch": 0, "isolation_level": 1}

    async def begin(self, offset):
        response = await self.client.call(ApiKey.FETCH, 12, fetch_request("t", offset, **self.session))
        self.session |= {"session_id": response.session_id, "session_epoch": 1}
        return response.responses[0].partitions[0]

    async def go_on(self, offset=None, **fields):
        """Ask for what has changed; return the partition's result, None if it is not told."""
        request = fetch_request("t", offset or 0, **self.session, **fields)
        if offset is None:
            request.topics = []
        response = await self.client.call(ApiKey.FETCH, 12, request)
        assert response.error_code == 0
        self.session["session_epoch"] += 1
        return response.responses[0].partitions[0] if response.responses else None


@with_transactions()
async def test_a_session_tells_of_a_last_stable_offset_that_moves(broker, producer):
    await producer.init()
    second = await another(producer, "second")
    session = Session(await broker.client())
    assert await producer.send(b"a") is NONE
    assert await second.send(b"b") is NONE
    result = await session.begin(0)
    assert (result.high_watermark, result.last_stable_offset, joined(result)) == (2, 0, b"")
    assert await session.go_on() is None
    # Of the first producer: what is stable is its own record only.
    assert await producer.end() is NONE
    await producer.until_state("CompleteCommit")
    result = await session.go_on()
    assert (result.high_watermark, result.last_stable_offset, shown(result)) == (3, 1, [0])
    # It has read that; nothing else is stable.
    assert await session.go_on(1) is None
    assert await second.end(is_commit=False) is NONE
    await second.until_state("CompleteAbort")
    result = await session.go_on()
    assert (result.high_watermark, result.last_stable_offset) == (4, 4)
    assert (rows(result), shown(result)) == ([(second.producer_id, 1)], [])
    assert await session.go_on(4) is None


@with_transactions()
async def test_a_session_that_waits_is_woken_by_the_last_stable_offset_alone(broker, producer):
    await producer.init()
    second = await another(producer, "second")
    session = Session(await broker.client())
    for each in (producer, second):
        assert await each.send(b"v") is NONE
    await session.begin(0)
    waiting = asyncio.ensure_future(session.go_on(1, max_wait_ms=20_000))
    # The high watermark moves twice, and so does the stable offset, up to where the reader stands: nothing to read.
    assert (await producer.client.produce("t", build_batch(b"plain"))).error_code == 0
    assert await producer.end() is NONE
    await until(lambda: broker.partition("t").last_stable_offset == 1)
    # So many steps are enough for an answer that waits for nothing.
    for _ in range(50):
        await asyncio.sleep(0)
    assert not waiting.done()
    assert await second.end() is NONE
    result = await waiting
    assert (result.error_code, result.last_stable_offset, shown(result)) == (0, 5, [1, 2])


async def listed(client, timestamp, isolation, version):
    asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
    topics = [ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[asked])]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)
    result = (await client.call(ApiKey.LIST_OFFSETS, version, request)).topics[0].partitions[0]
    assert result.error_code == 0
    return result.offset


@with_transactions()
async def test_every_version_of_list_offsets_ends_at_the_last_stable_offset(broker, producer):
    """Version 1 knows no levels: it is asked at read_uncommitted."""
    await producer.init()
    now = broker.node.env.wall_clock.now_ms()
    assert (await producer.client.produce("t", build_batch(b"x", timestamps=[now - 10]))).error_code == 0
    assert await producer.send() is NONE
    served = SERVED[ApiKey.LIST_OFFSETS]

    async def told(timestamp, isolation):
        versions = range(served.first_version, served.last_version + 1)
        if timestamp == MAX_TIMESTAMP:
            versions = range(FIRST_VERSION_WITH_MAX_TIMESTAMP, served.last_version + 1)
        answers = [
            await listed(producer.client, timestamp, isolation, version)
            for version in versions
            if version > 1 or not isolation
        ]
        (offset,) = set(answers)
        return offset

    assert [await told(at, 0) for at in (LATEST, EARLIEST, now - 10)] == [2, 0, 0]
    assert [await told(at, 1) for at in (LATEST, EARLIEST, now - 10, MAX_TIMESTAMP)] == [1, 0, 0, 0]
    assert await producer.end() is NONE
    await producer.until_state("CompleteCommit")
    for isolation in (0, 1):
        assert [await told(at, isolation) for at in (LATEST, EARLIEST)] == [3, 0]


# -- a log start that moves ---------------------------------------------------------------------------------------


async def delete_up_to(client, offset):
    """Delete the records before an offset by a request; return the start of the log."""
    asked = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsRequest.DeleteRecordsTopic(name="t", partitions=[asked])
    request = DeleteRecordsRequest(topics=[topic], timeout_ms=5000)
    result = (await client.call(ApiKey.DELETE_RECORDS, 2, request)).topics[0].partitions[0]
    assert result.error_code == 0
    return result.low_watermark


async def open_in(client):
    """Return the offsets at which open transactions begin in partition 0, as DescribeProducers tells them."""
    topic = DescribeProducersRequest.TopicRequest(name="t", partition_indexes=[0])
    answer = await client.call(ApiKey.DESCRIBE_PRODUCERS, 0, DescribeProducersRequest(topics=[topic]))
    starts = [each.current_txn_start_offset for each in answer.topics[0].partitions[0].active_producers]
    return [each for each in starts if each >= 0]


@pytest.mark.parametrize("is_commit", [True, False])
@with_transactions()
async def test_records_are_deleted_in_the_middle_of_an_open_transaction(broker, producer, is_commit):
    await producer.init()
    for value in (b"a", b"b", b"c"):
        assert await producer.send(value) is NONE
    # Up to the high watermark, whatever is open: as in Kafka.
    assert await delete_up_to(producer.client, 2) == 2
    assert await open_in(producer.client) == [0]
    result = await producer.client.fetch("t", 2, isolation_level=1)
    # Nothing of the log is stable, and the stable offset is no offset that is gone.
    assert (result.error_code, result.high_watermark, result.last_stable_offset, joined(result)) == (0, 3, 2, b"")
    assert (await producer.client.fetch("t", 1, isolation_level=1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert [await listed(producer.client, at, 1, 9) for at in (EARLIEST, LATEST)] == [2, 2]
    assert await producer.send(b"d") is NONE
    assert await producer.end(is_commit) is NONE
    await producer.until_state("CompleteCommit" if is_commit else "CompleteAbort")
    result = await producer.client.fetch("t", 2, isolation_level=1)
    assert (result.last_stable_offset, shown(result)) == (5, [2, 3] if is_commit else [])
    assert rows(result) == ([] if is_commit else [(producer.producer_id, 0)])


@with_transactions()
async def test_all_records_of_an_open_transaction_are_deleted_and_it_ends(broker, producer):
    await producer.init()
    assert await producer.send(b"a", b"b") is NONE
    assert await delete_up_to(producer.client, -1) == 2
    assert await readable_from(producer.client, 2) == (2, 2)
    assert await open_in(producer.client) == [0]
    assert (await producer.client.produce("t", build_batch(b"plain"))).error_code == 0
    # It still holds readers up, at the start of the log.
    assert await readable_from(producer.client, 2) == (3, 2)
    assert await producer.end(is_commit=False) is NONE
    await producer.until_state("CompleteAbort")
    result = await producer.client.fetch("t", 2, isolation_level=1)
    assert (result.last_stable_offset, shown(result)) == (4, [2])
    assert await open_in(producer.client) == []


async def readable_from(client, offset):
    result = await client.fetch("t", offset, isolation_level=1)
    assert result.error_code == 0
    return result.high_watermark, result.last_stable_offset
