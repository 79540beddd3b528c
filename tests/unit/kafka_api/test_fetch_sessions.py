"""Fetch sessions on the wire (KIP-227): what is not named again is remembered, what is not new is not told again."""

import asyncio

import pytest
from wire_client import broker_in, with_client

from kafka_api.fetch_sessions import FetchSessionOptions
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import FetchRequest
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import run, until
from tests.unit.model.record_batches import build_batch

FIRST_VERSION, LAST_VERSION = 7, 18
FIRST_VERSION_WITH_TOPIC_ID = 13
VERSIONS = range(FIRST_VERSION, LAST_VERSION + 1)


class Consumer:
    """The client's side of one session: its id, the epoch of its next request, and the names of topics."""

    def __init__(self, client, topics, version=LAST_VERSION):
        self.client = client
        self.version = version
        self.session_id = 0
        self.epoch = 0
        self._ids = topics
        self._names = {topic_id: name for name, topic_id in topics.items()}

    def request(self, partitions=(), forgotten=(), *, max_wait_ms=0, max_bytes=10_000_000):
        """`partitions`: name, number, offset; `forgotten`: name, number."""
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[
                FetchRequest.FetchTopic(
                    topic=name,
                    topic_id=self._ids[name],
                    partitions=[
                        FetchRequest.FetchPartition(
                            partition=number, fetch_offset=offset, partition_max_bytes=1_000_000
                        )
                    ],
                )
                for name, number, offset in partitions
            ],
            forgotten_topics_data=[
                FetchRequest.ForgottenTopic(topic=name, topic_id=self._ids[name], partitions=[number])
                for name, number in forgotten
            ],
        )

    async def call(self, *partitions, forgotten=(), **fields):
        """Return the response; the session goes on as the broker says."""
        request = self.request(partitions, forgotten, **fields)
        response = await self.client.call(ApiKey.FETCH, self.version, request)
        if response.error_code == 0:
            self.session_id = response.session_id
            self.epoch += 1
        return response

    async def fetch(self, *partitions, **fields):
        """Return what is told: (name, number) -> error code, high watermark, bytes of records."""
        response = await self.call(*partitions, **fields)
        assert response.error_code == 0
        return self.told(response)

    def told(self, response):
        by_id = self.version >= FIRST_VERSION_WITH_TOPIC_ID
        return {
            (self._names[topic.topic_id] if by_id else topic.topic, each.partition_index): (
                each.error_code,
                each.high_watermark,
                len(bytes(each.records or b"")),
            )
            for topic in response.responses
            for each in topic.partitions
        }


async def consumer_of(broker, *names, version=LAST_VERSION, partitions=2):
    client = await broker.client()
    topics = {name: await client.create_topic(name, partitions) for name in names}
    return Consumer(client, topics, version)


# Three records.
BATCH = build_batch(b"a", b"b", b"c")
SIZE = len(BATCH)


@pytest.mark.parametrize("version", VERSIONS)
def test_only_what_is_new_is_asked_for_and_told(tmp_path, version):
    async def test():
        async with broker_in(tmp_path) as broker:
            consumer = await consumer_of(broker, "t", "u", version=version)
            await consumer.client.produce("t", BATCH)
            all_of_it = [("t", 0, 0), ("t", 1, 0), ("u", 0, 0)]
            assert await consumer.fetch(*all_of_it) == {
                ("t", 0): (0, 3, SIZE),
                ("t", 1): (0, 0, 0),
                ("u", 0): (0, 0, 0),
            }
            assert consumer.session_id > 0
            # It has not read on yet: the records are there again, and nothing else is told.
            assert await consumer.fetch() == {("t", 0): (0, 3, SIZE)}
            assert await consumer.fetch(("t", 0, 3)) == {}
            await consumer.client.produce("u", BATCH)
            assert await consumer.fetch() == {("u", 0): (0, 3, SIZE)}
            assert await consumer.fetch(("u", 0, 3), ("u", 1, 0)) == {("u", 1): (0, 0, 0)}
            await consumer.client.produce("t", BATCH, partition=1)
            assert await consumer.fetch(forgotten=[("t", 1)]) == {}
            assert len(broker.server.fetch_sessions) == 1

    run(test)


@pytest.mark.parametrize("version", [4, 6, 7, 12, 18])
def test_who_wants_no_session_gets_none(tmp_path, version):
    async def test():
        async with broker_in(tmp_path) as broker:
            consumer = await consumer_of(broker, "t", version=version)
            for _ in range(2):
                consumer.epoch = -1
                assert await consumer.fetch(("t", 0, 0)) == {("t", 0): (0, 0, 0)}
                assert consumer.session_id == 0
            assert len(broker.server.fetch_sessions) == 0

    run(test)


def test_a_long_poll_waits_for_all_partitions_of_the_session(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            consumer = await consumer_of(broker, "t")
            await consumer.fetch(("t", 0, 0), ("t", 1, 0))
            waiting = asyncio.create_task(consumer.fetch(max_wait_ms=25_000))
            await until(lambda: consensus_of(broker.partition("t", 1)).monitor._watchers)
            assert not waiting.done()
            await (await broker.client()).produce("t", BATCH, partition=1)
            assert await waiting == {("t", 1): (0, 3, SIZE)}

    run(test)


def test_who_has_got_records_lets_the_others_go_first(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            consumer = await consumer_of(broker, "t")
            for partition in (0, 1):
                await consumer.client.produce("t", BATCH, partition=partition)
            await consumer.fetch(("t", 0, 0), ("t", 1, 0), max_bytes=SIZE)
            # Room for one batch: neither waits for the other's end.
            orders = [[key for key, (_, _, size) in (await consumer.fetch(max_bytes=SIZE)).items() if size]
                      for _ in range(4)]  # fmt: skip
            assert orders == [[("t", 0)], [("t", 1)], [("t", 0)], [("t", 1)]]

    run(test)


def test_an_error_is_told_each_time_and_the_positions_when_it_is_over(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            consumer = await consumer_of(broker, "t")
            await consumer.client.produce("t", BATCH)
            await consumer.fetch(("t", 0, 3), ("t", 1, 0))
            lost = {("t", 0): (ErrorCode.OFFSET_OUT_OF_RANGE, -1, 0)}
            assert await consumer.fetch(("t", 0, 99)) == lost
            assert await consumer.fetch() == lost
            assert await consumer.fetch(("t", 0, 3)) == {("t", 0): (0, 3, 0)}
            assert await consumer.fetch() == {}

    run(test)


def test_a_start_that_moves_is_told(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            consumer = await consumer_of(broker, "t")
            for _ in range(2):
                await consumer.client.produce("t", BATCH)
            await consumer.fetch(("t", 0, 6))
            await broker.partition("t").delete_records(3, asyncio.get_running_loop().time() + 10)
            response = await consumer.call()
            assert [each.log_start_offset for each in response.responses[0].partitions] == [3]
            assert await consumer.fetch() == {}

    run(test)


@pytest.mark.parametrize("version", [12, 18])
def test_a_topic_that_is_deleted_is_unknown_from_then_on(tmp_path, version):
    async def test():
        async with broker_in(tmp_path) as broker:
            consumer = await consumer_of(broker, "t", "u", version=version)
            await consumer.fetch(("t", 0, 0), ("u", 0, 0))
            await broker.cluster.delete_topic(consumer._ids["t"])
            code = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert await consumer.fetch() == {("t", 0): (code, -1, 0)}
            assert await consumer.fetch(forgotten=[("t", 0)]) == {}

    run(test)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_that_does_not_fit_its_session_is_refused(tmp_path, version):
    async def test():
        async with broker_in(tmp_path) as broker:
            consumer = await consumer_of(broker, "t", version=version)
            await consumer.fetch(("t", 0, 0))
            known = consumer.session_id
            for session_id, epoch, code in (
                (known, 2, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
                (known, -2, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
                (known ^ 1 or 2, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
                (0, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
                (-1, 7, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
            ):
                consumer.session_id, consumer.epoch = session_id, epoch
                response = await consumer.call()
                assert (response.error_code, response.session_id, response.responses) == (code, 0, [])
            consumer.session_id, consumer.epoch = known, 1
            assert await consumer.fetch() == {}, "the session is what it was"

    run(test)


def test_a_session_by_name_is_not_continued_by_id(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            consumer = await consumer_of(broker, "t")
            for begun, continued in ((12, 13), (13, 12)):
                consumer.session_id, consumer.epoch, consumer.version = 0, 0, begun
                await consumer.fetch(("t", 0, 0))
                consumer.version = continued
                assert (await consumer.call()).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR

    run(test)


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_request_ends_the_session_that_it_names(tmp_path, epoch):
    async def test():
        async with broker_in(tmp_path) as broker:
            consumer = await consumer_of(broker, "t")
            await consumer.fetch(("t", 0, 0))
            ended = consumer.session_id
            consumer.epoch = epoch
            assert await consumer.fetch(("t", 1, 0)) == {("t", 1): (0, 0, 0)}
            assert (consumer.session_id == 0) == (epoch == -1)
            assert broker.server.fetch_sessions.get(ended) is None
            assert len(broker.server.fetch_sessions) == (0 if epoch == -1 else 1)

    run(test)


def test_a_session_of_which_nothing_is_left_ends(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            consumer = await consumer_of(broker, "t")
            await consumer.fetch(("t", 0, 0))
            assert await consumer.fetch(forgotten=[("t", 0)], max_wait_ms=25_000) == {}
            assert consumer.session_id == 0
            assert len(broker.server.fetch_sessions) == 0

    run(test)


def test_of_two_requests_of_one_session_at_a_time_the_older_is_refused(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            consumer = await consumer_of(broker, "t")
            await consumer.fetch(("t", 0, 0))
            other = Consumer(await broker.client(), consumer._ids)
            consumer.client.send(ApiKey.FETCH, LAST_VERSION, consumer.request(max_wait_ms=25_000))
            await until(lambda: consensus_of(broker.partition("t")).monitor._watchers)
            other.session_id, other.epoch = consumer.session_id, 2
            assert await other.fetch() == {}
            await other.client.produce("t", BATCH)
            _, response = await consumer.client.receive()
            assert response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
            assert (response.session_id, response.responses) == (consumer.session_id, [])
            assert await other.fetch() == {("t", 0): (0, 3, SIZE)}, "what was not told before is told now"

    run(test)


def test_without_room_for_a_session_every_answer_is_whole(tmp_path):
    async def test(broker, client):
        topics = {"t": await client.create_topic("t")}
        first, second = Consumer(client, topics), Consumer(client, topics)
        await first.fetch(("t", 0, 0))
        assert await second.fetch(("t", 0, 0)) == {("t", 0): (0, 0, 0)}
        assert (first.session_id > 0, second.session_id) == (True, 0)
        assert await first.fetch() == {}

    with_client(tmp_path, test, fetch_sessions=FetchSessionOptions(sessions_max=1))


def test_a_session_that_grows_beyond_the_memory_of_all_is_no_longer_known(tmp_path):
    async def test(broker, client):
        topics = {"t": await client.create_topic("t")}
        consumer = Consumer(client, topics)
        await consumer.fetch(("t", 0, 0))
        for number in range(1, 10):
            response = await consumer.call(("t", number, 0))
            if response.error_code:
                break
        assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert broker.server.fetch_sessions.counted_bytes == 0

    with_client(tmp_path, test, fetch_sessions=FetchSessionOptions(bytes_max=5000))
