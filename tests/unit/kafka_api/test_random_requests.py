"""Any request that the codec can say is answered or ends its own connection; it never meets an internal error."""

import random

import pytest
from wire_client import broker_in

from kafka_api.handlers.registry import OF_TRANSACTIONS, SERVED
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.message_classes import Message
from kafka_api.protocol.messages import ApiVersionsRequest, InitProducerIdRequest, ProduceRequest
from kafka_api.protocol.schema.message_schema import Direction, schema_of
from tests.unit.cluster.cluster_nodes import run
from tests.unit.kafka_api.groups.group_calls import QUICK as QUICK_GROUPS
from tests.unit.kafka_api.groups.group_calls import Groups
from tests.unit.kafka_api.protocol.random_messages import random_message
from tests.unit.kafka_api.transactions.transaction_calls import QUICK, Producer, found
from tests.unit.model.record_batches import CONTROL, TRANSACTIONAL, build_batch

ROUNDS = 30


def aim(message, rng, topic_id):
    """Turn most of the noise towards topic "t", so that handlers get past their first check."""
    for name in type(message).__slots__:
        value = getattr(message, name)
        if isinstance(value, list):
            for each in value:
                if isinstance(each, Message):
                    aim(each, rng, topic_id)
        elif isinstance(value, Message):
            aim(value, rng, topic_id)
        if name in ("max_wait_ms", "timeout_ms"):
            setattr(message, name, rng.choice([-1, 0, 5]))
        elif rng.random() < 0.7:
            _aim_field(message, name, rng, topic_id)


def _aim_field(message, name, rng, topic_id):
    match name:
        case "name" | "topic" | "topic_name":
            if isinstance(getattr(message, name), str):
                setattr(message, name, "t")
        case "topic_id":
            setattr(message, name, topic_id)
        case "partition" | "index" | "partition_index":
            setattr(message, name, rng.choice([0, 1]))
        case "records":
            setattr(message, name, build_batch(b"x", timestamps=[rng.choice([0, 5, 2**60])]))
        case "acks" | "session_epoch":
            setattr(message, name, rng.choice([-1, 0, 1]))
        case "current_leader_epoch":
            message.current_leader_epoch = -1
        case "session_id":
            message.session_id = rng.choice([0, 1])
        case "fetch_offset" | "timestamp":
            setattr(message, name, rng.choice([0, 1, -1, 3]))
        case "v3_and_below_transactional_id" | "transactional_id":
            may_lack_it = isinstance(message, ProduceRequest | InitProducerIdRequest)
            setattr(message, name, None if may_lack_it else "sink")
        case _:
            pass


def aim_at_transactions(message, rng, producer):
    """Turn most of the noise of an aimed message towards the producer of "sink", and some of it towards nobody's."""
    for name in type(message).__slots__:
        value = getattr(message, name)
        if isinstance(value, list) and value and isinstance(value[0], Message):
            for each in value:
                aim_at_transactions(each, rng, producer)
        elif rng.random() < 0.8:
            _aim_at_producer(message, name, rng, producer)


def _aim_at_producer(message, name, rng, producer):
    match name.removeprefix("v3_and_below_"):
        case "transactional_id":
            may_lack_it = isinstance(message, ProduceRequest | InitProducerIdRequest)
            setattr(message, name, rng.choice(["sink", "sink", "another", "", *[None] * may_lack_it]))
        case "producer_id":
            setattr(message, name, rng.choice([producer.producer_id, producer.producer_id, 7, -1]))
        case "producer_epoch":
            setattr(message, name, rng.choice([producer.epoch, producer.epoch, producer.epoch + 1, -1]))
        case "transaction_timeout_ms":
            setattr(message, name, rng.choice([0, 60_000, 2**31 - 1]))
        case "records":
            attributes = rng.choice([TRANSACTIONAL, TRANSACTIONAL, TRANSACTIONAL | CONTROL, CONTROL, 0])
            who = rng.choice([(producer.producer_id, producer.epoch), (7, 0), (-1, -1)])
            sequence = rng.choice([0, 1, 5, -1])
            message.records = build_batch(
                b"x", attributes=attributes, producer_id=who[0], producer_epoch=who[1], base_sequence=sequence
            )
        case "acks":
            message.acks = rng.choice([-1, -1, 0, 1])
        case "key" | "group_id":
            setattr(message, name, "sink")
        case "key_type":
            message.key_type = rng.choice([0, 1, 2])
        case "coordinator_keys" | "transactional_ids":
            setattr(message, name, ["sink", "another", ""])
        case "transactional_id_pattern":
            message.transactional_id_pattern = rng.choice(["s.*", "(", "", "a|b", None])
        case "state_filters":
            message.state_filters = rng.choice([[], ["Ongoing"], ["Nonsense"]])
        case _:
            pass


async def answered_or_ended(broker, client, key, version, message):
    """Send a request and another one behind it; return a client that is still connected, and whether it is the same."""
    try:
        client.send(key, version, message)
        last = client.send(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
        while (await client.receive())[0] != last:
            pass
    except (ConnectionError, EOFError):
        return await broker.client(), False
    return client, True


async def until_ready(client):
    """Return a producer of "sink" whose coordinator is there, and that of the group of this name."""
    producer = await found(Producer(client))
    await Groups(client, "sink").wait_found()
    return await producer.init()


# Where level 2 brings more into play than at level 0, beside the keys that it serves alone.
KEYS_WITH_TRANSACTIONS = (
    *(ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.FIND_COORDINATOR, ApiKey.INIT_PRODUCER_ID),
    *(ApiKey.DESCRIBE_PRODUCERS, ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.LIST_TRANSACTIONS, ApiKey.OFFSET_FETCH),
)
CASES = [(key, False) for key in sorted(SERVED)]
CASES += [(key, True) for key in (*OF_TRANSACTIONS, *KEYS_WITH_TRANSACTIONS)]


@pytest.mark.parametrize(
    ("key", "has_transactions"),
    CASES,
    ids=lambda each: ("at level 2" if each else "at level 0") if isinstance(each, bool) else ApiKey(each).name,
)
def test_random_requests_of_every_version_meet_no_internal_error(tmp_path, caplog, key, has_transactions):
    async def test():
        served, schema = (SERVED | OF_TRANSACTIONS)[key], schema_of(key, Direction.REQUEST)
        rng = random.Random(key)
        options = {"transactions": QUICK, "groups": QUICK_GROUPS} if has_transactions else {}
        async with broker_in(tmp_path, **options) as broker:
            client = await broker.client()
            topic_id = await client.create_topic("t", 2)
            producer = await until_ready(client) if has_transactions else None
            for version in range(served.first_version, served.last_version + 1):
                for _ in range(ROUNDS):
                    message = random_message(schema, version, rng)
                    aim(message, rng, topic_id)
                    if producer is not None:
                        aim_at_transactions(message, rng, producer)
                    client, is_same = await answered_or_ended(broker, client, key, version, message)
                    may_end = key == ApiKey.PRODUCE and message.acks == 0
                    may_end |= key == ApiKey.METADATA and version in (10, 11)
                    assert is_same or may_end, f"version {version}: {message}"
            if producer is not None:
                # It can be used as before.
                last = await Producer(client).init()
                assert await last.send() is ErrorCode.NONE
                assert await last.end() is ErrorCode.NONE
        failures = [record for record in caplog.records if "failed" in record.getMessage()]
        assert [record.exc_info for record in failures if record.exc_info] == []

    run(test)
