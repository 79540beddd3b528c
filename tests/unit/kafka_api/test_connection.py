"""One connection: the order of answers, what is bounded, and what ends it without touching the others."""

import asyncio
import logging
import struct

import pytest
from wire_client import FETCH, PRODUCE, broker_in, fetch_request, produce_request, stuck_disk

from kafka_api.closed_log import ClosedLog
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.codec import RequestHeader
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import ApiVersionsRequest, MetadataRequest, MetadataResponse
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import run, until
from tests.unit.model.record_batches import build_batch


async def still_answered(client):
    assert (await client.call(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())).error_code == 0


def test_nobody_is_answered_before_the_broker_has_joined_its_cluster(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            broker.node.is_registered.clear()
            early = await broker.client()
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await still_answered(early)
            broker.node.is_registered.set()
            await still_answered(await broker.client())

    run(test)


def test_twenty_requests_sent_at_once_are_answered_in_their_order(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            sent = []
            for number in range(20):
                match number % 4:
                    case 0:
                        sent.append(client.send(ApiKey.PRODUCE, PRODUCE, produce_request("t", build_batch())))
                    case 1:
                        sent.append(client.send(ApiKey.METADATA, 9, MetadataRequest(topics=None)))
                    case 2:
                        sent.append(client.send(ApiKey.FETCH, FETCH, fetch_request("t", 0)))
                    case _:
                        request = produce_request("t", build_batch(magic=0), acks=1)
                        sent.append(client.send(ApiKey.PRODUCE, PRODUCE, request))
            assert [(await client.receive())[0] for _ in sent] == sent
            assert broker.partition("t").high_watermark == 5

    run(test)


def test_requests_that_arrive_byte_by_byte_are_answered(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            frame = struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, 0, 5, -1)
            for byte in frame * 2:
                client.write(bytes([byte]))
                await asyncio.sleep(0)
            for _ in range(2):
                assert (await client.receive_frame())[:4] == struct.pack(">i", 5)

    run(test)


def test_a_produce_that_waits_for_its_level_does_not_keep_the_next_one_from_the_log(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client, other = await broker.client(), await broker.client()
            await client.create_topic("t")
            async with stuck_disk(broker) as release:
                slow = client.send(ApiKey.PRODUCE, PRODUCE, produce_request("t", build_batch(b"slow")))
                fast = client.send(ApiKey.PRODUCE, PRODUCE, produce_request("t", build_batch(b"fast"), acks=1))
                answer = asyncio.create_task(client.receive())
                await until(lambda: broker.partition("t").end_offset == 2)
                await still_answered(other)
                # The second has reached its level, but answers keep the order of their requests.
                assert not answer.done()
                release.set()
                first, response = await answer
                assert first == slow
                assert response.responses[0].partition_responses[0].base_offset == 0
                second, response = await client.receive()
                assert second == fast
                assert response.responses[0].partition_responses[0].base_offset == 1

    run(test)


def test_a_produce_whose_level_is_not_reached_in_time_says_so(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            async with stuck_disk(broker):
                result = await client.produce("t", timeout_ms=100)
                assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
            assert (await client.produce("t")).base_offset == 1, "its outcome was open: it is in the log"

    run(test)


def test_no_more_than_the_bound_of_requests_wait_for_an_answer(tmp_path):
    async def test():
        async with broker_in(tmp_path, requests_in_flight=4) as broker:
            client = await broker.client()
            await client.create_topic("t")
            async with stuck_disk(broker) as release:
                # Large enough that not all of them fit into one read of the socket.
                batch = build_batch(b"x" * 30_000)
                sent = [client.send(ApiKey.PRODUCE, PRODUCE, produce_request("t", batch)) for _ in range(50)]
                await until(lambda: broker.partition("t").end_offset >= 4)
                for _ in range(50):
                    await asyncio.sleep(0.002)
                assert broker.partition("t").end_offset <= 5
                (connection,) = broker.server._connections
                assert len(connection._frames) <= 8
                release.set()
                assert [(await client.receive())[0] for _ in sent] == sent

    run(test)


FRAMES = {
    "a negative length": struct.pack(">i", -1),
    "a length beyond the maximum": struct.pack(">i", 2_000_001),
    "an empty frame": struct.pack(">i", 0),
    "half a header": struct.pack(">ihh", 4, 3, 0),
    "a client id past the end": struct.pack(">ihhih", 10, 3, 0, 1, 500),
    "a client id that is no text": struct.pack(">ihhih", 12, 3, 0, 1, 2) + b"\xff\xfe",
    "a body cut off": struct.pack(">ihhihi", 14, 3, 1, 1, -1, 5),
    "an array of two thousand million": struct.pack(">ihhihi", 14, 3, 1, 1, -1, 2**31 - 1),
    "more partitions than a request may list": struct.pack(
        ">ihhihhhiih1si", 29 + 8 * 100_000, 0, 3, 1, -1, -1, -1, 1, 1, 1, b"t", 100_000
    )
    + bytes(8 * 100_000),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "a TLS hello": bytes.fromhex("160301020001000001fc0303") + b"\0" * 40,
}


@pytest.mark.parametrize("data", FRAMES.values(), ids=FRAMES.keys())
def test_bytes_that_are_no_request_end_their_connection_and_no_other(tmp_path, data):
    async def test():
        async with broker_in(tmp_path, request_bytes_max=2_000_000) as broker:
            client, other = await broker.client(), await broker.client()
            client.write(data)
            assert await client.is_closed()
            await still_answered(other)
            await until(lambda: len(broker.server._connections) == 1)

    run(test)


def test_a_request_that_lists_too_much_is_told_in_the_log(tmp_path, caplog):
    caplog.set_level(logging.INFO, "kafka")

    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            client.write(FRAMES["more partitions than a request may list"])
            assert await client.is_closed()

    run(test)
    assert "connection closed: a request with more than 20000 topics, partitions" in caplog.text


def test_a_response_that_its_version_cannot_say_ends_the_connection_and_not_the_broker(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await still_answered(client)
            (connection,) = broker.server._connections
            # What a bug in a handler would do: null where version 1 of Metadata must have a name.
            answer = asyncio.get_running_loop().create_future()
            answer.set_result(MetadataResponse(topics=[MetadataResponse.MetadataResponseTopic(name=None)]))
            connection._queue_answer(
                RequestHeader(ApiKey.METADATA, 1, 1, None, 0), answer, connection._figures.of(ApiKey.METADATA, 1), 0.0
            )
            assert await client.is_closed()
            await still_answered(await broker.client())

    run(test)


def test_nothing_is_written_to_a_transport_that_failed_a_moment_ago(tmp_path, caplog):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await still_answered(client)
            (connection,) = broker.server._connections
            for number in range(20):
                answer = asyncio.get_running_loop().create_future()
                answer.set_result(MetadataResponse(topics=[]))
                connection._queue_answer(
                    RequestHeader(ApiKey.METADATA, 1, number, None, 0),
                    answer,
                    connection._figures.of(ApiKey.METADATA, 1),
                    0.0,
                )
            connection._transport.abort()  # As asyncio does where a send fails; `connection_lost` comes later.
            await until(lambda: not broker.server._connections)

    run(test)
    assert "socket.send()" not in caplog.text


def test_a_client_that_takes_no_response_is_disconnected(tmp_path):
    async def test():
        async with broker_in(tmp_path, slow_client_timeout=0.2) as broker:
            client, other = await broker.client(), await broker.client()
            await other.create_topic("t")
            for _ in range(10):
                await other.produce("t", build_batch(b"x" * 900_000))
            # 60 responses of some 9 MB, and nobody reads: the stream reader of the client stops at 128 kB.
            for _ in range(60):
                client.send(ApiKey.FETCH, FETCH, fetch_request("t", 0, partition_max_bytes=10_000_000))
            await until(lambda: len(broker.server._connections) == 1)
            await still_answered(other)

    run(test)


def test_strangers_make_room_for_whoever_comes_and_clients_never_do(tmp_path):
    async def test():
        async with broker_in(tmp_path, connections_max=3) as broker:
            served = await broker.client()
            await still_answered(served)
            strangers = [await broker.client() for _ in range(2)]
            for _ in range(20):
                newest = await broker.client()
                strangers.append(newest)
                assert await strangers.pop(0).is_closed(), "the oldest of those that asked nothing"
                await still_answered(served)
            await still_answered(newest)
            assert len(broker.server._connections) == 3

    run(test)


def test_a_client_is_served_while_strangers_hold_all_places(tmp_path):
    async def test():
        async with broker_in(tmp_path, connections_max=50) as broker:
            strangers = [await broker.client() for _ in range(60)]
            for stranger in strangers[::2]:
                stranger.write(b"\0\0")
            for _ in range(5):
                async with asyncio.timeout(2):
                    await still_answered(await broker.client())
            assert len(broker.server._connections) <= 50

    run(test)


def test_where_all_have_asked_something_a_new_connection_is_closed_at_once(tmp_path):
    async def test():
        async with broker_in(tmp_path, connections_max=2) as broker:
            one, two = [await broker.client() for _ in range(2)]
            await still_answered(one)
            await still_answered(two)
            assert await (await broker.client()).is_closed()
            await still_answered(one)
            await still_answered(two)
            await one.close()
            await until(lambda: len(broker.server._connections) == 1)
            await still_answered(await broker.client())

    run(test)


def test_a_producer_without_answers_is_a_client_as_soon_as_its_batch_is_taken(tmp_path):
    async def test():
        async with broker_in(tmp_path, connections_max=2) as broker:
            client, silent = await broker.client(), await broker.client()
            await client.create_topic("t")
            silent.send(ApiKey.PRODUCE, PRODUCE, produce_request("t", build_batch(), acks=0))
            await until(lambda: broker.partition("t").end_offset == 1)
            assert await (await broker.client()).is_closed()
            await still_answered(silent)

    run(test)


def test_a_request_that_has_begun_makes_no_client_of_a_stranger(tmp_path):
    async def test():
        async with broker_in(tmp_path, connections_max=2) as broker:
            half = await broker.client()
            half.write(struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, 0, 5, -1)[:-1])
            await until(lambda: any(each._received_bytes for each in broker.server._connections))
            for _ in range(2):
                await still_answered(await broker.client())
            assert await half.is_closed()

    run(test)


def test_two_hundred_stalled_connections_are_said_in_a_few_lines(tmp_path, caplog):
    caplog.set_level(logging.INFO, "kafka")

    async def test():
        async with broker_in(tmp_path, stalled_request_timeout=0.3) as broker:
            clients = [await broker.client() for _ in range(200)]
            for client in clients:
                client.write(b"\0\0")
            for client in clients:
                assert await client.is_closed()

    run(test)
    said = [line for line in caplog.messages if "makes no progress" in line]
    assert len(said) == 20


def test_what_was_not_said_of_closed_connections_is_counted(caplog):
    caplog.set_level(logging.INFO, "kafka")
    log = ClosedLog()
    for number in range(500):
        log.closed(10.0 + number / 100, f"h:{number}", "idle")
    log.look(69.9)
    assert len(caplog.messages) == 20
    log.look(70.0)
    assert caplog.messages[20:] == ["480 more connections closed in a minute, the last one h:499: idle"]
    log.look(500.0)
    log.closed(600.0, "h:7", "idle")
    assert caplog.messages[21:] == ["h:7: connection closed: idle"]


def test_the_end_of_the_listener_ends_its_connections_in_the_middle_of_requests(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            waiting, idle = await broker.client(), await broker.client()
            await idle.create_topic("t")
            waiting.send(ApiKey.FETCH, FETCH, fetch_request("t", 0, max_wait_ms=25_000))
            await until(lambda: consensus_of(broker.partition("t")).monitor._watchers)
            await broker.server.stop()
            assert await waiting.is_closed()
            assert await idle.is_closed()
            assert len(broker.server._connections) == 0
            with pytest.raises(ConnectionError):
                await broker.client()

    run(test)
