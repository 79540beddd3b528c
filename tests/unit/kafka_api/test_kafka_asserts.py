"""Each assert about fetch sessions, memory and pending answers can fail: a count that is wrong trips it."""

import asyncio
import random

import pytest
from wire_client import broker_in, fetch_request

from kafka_api.fetch_memory import FetchLease, FetchMemory
from kafka_api.fetch_sessions import AskedPartition, FetchSessionOptions, FetchSessions
from kafka_api.handlers.produce import _PendingAnswer
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.messages import ApiVersionsRequest, FetchRequest
from tests.unit.cluster.cluster_nodes import run
from tests.unit.model.record_batches import build_batch

_FETCH = 12


def _sessions(**options):
    return FetchSessions(FetchSessionOptions(**options), random.Random(7))


def _create(sessions):
    asked = [AskedPartition("t", "0" * 32, FetchRequest.FetchPartition(partition=0))]
    return sessions.create(asked, 0.0, by_id=False)


def test_bytes_of_sessions_that_are_gone_are_noticed_with_the_last_of_them():
    sessions = _sessions()
    session = _create(sessions)
    sessions._bytes += 1
    with pytest.raises(AssertionError):
        sessions.remove(session)


def test_bytes_given_back_twice_are_noticed():
    sessions = _sessions()
    sessions._sessions[1] = _create(sessions)
    sessions._bytes -= 1
    with pytest.raises(AssertionError):
        sessions.remove(next(iter(sessions._sessions.values())))


@pytest.mark.parametrize("bound", [{"sessions_max": 1}, {"bytes_max": 1000}], ids=["slots", "bytes"])
def test_a_session_without_room_is_noticed(monkeypatch, bound):
    sessions = _sessions(**bound)
    assert _create(sessions) is not None
    monkeypatch.setattr(FetchSessions, "_make_room", lambda sessions, newcomer, *, slots, more, now: True)
    with pytest.raises(AssertionError):
        _create(sessions)


def test_a_lease_takes_no_memory_while_it_holds_some():
    async def test():
        lease = FetchLease(FetchMemory(1024 * 1024, 1.0))
        await lease.reserve(1000)
        with pytest.raises(AssertionError):
            await lease.reserve(1000)

    asyncio.run(test())


def test_a_lease_that_keeps_memory_at_its_end_is_noticed(monkeypatch):
    async def test():
        lease = FetchLease(FetchMemory(1024 * 1024, 1.0))
        await lease.reserve(1000)
        monkeypatch.setattr(FetchLease, "drop", lambda lease: None)
        with pytest.raises(AssertionError):
            lease.end()

    asyncio.run(test())


def test_a_response_ends_with_its_last_partition_and_not_again(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.call(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())
            (connection,) = broker.server._connections
            answer = _PendingAnswer(connection._context, is_wanted=True)
            assert answer.finish() is answer.response
            with pytest.raises(AssertionError):
                answer._close_one()

    run(test)


def _last_error(caplog):
    return [record.exc_info[0] for record in caplog.records if record.exc_info][-1]


def test_records_that_nobody_counted_are_not_answered(tmp_path, monkeypatch, caplog):
    async def cover(lease, size):
        return True

    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            await client.produce("t", build_batch(b"x" * 1000))
            monkeypatch.setattr(FetchLease, "cover", cover)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await client.call(ApiKey.FETCH, _FETCH, fetch_request("t", 0, partition_max_bytes=1))
            assert _last_error(caplog) is AssertionError

    run(test)


@pytest.mark.parametrize(("queued", "small"), [(1, 0), (0, 1), (0, -1)])
def test_bytes_that_are_counted_without_a_frame_end_their_connection_only(tmp_path, caplog, queued, small):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.call(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())
            (connection,) = broker.server._connections
            connection._queued_bytes += queued
            connection._small_queued_bytes += small
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await client.call(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())
            assert _last_error(caplog) is AssertionError
            other = await broker.client()
            await other.call(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())

    run(test)
