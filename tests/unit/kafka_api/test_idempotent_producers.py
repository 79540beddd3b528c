"""InitProducerId, and Produce with a producer id: what a client gets for a retry, a gap, an old epoch."""

import pytest
from wire_client import broker_in, produce_request
from wire_cluster import with_brokers

from kafka_api.handlers import describe_producers, produce
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import DescribeProducersRequest, InitProducerIdRequest
from kafka_api.refused_batch import RefusedBatchError
from kafka_api.refused_batches import RefusedBatches
from tests.feature_levels import LIVING
from tests.unit.cluster.cluster_nodes import run, until
from tests.unit.model.record_batches import build_batch

VERSION = 4


def init(**fields):
    return InitProducerIdRequest(**({"transactional_id": None, "transaction_timeout_ms": 60_000} | fields))


def batch(producer_id, first, count=1, epoch=0):
    values = [b"%d" % (first + number) for number in range(count)]
    return build_batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=first)


async def new_id(client):
    response = await client.call(ApiKey.INIT_PRODUCER_ID, VERSION, init())
    assert (response.error_code, response.producer_epoch) == (0, 0)
    return response.producer_id


@pytest.mark.parametrize("version", range(6))
def test_every_version_gives_an_id_of_its_own(tmp_path, version):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            first, second = [await client.call(ApiKey.INIT_PRODUCER_ID, version, init()) for _ in range(2)]
            assert (first.error_code, first.producer_epoch, second.error_code) == (0, 0, 0)
            assert second.producer_id == first.producer_id + 1

    run(test)


REFUSED = {
    "a transaction of a cluster without": (
        init(transactional_id="t"),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    "an empty transactional id": (init(transactional_id=""), ErrorCode.INVALID_REQUEST),
    "an id without an epoch": (init(producer_id=1), ErrorCode.INVALID_REQUEST),
    "an epoch without an id": (init(producer_epoch=1), ErrorCode.INVALID_REQUEST),
}


@pytest.mark.parametrize(("request_", "code"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_idempotent_producer_gets_a_code_and_no_id(tmp_path, request_, code):
    async def test():
        async with broker_in(tmp_path, founded=LIVING) as broker:
            client = await broker.client()
            response = await client.call(ApiKey.INIT_PRODUCER_ID, VERSION, request_)
            assert (response.error_code, response.producer_id, response.producer_epoch) == (code, -1, -1)

    run(test)


def test_a_producer_that_asks_with_its_former_id_gets_a_new_one(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            first = await new_id(client)
            request = init(producer_id=first, producer_epoch=3)
            response = await client.call(ApiKey.INIT_PRODUCER_ID, VERSION, request)
            assert (response.error_code, response.producer_id, response.producer_epoch) == (0, first + 1, 0)

    run(test)


@pytest.mark.parametrize("acks", [-1, 1])
def test_a_retry_is_answered_with_the_offset_of_the_original_and_not_appended(tmp_path, acks):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            producer = await new_id(client)
            for _ in range(3):
                result = await client.produce("t", batch(producer, 0, 2), acks=acks)
                assert (result.error_code, result.base_offset) == (0, 0)
                result = await client.produce("t", batch(producer, 2, 3), acks=acks)
                assert (result.error_code, result.base_offset) == (0, 2)
            assert (await client.list_offsets("t", -1)).offset == 5

    run(test)


def test_pipelined_batches_and_their_retries_keep_their_order(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            producer = await new_id(client)
            for number in (0, 1, 2, 1, 3, 4, 0, 4, 6):
                client.send(ApiKey.PRODUCE, 7, produce_request("t", batch(producer, number)))
            results = []
            for _ in range(9):
                _, response = await client.receive()
                result = response.responses[0].partition_responses[0]
                results.append(result.base_offset if not result.error_code else result.error_code)
            assert results == [0, 1, 2, 1, 3, 4, 0, 4, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
            assert (await client.list_offsets("t", -1)).offset == 5

    run(test)


async def answers(client, producer, *sent):
    """Send batches of a record each without waiting; return the codes of the answers."""
    for number in sent:
        client.send(ApiKey.PRODUCE, 7, produce_request("t", batch(producer, number)))
    received = [(await client.receive())[1] for _ in sent]
    return [each.responses[0].partition_responses[0].error_code for each in received]


@pytest.fixture
def late_office(monkeypatch):
    """A leader that is not in office yet when the first batch comes, and is when the others do."""
    codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    find = produce.find_changeable
    monkeypatch.setattr(produce, "find_changeable", lambda *asked: codes.pop() if codes else find(*asked))


@pytest.mark.usefixtures("late_office")
def test_what_was_sent_behind_a_batch_that_was_refused_for_now_is_refused_alike(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            producer = await new_id(client)
            assert await answers(client, producer, 0, 1, 2) == 3 * [ErrorCode.NOT_LEADER_OR_FOLLOWER]
            # Who does not send the first one again is told that it is missing.
            assert await answers(client, producer, 1) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
            assert await answers(client, producer, 0, 1, 2) == [0, 0, 0]
            assert await answers(client, producer, 4) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
            assert (await client.list_offsets("t", -1)).offset == 3

    run(test)


def test_what_was_sent_behind_a_batch_that_was_not_checked_in_time_is_refused_alike(tmp_path, monkeypatch):
    late, check = [ErrorCode.REQUEST_TIMED_OUT], produce._checked

    async def checked(*asked):
        if late:
            raise RefusedBatchError(late.pop(), "its keys were not looked at in time")
        return await check(*asked)

    monkeypatch.setattr(produce, "_checked", checked)

    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            producer = await new_id(client)
            assert await answers(client, producer, 0, 1, 2) == 3 * [ErrorCode.REQUEST_TIMED_OUT]
            assert await answers(client, producer, 0, 1, 2) == [0, 0, 0]

    run(test)


@pytest.mark.usefixtures("late_office")
def test_a_producer_is_told_of_a_gap_if_the_connection_remembers_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(RefusedBatches, "answered", lambda refused, partition, batch, code, **_: code)

    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            producer = await new_id(client)
            gap = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert await answers(client, producer, 0, 1, 2) == [ErrorCode.NOT_LEADER_OR_FOLLOWER, gap, gap]

    run(test)


def test_the_first_batch_at_a_new_leader_is_not_told_of_a_gap_at_once(tmp_path):
    """What comes before it may be on its way back from the old leader, over another connection."""

    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            producer = await new_id(client)
            assert await answers(client, producer, 0, 1) == [0, 0]
            broker.partition("t")._consensus.step_down("the test asks for a new leader")
            await until(lambda: broker.cluster.has_leaders("t"))
            client = await broker.client()
            assert await answers(client, producer, 3, 4) == 2 * [ErrorCode.NOT_LEADER_OR_FOLLOWER]
            assert await answers(client, producer, 2, 3, 4) == [0, 0, 0]
            # From here on this leader knows the producer.
            assert await answers(client, producer, 7) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
            assert (await client.list_offsets("t", -1)).offset == 5

    run(test)


def test_a_producer_that_never_sends_what_is_missing_is_told_of_the_gap_the_second_time(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            producer = await new_id(client)
            assert await answers(client, producer, 3) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
            assert await answers(client, producer, 3) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]

    run(test)


def test_each_refusal_has_its_code_and_words(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            producer = await new_id(client)
            for number in range(8):
                await client.produce("t", batch(producer, number))
            await client.produce("t", batch(producer, 0, epoch=2))

            async def refused(sent):
                result = await client.produce("t", sent, version=9)
                assert f"producer {producer}" in result.error_message
                assert result.base_offset == -1
                return result.error_code

            assert await refused(batch(producer, 8)) == ErrorCode.INVALID_PRODUCER_EPOCH
            assert await refused(batch(producer, 1, epoch=3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert await refused(batch(producer, 2, epoch=2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            for number in range(1, 8):
                await client.produce("t", batch(producer, number, epoch=2))
            assert await refused(batch(producer, 1, epoch=2)) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER

    run(test)


def test_partitions_and_producers_have_sequences_of_their_own(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t", partitions=2)
            producers = [await new_id(client) for _ in range(2)]
            for producer in producers:
                response = await client.call(
                    ApiKey.PRODUCE, 7, produce_request("t", batch(producer, 0), batch(producer, 0))
                )
                assert [each.error_code for each in response.responses[0].partition_responses] == [0, 0]

    run(test)


def test_a_retry_is_answered_with_the_append_time_of_the_original(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t", message_timestamp_type="LogAppendTime")
            producer = await new_id(client)
            first = await client.produce("t", batch(producer, 0))
            # The clock of the next batch is not the original's.
            broker.partition("t").append_clock.observe(1, first.log_append_time_ms + 60_000)
            retry = await client.produce("t", batch(producer, 0))
            assert (retry.base_offset, retry.log_append_time_ms) == (0, first.log_append_time_ms)
            assert first.log_append_time_ms > 0

    run(test)


def describe(*topics):
    return DescribeProducersRequest(
        topics=[
            DescribeProducersRequest.TopicRequest(name=name, partition_indexes=list(numbers))
            for name, numbers in topics
        ]
    )


def test_the_producers_of_a_partition_are_described_with_their_newest_batches(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t", 2)
            first, second = await new_id(client), await new_id(client)
            await client.produce("t", batch(second, 0))
            await client.produce("t", batch(first, 0, 2))
            await client.produce("t", batch(first, 2, 3))
            answer = await client.call(ApiKey.DESCRIBE_PRODUCERS, 0, describe(("t", [0, 1, 7, 0]), ("u", [0])))
            known, unknown = answer.topics
            assert [(each.partition_index, each.error_code) for each in known.partitions] == [
                (0, 0),
                (1, 0),
                (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ]
            assert [
                (each.producer_id, each.producer_epoch, each.last_sequence, each.coordinator_epoch)
                for each in known.partitions[0].active_producers
            ] == [(first, 0, 4, -1), (second, 0, 0, -1)]
            assert all(each.current_txn_start_offset == -1 for each in known.partitions[0].active_producers)
            assert known.partitions[1].active_producers == []
            assert [each.error_code for each in unknown.partitions] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    run(test)


def test_more_producers_than_fit_one_answer_are_to_be_asked_for_by_partition(tmp_path, monkeypatch):
    monkeypatch.setattr(describe_producers, "_PRODUCERS_MAX", 3)

    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t", 2)
            for _ in range(2):
                producer = await new_id(client)
                for partition in (0, 1):
                    await client.produce("t", batch(producer, 0), partition=partition)
            answer = await client.call(ApiKey.DESCRIBE_PRODUCERS, 0, describe(("t", [0, 1])))
            first, second = answer.topics[0].partitions
            assert (first.error_code, len(first.active_producers)) == (0, 2)
            assert (second.error_code, second.active_producers) == (ErrorCode.INVALID_REQUEST, [])

    run(test)


def test_every_replica_describes_the_producers_that_it_knows(tmp_path):
    async def test(brokers):
        leader = brokers.clients[brokers.leader]
        producer = await new_id(leader)
        await leader.produce("t", batch(producer, 0, 3))
        for number, client in brokers.clients.items():
            known = brokers.cluster[number].partitions.get(brokers.cluster.leader_of("t").group).log_state
            await until(known.known_ids)
            answer = await client.call(ApiKey.DESCRIBE_PRODUCERS, 0, describe(("t", [0])))
            (partition,) = answer.topics[0].partitions
            told = [(each.producer_id, each.last_sequence) for each in partition.active_producers]
            assert (partition.error_code, told) == (0, [(producer, 2)])

    with_brokers(tmp_path, test)
