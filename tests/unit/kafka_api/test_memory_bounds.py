"""What the clients of one broker can make it hold: requests under way, answers nobody takes, half-open connections."""

import asyncio
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_client import FETCH, PRODUCE, broker_in, fetch_request, produce_request

from kafka_api.client_progress import ClientProgress
from kafka_api.fetch_memory import FetchLease, FetchMemory
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.messages import ApiVersionsRequest, MetadataRequest
from kafka_api.request_memory import RequestMemory
from kafka_api.response_pieces import COPIED_BYTES_MAX, ResponsePieces, joined
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import run, until
from tests.unit.model.record_batches import build_batch

MIB = 1024 * 1024


async def still_answered(client):
    assert (await client.call(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())).error_code == 0


# -- requests -------------------------------------------------------------------------------------------------------


def test_a_huge_request_takes_all_there_is_and_keeps_only_huge_ones_waiting():
    memory = RequestMemory(32 * MIB)
    huge = memory.try_acquire(100 * MIB)
    assert huge is not None
    assert huge.units == 16 * MIB
    assert memory.try_acquire(3 * MIB) is None
    ordinary = [memory.try_acquire(2 * MIB) for _ in range(9)]
    assert [lease is not None for lease in ordinary] == [True] * 8 + [False]
    huge.release()
    assert memory.try_acquire(3 * MIB) is not None


def test_a_large_request_waits_for_memory_and_small_ones_do_not(tmp_path):
    async def test():
        async with broker_in(tmp_path, request_memory_bytes=2 * MIB) as broker:
            hog, waiting, small = [await broker.client() for _ in range(3)]
            await small.create_topic("t")
            requests = broker.server._requests
            hog.write(struct.pack(">i", 50 * MIB) + b"x" * 1000)
            await until(lambda: requests.taken == MIB)
            # As large as the hog's for this budget: it waits, and nothing more of it is read.
            waiting.send(ApiKey.PRODUCE, PRODUCE, produce_request("t", build_batch(b"x" * 300_000)))
            connections = list(broker.server._connections)
            await until(lambda: connections[1]._is_waiting_for_memory)
            assert connections[1]._received_bytes < 300_000
            await still_answered(small)
            assert (await small.produce("t", build_batch(b"y" * 100_000))).error_code == 0
            await hog.close()
            _, response = await waiting.receive()
            assert response.responses[0].partition_responses[0].error_code == 0
            await until(lambda: requests.taken == 0)

    run(test)


def test_what_a_connection_has_taken_comes_back_when_it_ends(tmp_path):
    async def test():
        async with broker_in(tmp_path, request_memory_bytes=2 * MIB) as broker:
            for _ in range(3):
                clients = [await broker.client() for _ in range(4)]
                for client in clients:
                    client.write(struct.pack(">i", 1 * MIB) + b"x" * 1000)
                await until(lambda: broker.server._requests.taken == MIB)
                for client in clients:
                    await client.close()
                await until(lambda: broker.server._requests.taken == 0)
                await until(lambda: not broker.server._connections)

    run(test)


def test_pipelined_requests_are_not_read_far_ahead(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            (connection,) = broker.server._connections
            client.send(ApiKey.FETCH, FETCH, fetch_request("t", 0, max_wait_ms=25_000))
            await until(lambda: consensus_of(broker.partition("t")).monitor._watchers)
            for _ in range(20):
                client.send(ApiKey.PRODUCE, PRODUCE, produce_request("t", build_batch(b"x" * 900_000)))
            await until(lambda: not connection._is_reading)
            assert connection._queued_bytes < 6 * MIB
            other = await broker.client()
            await other.produce("t")  # Ends the long poll.
            for _ in range(21):
                await client.receive()
            assert (connection._queued_bytes, connection._small_queued_bytes) == (0, 0)
            await until(lambda: broker.server._requests.taken == 0)

    run(test)


def test_a_huge_request_that_is_no_produce_ends_its_connection(tmp_path):
    async def test():
        async with broker_in(tmp_path, other_request_bytes_max=100_000) as broker:
            client, other = await broker.client(), await broker.client()
            topics = [MetadataRequest.MetadataRequestTopic(name="x" * 100) for _ in range(1_200)]
            client.send(ApiKey.METADATA, 9, MetadataRequest(topics=topics))
            assert await client.is_closed()
            await still_answered(other)

    run(test)


@pytest.mark.parametrize("data", [b"\0\0", struct.pack(">i", 100) + b"abc", struct.pack(">i", 200_000) + b"abc"])
def test_a_request_that_makes_no_progress_ends_its_connection(tmp_path, data):
    async def test():
        async with broker_in(tmp_path, stalled_request_timeout=0.2) as broker:
            client, idle = await broker.client(), await broker.client()
            client.write(data)
            assert await client.is_closed()
            await still_answered(idle)
            await until(lambda: broker.server._requests.taken == 0)

    run(test)


def test_a_connection_without_requests_ends_and_one_that_waits_for_an_answer_does_not(tmp_path):
    async def test():
        async with broker_in(tmp_path, idle_timeout=0.3) as broker:
            client = await broker.client()
            await client.create_topic("t")
            idle = await broker.client()
            client.send(ApiKey.FETCH, FETCH, fetch_request("t", 0, max_wait_ms=1_000))
            assert await idle.is_closed()
            assert (await client.receive())[1].error_code == 0

    run(test)


def verdict(progress, now, received, *, frames=0, incomplete=0, is_busy=False, is_its_turn=True, is_waited_for=False):
    return progress.verdict(
        now,
        received_bytes=received,
        frames=frames,
        incomplete_bytes=incomplete,
        is_busy=is_busy,
        is_its_turn=is_its_turn,
        is_waited_for=is_waited_for,
    )


def test_a_trickle_is_no_progress():
    progress = ClientProgress(0.0, 30.0, 600.0)
    assert verdict(progress, 0.0, 100, incomplete=160_000) is None
    assert verdict(progress, 29.0, 9_999, incomplete=160_000) is None
    assert "no progress" in verdict(progress, 30.0, 9_999, incomplete=160_000)


def test_a_trickle_that_others_wait_for_is_ended_sooner():
    progress = ClientProgress(0.0, 30.0, 600.0)
    assert verdict(progress, 0.0, 100, incomplete=160_000, is_waited_for=True) is None
    assert "others wait" in verdict(progress, 5.0, 9_999, incomplete=160_000, is_waited_for=True)


def test_who_sends_on_while_others_wait_may_end_what_it_began():
    progress = ClientProgress(0.0, 30.0, 600.0)
    for look in range(12):
        # Slow, and no less than a sixteenth in half a minute.
        received = look * 5 * 16 * 1024
        assert verdict(progress, look * 5.0, received, incomplete=1_000_000, is_waited_for=True) is None


def test_who_was_held_back_or_not_waited_for_until_now_gets_its_time():
    progress = ClientProgress(0.0, 30.0, 600.0)
    assert verdict(progress, 0.0, 100, incomplete=160_000, is_waited_for=True, is_its_turn=False) is None
    assert verdict(progress, 5.0, 100, incomplete=160_000, is_waited_for=True) is None
    assert verdict(progress, 10.0, 100, incomplete=160_000) is None
    assert verdict(progress, 15.0, 100, incomplete=160_000, is_waited_for=True) is None
    assert verdict(progress, 20.0, 100, frames=1, incomplete=160_000, is_waited_for=True) is None
    assert verdict(progress, 25.0, 100, frames=1, incomplete=160_000, is_waited_for=True) is None
    assert "others wait" in verdict(progress, 30.0, 100, frames=1, incomplete=160_000, is_waited_for=True)


def test_who_waits_for_memory_does_not_wait_until_a_trickle_ends(tmp_path):
    async def test():
        async with broker_in(tmp_path, request_memory_bytes=2_000_000, stalled_request_timeout=3.0) as broker:
            honest = await broker.client()
            await honest.create_topic("t")
            trickling = [await broker.client() for _ in range(10)]

            async def trickle():
                # Fast enough for a request that nobody waits for; all of it would take minutes.
                for client in trickling:
                    client.write(struct.pack(">i", 120_000))
                while True:
                    for client in trickling:
                        client.write(b"x" * 800)
                    await asyncio.sleep(0.2)

            trickles = asyncio.create_task(trickle())
            await until(lambda: broker.server._requests.taken > 900_000)
            assert (await honest.produce("t", build_batch(b"x" * 100_000))).error_code == 0
            trickles.cancel()

    run(test, seconds=20)


def test_a_sixteenth_in_each_time_is_progress():
    progress = ClientProgress(0.0, 30.0, 600.0)
    for number in range(16):
        assert verdict(progress, 29.0 * number, 10_000 * number, incomplete=160_000) is None


def test_a_client_that_is_held_back_is_not_blamed():
    progress = ClientProgress(0.0, 30.0, 600.0)
    assert verdict(progress, 100.0, 7, incomplete=500, is_its_turn=False, is_busy=True) is None
    assert verdict(progress, 129.0, 7, incomplete=500) is None
    assert verdict(progress, 130.0, 7, incomplete=500) is not None


def test_a_client_that_sends_small_requests_is_seen_between_them():
    progress = ClientProgress(0.0, 30.0, 600.0)
    for number in range(100):
        # Each time by chance in the middle of another request.
        assert verdict(progress, 20.0 * number, 10 * number, frames=number, incomplete=9_000) is None


# -- fetch responses --------------------------------------------------------------------------------------------------


def test_the_share_of_one_response_is_a_sixteenth_of_what_is_free():
    async def test():
        memory = FetchMemory(64 * MIB, 1.0)
        leases = [FetchLease(memory) for _ in range(100)]
        granted = [await lease.reserve(100 * MIB) for lease in leases[:60]]
        assert granted[0] == 4 * MIB
        assert granted == sorted(granted, reverse=True)
        assert granted[-1] >= 64 * 1024, "sixty readers that take nothing leave something to the next"
        assert memory.taken <= 64 * MIB
        for lease in leases:
            lease.end()
        assert memory.taken == 0

    asyncio.run(test())


def test_where_nothing_is_free_a_fetch_waits_only_so_long():
    async def test():
        memory = FetchMemory(64 * 1024, 0.05)
        first, second = FetchLease(memory), FetchLease(memory)
        assert await first.reserve(MIB) == 64 * 1024
        assert await second.reserve(MIB) == 0
        first.end()
        assert await second.reserve(MIB) == 64 * 1024

    asyncio.run(test())


def test_a_batch_larger_than_what_was_granted_is_counted_before_it_is_kept():
    async def test():
        memory = FetchMemory(MIB, 0.05)
        first, second = FetchLease(memory), FetchLease(memory)
        assert await first.reserve(500_000) == 65_536
        assert await first.cover(300_000)
        assert memory.taken == 300_000
        assert await second.reserve(500_000) == 65_536
        assert not await second.cover(900_000)
        assert second.granted == 0, "nothing is held while it waits, nor after it gave up"
        first.end()
        assert await second.reserve(500_000) == 65_536
        assert await second.cover(5 * MIB) is False, "to be read once more: it had to wait"
        assert await second.cover(5 * MIB), "larger than everything: it takes what there is"
        assert memory.taken == MIB
        second.shrink(100)
        assert memory.taken == 100

    asyncio.run(test())


def test_readers_that_take_nothing_hold_a_bounded_memory_and_the_next_one_is_served(tmp_path):
    async def test():
        async with broker_in(tmp_path, fetch_memory_bytes=4 * MIB, slow_client_timeout=20.0) as broker:
            client = await broker.client()
            await client.create_topic("t")
            for _ in range(20):
                await client.produce("t", build_batch(b"x" * 100_000))
            stuck = [await broker.client() for _ in range(12)]
            for each in stuck:
                # Its own buffers take some: only what no kernel takes counts.
                each._reader._transport.pause_reading()
                for _ in range(100):
                    each.send(ApiKey.FETCH, FETCH, fetch_request("t", 0, partition_max_bytes=10_000_000))
            await until(lambda: broker.server._fetches.taken > MIB)
            for _ in range(20):
                assert broker.server._fetches.taken <= 4 * MIB
                assert len((await client.fetch("t", 0, partition_max_bytes=10_000_000)).records) > 0
            for each in stuck:
                await each.close()
            await until(lambda: broker.server._fetches.taken == 0)

    run(test)


def test_a_long_poll_holds_no_memory(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client, producer = await broker.client(), await broker.client()
            await producer.create_topic("t")
            await producer.produce("t", build_batch(b"x" * 1000))
            client.send(ApiKey.FETCH, FETCH, fetch_request("t", 0, max_wait_ms=25_000, min_bytes=1_500))
            await until(lambda: consensus_of(broker.partition("t")).monitor._watchers)
            await until(lambda: broker.server._fetches.taken == 0)
            await producer.produce("t", build_batch(b"x" * 1000))
            assert len((await client.receive())[1].responses[0].partitions[0].records) > 2_000
            await until(lambda: broker.server._fetches.taken == 0)

    run(test)


@given(st.lists(st.integers(0, 40_000).map(lambda size: bytes([size % 251]) * size), max_size=40))
def test_pieces_are_the_response(buffers):
    pieces = ResponsePieces(buffers)
    taken = []
    while pieces:
        taken.append(bytes(pieces.take()))
    assert b"".join(taken) == b"".join(buffers)
    assert all(0 < len(piece) <= COPIED_BYTES_MAX for piece in taken)


@given(st.lists(st.integers(0, 40_000).map(lambda size: bytes([size % 251]) * size), max_size=40), st.data())
def test_a_kernel_that_takes_any_part_gets_the_response_once_and_in_order(buffers, data):
    taken = bytearray()

    def writev(descriptor, pieces):
        assert 0 < len(pieces) <= 1024
        count = data.draw(st.integers(-1, sum(map(len, pieces))))
        if count < 0:
            raise BlockingIOError
        taken.extend(b"".join(pieces)[:count])
        return count

    pieces = ResponsePieces(buffers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.writev", writev)
        while pieces:
            pieces.write_to(0)
            if pieces:
                taken += pieces.take()
    assert taken == b"".join(buffers)


def test_small_buffers_are_joined_and_large_ones_are_not_copied():
    large = b"x" * MIB
    pieces = list(joined([b"head", large, *[b"y" * 100] * 10_000, b"tail"]))
    assert pieces[1] is large
    assert len(pieces) == 1 + 1 + 4
    assert max(len(piece) for piece in pieces if piece is not large) <= 256 * 1024 + 16 * 1024


def test_an_idle_connection_takes_little_memory(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            await still_answered(await broker.client())
            tracemalloc.start()
            try:
                before = len(broker.server._connections)
                begin, _ = tracemalloc.get_traced_memory()
                readers = [await broker.client() for _ in range(50)]
                for each in readers:
                    each.write(b"\0\0")
                await until(lambda: len(broker.server._connections) == before + 50)
                end, _ = tracemalloc.get_traced_memory()
                # With the client's side, which lives in this process as well.
                assert (end - begin) / 50 < 40_000
            finally:
                tracemalloc.stop()

    run(test)
