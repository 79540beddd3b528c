"""What a client of transactions may get wrong: each row is one request, and the code that it is answered with."""

import struct

import pytest
from transaction_calls import QUICK, Producer, found, readable, with_transactions

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode

# The longest string of the protocol.
LONG_ID = "x" * 32_767
MAX = QUICK.max_timeout_ms


def code_of(answer):
    return ErrorCode(answer.error_code)


async def init(producer, **fields):
    return code_of(await producer.init_once(**fields))


async def end(producer, **fields):
    return code_of(await producer.end_once(**fields))


async def add_of(producer, topic, *partitions, version=3, **fields):
    return [ErrorCode(code) for code in await producer.add_each(topic, partitions, version=version, **fields)]


# Of a producer that was given its epoch, and has nothing open.
CASES = {
    "a time-out of 0": (lambda p: init(p, timeout_ms=0), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    "a time-out below 0": (lambda p: init(p, timeout_ms=-1), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    "a time-out that is too long": (lambda p: init(p, timeout_ms=MAX + 1), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    "an id of 0 bytes": (lambda p: init(p, name=""), ErrorCode.INVALID_REQUEST),
    "an epoch without an id": (lambda p: init(p, known=(-1, 0)), ErrorCode.INVALID_REQUEST),
    "an id without an epoch": (lambda p: init(p, known=(7, -1)), ErrorCode.INVALID_REQUEST),
    "an old epoch at InitProducerId 3": (
        lambda p: init(p, version=3, known=(p.producer_id, p.epoch + 1)),
        ErrorCode.INVALID_PRODUCER_EPOCH,
    ),
    "an old epoch at InitProducerId 4": (
        lambda p: init(p, version=4, known=(p.producer_id, p.epoch + 1)),
        ErrorCode.PRODUCER_FENCED,
    ),
    "a foreign producer at InitProducerId": (
        lambda p: init(p, known=(p.producer_id + 1, 0)),
        ErrorCode.PRODUCER_FENCED,
    ),
    "partitions of an id of 0 bytes": (lambda p: p.add(0, name=""), ErrorCode.INVALID_REQUEST),
    "partitions of an id that is not there": (
        lambda p: p.add(0, name="nobody"),
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ),
    "partitions of an id of 32,767 bytes": (
        lambda p: p.add(0, name=LONG_ID),
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ),
    "partitions of a foreign producer": (
        lambda p: p.add(0, producer_id=p.producer_id + 1),
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ),
    "partitions in another epoch, version 1": (
        lambda p: p.add(0, version=1, epoch=p.epoch + 1),
        ErrorCode.INVALID_PRODUCER_EPOCH,
    ),
    "partitions in another epoch, version 2": (
        lambda p: p.add(0, version=2, epoch=p.epoch + 1),
        ErrorCode.PRODUCER_FENCED,
    ),
    "10,001 partitions": (lambda p: p.add(*range(10_001)), ErrorCode.INVALID_REQUEST),
    "10,001 partitions, as brokers add them": (
        lambda p: p.add(*range(10_001), version=5),
        ErrorCode.INVALID_REQUEST,
    ),
    "a partition that is not in the transaction, version 4": (
        lambda p: p.add(0, version=4, verify_only=True),
        ErrorCode.INVALID_TXN_STATE,
    ),
    "a partition that is not in the transaction, version 5": (
        lambda p: p.add(0, version=5, verify_only=True),
        ErrorCode.TRANSACTION_ABORTABLE,
    ),
    "an end of an id of 0 bytes": (lambda p: end(p, name=""), ErrorCode.INVALID_REQUEST),
    "an end of an id that is not there": (
        lambda p: end(p, name=LONG_ID),
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ),
    "an end of a foreign producer": (
        lambda p: end(p, producer_id=p.producer_id + 1),
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ),
    "an end in another epoch, version 1": (
        lambda p: end(p, version=1, epoch=p.epoch + 1),
        ErrorCode.INVALID_PRODUCER_EPOCH,
    ),
    "an end in another epoch, version 2": (
        lambda p: end(p, version=2, epoch=p.epoch + 1),
        ErrorCode.PRODUCER_FENCED,
    ),
    "an abort in another epoch, version 5": (
        lambda p: end(p, is_commit=False, epoch=p.epoch + 1),
        ErrorCode.PRODUCER_FENCED,
    ),
    "an abort of a transaction that is not there": (
        lambda p: p.write_marker("t", 0, producer_id=p.producer_id, producer_epoch=p.epoch),
        ErrorCode.INVALID_TXN_STATE,
    ),
    "an abort without a producer": (
        lambda p: p.write_marker("t", 0, producer_id=-1, producer_epoch=-1),
        ErrorCode.INVALID_PRODUCER_EPOCH,
    ),
}
for version in range(5):
    for is_commit in (True, False):
        name = f"{'a commit' if is_commit else 'an abort'} with nothing begun, version {version}"
        CASES[name] = (
            lambda p, version=version, is_commit=is_commit: end(p, version=version, is_commit=is_commit),
            ErrorCode.INVALID_TXN_STATE,
        )
CASES["a commit with nothing begun, version 5"] = (lambda p: end(p), ErrorCode.INVALID_TXN_STATE)


@with_transactions()
async def test_every_wrong_request_has_its_code_and_changes_nothing(broker, producer):
    await producer.init()
    codes = {case: await ask(producer) for case, (ask, _) in CASES.items()}
    assert codes == {case: code for case, (_, code) in CASES.items()}
    assert (await producer.state(), await producer.list()) == ("Empty", {"sink": "Empty"})
    # As if nothing had been asked.
    assert await producer.send() is ErrorCode.NONE
    assert await producer.end() is ErrorCode.NONE
    await producer.until_state("CompleteCommit")
    assert await readable(producer.client) == (2, 2)


@with_transactions()
async def test_an_id_of_65536_bytes_ends_its_connection_and_no_other(broker, producer):
    body = varint(65_537) + b"x" * 65_536 + struct.pack(">iqh", 60_000, -1, -1) + b"\0"
    head = struct.pack(">hhih", ApiKey.INIT_PRODUCER_ID, 5, 7, -1) + b"\0"
    client = await broker.client()
    client.write(struct.pack(">i", len(head + body)) + head + body)
    assert await client.is_closed()
    await producer.init(name=LONG_ID)


def varint(value):
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


@with_transactions()
async def test_an_unknown_partition_lets_none_be_added(broker, producer):
    await producer.init()
    unknown, left_out = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
    assert await add_of(producer, "t", 0, 9) == [left_out, unknown]
    assert await add_of(producer, "nowhere", 0, version=5) == [unknown]
    assert await producer.state() == "Empty"


@with_transactions()
async def test_a_fenced_producer_commits_nothing(broker, producer):
    await producer.init()
    second = await Producer(await broker.client()).init()
    for version, code in ((0, 47), (1, 47), (2, 90), (3, 90), (4, 90), (5, 90)):
        assert await end(producer, version=version) == code
    assert await second.state() == "Empty"


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
