"""Fetch responses that leave straight from segment files, and the clients that do not take them."""

import errno
import os
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from wire_client import FETCH, broker_in, fetch_request

import runtime.files
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.read_positions import PARTITIONS_MAX, ReadPositions
from model.ids import GroupId, Offset
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import FAST, run, until
from tests.unit.model.record_batches import build_batch

_FROM_FILES = replace(FAST, tail_cache_bytes=1, range_bytes_min=100)


def joined(result):
    return b"".join(map(bytes, result.records if isinstance(result.records, list) else [result.records]))


@asynccontextmanager
async def broker_with_batches(directory, count=10, size=100_000, **options):
    """Topic "t" with batches of one record; yields the broker, a client, and the batches as they are stored."""
    async with broker_in(directory, raft=_FROM_FILES, **options) as broker:
        client = await broker.client()
        await client.create_topic("t")
        for number in range(count):
            assert (await client.produce("t", build_batch(bytes([number]) * size))).base_offset == number
        stored = [build_batch(bytes([number]) * size, base_offset=number, leader_epoch=1) for number in range(count)]
        yield broker, client, stored


@pytest.fixture(autouse=True, params=["by the loop", "by a worker"])
def sender(request, monkeypatch):
    """Where the kernel does not say that bytes are in its page cache, a worker sends them."""
    if request.param == "by a worker":
        monkeypatch.setattr(runtime.files, "is_cached", lambda *_: False)


def flip_bit(directory, batch):
    """Flip a bit in the records of a stored batch, in the file of the only partition."""
    (path,) = directory.glob("**/groups/*-0/*.log")
    content = path.read_bytes()
    at = content.index(batch) + 5_000
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes([content[at] ^ 1]))


async def fetch_on(client, offset, **fields):
    """Fetch as a consumer that was just answered the batch before."""
    assert joined(await client.fetch("t", offset - 1, partition_max_bytes=1))
    return await client.fetch("t", offset, **fields)


def sent_bytes(broker):
    return broker.node.groups.caches.verified.sent.total


def test_the_second_reader_gets_the_same_bytes_straight_from_the_file(tmp_path):
    async def test():
        async with broker_with_batches(tmp_path) as (broker, client, stored):
            first = await fetch_on(client, 1)
            assert sent_bytes(broker) == 0
            second = await fetch_on(client, 1)
            assert joined(first) == joined(second) == b"".join(stored[1:])
            assert sent_bytes(broker) == len(joined(second))
            assert (second.high_watermark, second.log_start_offset) == (10, 0)
            ((_, traffic),) = broker.server.traffic.all()
            assert (traffic.bytes_out, traffic.records_out) == (2 * 10 * len(stored[0]), 2 * 10)
            # No more than was asked for.
            third = await fetch_on(client, 3, partition_max_bytes=250_000)
            assert joined(third) == b"".join(stored[3:5])
            # With the batch before it, on the way to which the client read forward.
            assert sent_bytes(broker) == len(joined(second)) + len(stored[2]) + len(joined(third))

    run(test)


def test_a_response_goes_through_memory_while_the_process_has_no_descriptor_for_it(tmp_path, monkeypatch):
    def refuse(_):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def test():
        async with broker_with_batches(tmp_path, count=3, size=20_000) as (broker, client, stored):
            await fetch_on(client, 1)
            with monkeypatch.context() as patch:
                patch.setattr(os, "dup", refuse)
                assert joined(await fetch_on(client, 1)) == b"".join(stored[1:])
            assert sent_bytes(broker) == 0
            # The connection goes on, and has its copy as soon as there is a descriptor.
            assert joined(await fetch_on(client, 1)) == b"".join(stored[1:])
            assert sent_bytes(broker) == len(b"".join(stored[1:]))

    run(test)


def test_a_reader_that_asks_again_goes_back_or_has_just_come_gets_what_is_checked_now(tmp_path):
    async def test():
        async with broker_with_batches(tmp_path) as (broker, client, stored):
            await client.fetch("t", 0)
            sent = 0

            async def is_checked(reader, offset):
                nonlocal sent
                assert joined(await reader.fetch("t", offset, partition_max_bytes=250_000)) == b"".join(
                    stored[offset : offset + 2]
                )
                before, sent = sent, sent_bytes(broker)
                return sent == before

            assert await is_checked(client, 0)
            assert not await is_checked(client, 2)
            for offset in (2, 1, 0):
                assert await is_checked(client, offset)
            # Within what it was answered: a client that takes a few records at a time reads forward, too.
            assert not await is_checked(client, 1)
            stranger = await broker.client()
            assert await is_checked(stranger, 5)
            assert not await is_checked(stranger, 7)

    run(test)


def test_of_more_partitions_than_are_remembered_the_one_that_was_read_longest_ago_is_forgotten():
    positions = ReadPositions()
    for number in range(PARTITIONS_MAX):
        positions.note(GroupId(f"t-{number}"), Offset(5))
    positions.note(GroupId("t-0"), Offset(7))
    positions.note(GroupId("another-0"), Offset(1))
    assert positions.reads_forward(GroupId("t-0"), Offset(8))
    assert not positions.reads_forward(GroupId("t-0"), Offset(7))
    assert not positions.reads_forward(GroupId("t-1"), Offset(7))
    assert positions.reads_forward(GroupId("t-2"), Offset(6))
    assert positions.reads_forward(GroupId("another-0"), Offset(2))


def test_what_is_not_committed_never_leaves_from_a_file(tmp_path):
    async def test():
        async with broker_with_batches(tmp_path, count=4) as (broker, client, stored):
            state = consensus_of(broker.partition("t")).state
            assert joined(await client.fetch("t", 0)) == b"".join(stored)
            assert joined(await fetch_on(client, 1)) == b"".join(stored[1:])
            sent = sent_bytes(broker)
            assert sent == len(b"".join(stored[1:]))
            committed = state.commit_index
            state.commit_index = committed - 2
            try:
                assert joined(await fetch_on(client, 2)) == b"".join(stored[2:])
                assert sent_bytes(broker) == sent
                assert joined(await fetch_on(client, 1)) == stored[1]
                assert sent_bytes(broker) == sent + len(stored[1])
            finally:
                state.commit_index = committed

    run(test)


def test_responses_of_files_and_of_memory_come_in_their_order(tmp_path):
    async def test():
        async with broker_with_batches(tmp_path) as (_, client, stored):
            await client.fetch("t", 0)
            wanted = []
            for offset in (9, 9, 0, 2, 4, 6, 8, 5, 3, 5, 7):
                request = fetch_request("t", offset, partition_max_bytes=300_000)
                wanted.append((client.send(ApiKey.FETCH, FETCH, request), offset))
            for correlation_id, offset in wanted:
                answered, response = await client.receive()
                assert answered == correlation_id
                result = response.responses[0].partitions[0]
                assert joined(result) == b"".join(stored[offset : offset + 2])

    run(test)


def test_a_client_that_stops_reading_in_the_middle_is_disconnected_and_holds_nothing(tmp_path):
    async def test():
        async with broker_with_batches(tmp_path, slow_client_timeout=0.3) as (broker, client, stored):
            await client.fetch("t", 0, partition_max_bytes=10_000_000)
            slow = await broker.client()
            for _ in range(60):
                slow.send(ApiKey.FETCH, FETCH, fetch_request("t", 0, partition_max_bytes=1))
                slow.send(ApiKey.FETCH, FETCH, fetch_request("t", 1, partition_max_bytes=10_000_000))
            await until(lambda: sent_bytes(broker) and len(broker.server._connections) == 2)
            # What it waits for is in no memory but for one piece, and the first batch, which was read.
            assert broker.server._fetches.taken < len(stored[0]) + 65_536
            await until(lambda: len(broker.server._connections) == 1)
            assert broker.server._fetches.taken == 0
            assert joined(await client.fetch("t", 9))

    run(test)


def test_what_is_sent_on_a_connection_that_is_closed_meanwhile_reaches_no_other_one(tmp_path):
    async def test():
        async with broker_with_batches(tmp_path) as (broker, client, stored):
            await client.fetch("t", 0)
            for _ in range(20):
                gone = await broker.client()
                gone.send(ApiKey.FETCH, FETCH, fetch_request("t", 0, partition_max_bytes=1))
                gone.send(ApiKey.FETCH, FETCH, fetch_request("t", 1))
                await until(lambda: len(broker.server._connections) == 2)
                await gone.close()
                others = [await broker.client() for _ in range(5)]
                for other in others:
                    assert joined(await other.fetch("t", 9)) == stored[9]
                    await other.close()
                await until(lambda: len(broker.server._connections) == 1)

    run(test)


@pytest.mark.parametrize("asks_again", ["where it failed", "where it was", "on another connection"])
def test_damage_after_the_check_reaches_the_client_once_and_is_found_when_it_asks_again(tmp_path, asks_again):
    async def test():
        async with broker_with_batches(tmp_path, count=4) as (broker, client, stored):
            await client.fetch("t", 0)
            flip_bit(tmp_path, stored[2])
            result = joined(await fetch_on(client, 1))
            assert sent_bytes(broker) == len(result)
            assert sum(left != right for left, right in zip(result, b"".join(stored[1:]), strict=True)) == 1
            if asks_again == "on another connection":
                client = await broker.client()
            elif asks_again == "where it failed":
                # Once it is believed to read forward.
                assert joined(await client.fetch("t", 2)) == result[len(stored[1]) :]
                result += result[len(stored[1]) :]
            again = await client.fetch("t", 1 if asks_again == "where it was" else 2)
            told = (joined(again), again.error_code)
            assert told == ((stored[1], 0) if asks_again == "where it was" else (b"", 56))
            assert sent_bytes(broker) == len(result)

    run(test)


@pytest.mark.parametrize("offset", [0, 1])
def test_damage_before_the_check_is_answered_with_an_error(tmp_path, offset):
    async def test():
        async with broker_with_batches(tmp_path, count=3) as (_, client, stored):
            flip_bit(tmp_path, stored[1])
            result = await client.fetch("t", offset)
            assert (joined(result), result.error_code) == ((stored[0], 0) if offset == 0 else (b"", 56))

    run(test)
