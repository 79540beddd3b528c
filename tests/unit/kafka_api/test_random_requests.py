"""Any request that the codec can say is answered or ends its own connection; it never meets an internal error."""

import random

import pytest
from wire_client import broker_in

from kafka_api.handlers.registry import OF_TRANSACTIONS, SERVED
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.message_classes import Message
from kafka_api.protocol.messages import ApiVersionsRequest, InitProducerIdRequest, ProduceRequest
from kafka_api.protocol.schema.message_schema import Direction, schema_of
from model.features import UNSTABLE
from tests.unit.cluster.cluster_nodes import run
from tests.unit.kafka_api.protocol.random_messages import random_message
from tests.unit.model.record_batches import build_batch

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


@pytest.mark.parametrize("key", [*sorted(SERVED), *OF_TRANSACTIONS], ids=lambda key: ApiKey(key).name)
def test_random_requests_of_every_version_meet_no_internal_error(tmp_path, caplog, key):
    async def test():
        served, schema = (SERVED | OF_TRANSACTIONS)[key], schema_of(key, Direction.REQUEST)
        rng = random.Random(key)
        async with broker_in(tmp_path, features=UNSTABLE if key in OF_TRANSACTIONS else None) as broker:
            client = await broker.client()
            topic_id = await client.create_topic("t", 2)
            for version in range(served.first_version, served.last_version + 1):
                for _ in range(ROUNDS):
                    message = random_message(schema, version, rng)
                    aim(message, rng, topic_id)
                    client, is_same = await answered_or_ended(broker, client, key, version, message)
                    may_end = key == ApiKey.PRODUCE and message.acks == 0
                    may_end |= key == ApiKey.METADATA and version in (10, 11)
                    assert is_same or may_end, f"version {version}: {message}"
        failures = [record for record in caplog.records if "failed" in record.getMessage()]
        assert [record.exc_info for record in failures if record.exc_info] == []

    run(test)
