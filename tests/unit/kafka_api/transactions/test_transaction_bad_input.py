"""What a client of transactions may get wrong: each row is one request, and the code that it is answered with."""

import struct

import pytest
from bad_input import IDLE, LONG_ID, OPEN, REPLACED, code_of, end, init
from coordinating_brokers import with_brokers
from transaction_calls import ADDING_PRODUCE, PLAIN_PRODUCE, Producer, found, markers, readable, with_transactions

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.codec import encode_request
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    TxnOffsetCommitRequest,
)
from model.control_batch import MarkerType
from tests.unit.kafka_api.groups.group_calls import QUICK as QUICK_GROUPS
from tests.unit.kafka_api.groups.group_calls import Groups
from tests.unit.kafka_api.wire_client import produce_request


async def add_of(producer, topic, *partitions, version=3, **fields):
    return [ErrorCode(code) for code in await producer.add_each(topic, partitions, version=version, **fields)]


async def assert_codes(producer, rows):
    """Ask for every row, and compare all codes at once."""
    codes = {case: await ask(producer) for case, (ask, _) in rows.items()}
    assert {case: code for case, code in codes.items() if code is not rows[case][1]} == {}


@with_transactions(groups=QUICK_GROUPS, seconds=60)
async def test_every_wrong_request_has_its_code_and_changes_nothing(broker, producer):
    await Groups(producer.client).wait_found()
    # In its second epoch, so that there is a former one.
    await (await producer.init()).init()
    await assert_codes(producer, IDLE)
    assert (await producer.state(), await producer.list()) == ("Empty", {"sink": "Empty"})
    # As if nothing had been asked.
    assert await producer.send() is ErrorCode.NONE
    await assert_codes(producer, OPEN)
    assert await producer.state() == "Ongoing"
    assert await readable(producer.client) == (1, 0)
    assert await producer.end() is ErrorCode.NONE
    await producer.until_state("CompleteCommit")
    assert await readable(producer.client) == (2, 2)
    await Producer(producer.client).init()
    await assert_codes(producer, REPLACED)
    assert await producer.state() == "Empty"
    assert await markers(producer.client) == [(MarkerType.COMMIT, 2)]


@with_transactions()
async def test_an_abort_with_nothing_begun_raises_the_epoch_at_version_5_only(broker, producer):
    await producer.init()
    for version in range(5):
        assert await end(producer, version=version, is_commit=False) is ErrorCode.INVALID_TXN_STATE
    answer = await producer.end_once(version=5, is_commit=False)
    assert (code_of(answer), answer.producer_id, answer.producer_epoch) == (ErrorCode.NONE, producer.producer_id, 1)


# -- what ends a connection ---------------------------------------------------------------------------------------

# An id in whose place one of 65,536 bytes is sent: no string of the protocol has more than 32,767.
_PLACEHOLDER = "~" * 100
_TOO_LONG = 65_536


def _adding(version):
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="t", partitions=[0])
    if version < 4:
        return AddPartitionsToTxnRequest(v3_and_below_transactional_id=_PLACEHOLDER, v3_and_below_topics=[topic])
    one = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(transactional_id=_PLACEHOLDER, topics=[topic])
    return AddPartitionsToTxnRequest(transactions=[one])


# By key and version; before these versions a longer string cannot be said.
TOO_LONG = [
    (ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key=_PLACEHOLDER, key_type=1)),
    (ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(key_type=1, coordinator_keys=[_PLACEHOLDER])),
    (ApiKey.INIT_PRODUCER_ID, 5, InitProducerIdRequest(transactional_id=_PLACEHOLDER, transaction_timeout_ms=60_000)),
    (ApiKey.ADD_PARTITIONS_TO_TXN, 3, _adding(3)),
    (ApiKey.ADD_PARTITIONS_TO_TXN, 5, _adding(5)),
    (ApiKey.ADD_OFFSETS_TO_TXN, 4, AddOffsetsToTxnRequest(transactional_id=_PLACEHOLDER, group_id="g")),
    (ApiKey.END_TXN, 5, EndTxnRequest(transactional_id=_PLACEHOLDER)),
    (ApiKey.TXN_OFFSET_COMMIT, 5, TxnOffsetCommitRequest(transactional_id=_PLACEHOLDER, group_id="g")),
    (ApiKey.PRODUCE, PLAIN_PRODUCE, produce_request("t", transactional_id=_PLACEHOLDER)),
    (ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(transactional_ids=[_PLACEHOLDER])),
    (ApiKey.LIST_TRANSACTIONS, 2, ListTransactionsRequest(transactional_id_pattern=_PLACEHOLDER)),
]


def too_long(key, version, request):
    """Return a frame with an id of 65,536 bytes."""
    frame = b"".join(encode_request(key, version, 7, "test", request))
    said = varint(len(_PLACEHOLDER) + 1) + _PLACEHOLDER.encode()
    assert frame.count(said) == 1
    body = frame[4:].replace(said, varint(_TOO_LONG + 1) + b"x" * _TOO_LONG)
    return struct.pack(">i", len(body)) + body


def varint(value):
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


@with_transactions()
async def test_an_id_of_65536_bytes_ends_its_connection_and_no_other(broker, producer):
    for key, version, request in TOO_LONG:
        client = await broker.client()
        client.write(too_long(key, version, request))
        assert await client.is_closed(), key
    await producer.init(name=LONG_ID)


@with_transactions()
async def test_a_transactional_batch_at_acks_0_ends_its_connection_and_is_not_appended(broker, producer):
    await producer.init()
    # Also where the transaction is open already.
    for is_open in (False, True):
        if is_open:
            assert await producer.send() is ErrorCode.NONE
        for version in (PLAIN_PRODUCE, ADDING_PRODUCE):
            client = await broker.client()
            client.send(
                ApiKey.PRODUCE, version, produce_request("t", producer.batch(), transactional_id="sink", acks=0)
            )
            assert await client.is_closed()
    assert await readable(producer.client) == (1, 0)
    assert await producer.end() is ErrorCode.NONE


@pytest.mark.parametrize("level", [1, 2])
def test_a_coordinator_that_moves_between_add_partitions_and_the_end_is_found_again(tmp_path, level):
    async def test(brokers):
        producer = brokers.producer
        assert await producer.add(0) is ErrorCode.NONE
        assert await producer.produce(0, client=brokers.leader()) is ErrorCode.NONE
        former = await brokers.move_coordinator()
        # The client still asks the former one.
        producer.client, moved = brokers.clients[former], ErrorCode.NOT_COORDINATOR
        for version in range(6):
            assert await end(producer, version=version) is moved
            assert await producer.add(1, version=version) is moved
            assert await init(producer, version=version) is moved
        assert code_of(await producer.describe()) is moved
        assert (await brokers.again(producer.describe)).transaction_state == "Ongoing"
        assert producer.client is not brokers.clients[former]
        assert await brokers.end() is ErrorCode.NONE
        await brokers.completed("CompleteCommit")
        assert await markers(brokers.leader()) == [(MarkerType.COMMIT, level - 1)]
        assert await readable(brokers.leader()) == (2, 2)

    with_brokers(tmp_path, test, level)


@with_transactions()
async def test_an_unknown_partition_lets_none_be_added(broker, producer):
    await producer.init()
    unknown, left_out = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
    assert await add_of(producer, "t", 0, 9) == [left_out, unknown]
    assert await add_of(producer, "nowhere", 0, version=5) == [unknown]
    assert await producer.state() == "Empty"


@with_transactions()
async def test_a_broker_that_does_not_keep_an_id_says_so_of_each_request(broker, producer):
    """Its partitions are led here, and are not loaded: as on a broker that has just been elected."""
    await producer.init()
    for kept in broker.server._transactions._active.values():
        kept.is_loaded = False
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert [await init(producer), await producer.add(), await end(producer)] == [loading] * 3
    assert code_of(await producer.describe()) is loading
    assert await producer.send() is ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize("version", range(7))
@with_transactions()
async def test_a_coordinator_is_found_by_every_version(broker, producer, version):
    if version == 0:
        # It knows no types: every key is a group.
        return
    named = await found(Producer(producer.client, name="other"))
    answer = await named.find(version)
    assert (answer.error_code, answer.node_id, answer.port) == (0, 1, broker.port)
