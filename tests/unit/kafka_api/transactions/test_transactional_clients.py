"""Transactional producers of two clients against a broker that coordinates them: what is committed, and what is fenced."""

import asyncio

import aiokafka
import confluent_kafka
import pytest
from transaction_calls import markers, readable, with_transactions

from model.control_batch import MarkerType
from tests.feature_levels import LIVING
from tests.process.command_line import raftka
from tests.unit.cluster.cluster_nodes import run
from tests.unit.kafka_api.wire_client import broker_in

SECONDS = 20


def begun(broker):
    """Return a producer of librdkafka that has its producer id."""
    producer = confluent_kafka.Producer(
        # It goes on for a while when the broker is gone, and would tell each failure to connect.
        {"bootstrap.servers": f"127.0.0.1:{broker.port}", "transactional.id": "rd", "linger.ms": 0, "log_level": 0}
    )
    producer.init_transactions(SECONDS)
    return producer


@with_transactions(seconds=60)
async def test_librdkafka_commits_and_aborts(broker, producer):
    def run():
        client = begun(broker)
        for end in (client.commit_transaction, client.abort_transaction, client.commit_transaction):
            client.begin_transaction()
            for partition in (0, 1):
                client.produce("t", b"v", partition=partition)
            client.flush(SECONDS)
            end(SECONDS)

    await asyncio.to_thread(run)
    kinds = [MarkerType.COMMIT, MarkerType.ABORT, MarkerType.COMMIT]
    for partition in (0, 1):
        async with asyncio.timeout(10):
            while (await readable(producer.client, partition=partition))[1] < 6:
                await asyncio.sleep(0.01)
        assert [kind for kind, _ in await markers(producer.client, partition=partition)] == kinds


@with_transactions(seconds=60)
async def test_librdkafka_is_fenced_by_a_second_producer_of_its_id(broker, producer):
    def run():
        first = begun(broker)
        first.begin_transaction()
        first.produce("t", b"v", partition=0)
        first.flush(SECONDS)
        second = begun(broker)
        with pytest.raises(confluent_kafka.KafkaException) as fenced:
            first.commit_transaction(SECONDS)
        assert fenced.value.args[0].fatal()
        second.begin_transaction()
        second.produce("t", b"w", partition=0)
        second.commit_transaction(SECONDS)

    await asyncio.to_thread(run)
    kinds = [kind for kind, _ in await markers(producer.client)]
    assert kinds[0] is MarkerType.ABORT


@with_transactions(seconds=60)
async def test_aiokafka_commits_and_aborts(broker, producer):
    client = aiokafka.AIOKafkaProducer(bootstrap_servers=f"127.0.0.1:{broker.port}", transactional_id="aio")
    await client.start()
    try:
        for end in (client.commit_transaction, client.abort_transaction, client.commit_transaction):
            await client.begin_transaction()
            await client.send_and_wait("t", b"v", partition=0)
            await end()
    finally:
        await client.stop()
    async with asyncio.timeout(10):
        while await readable(producer.client) != (6, 6):
            await asyncio.sleep(0.01)
    kinds = [MarkerType.COMMIT, MarkerType.ABORT, MarkerType.COMMIT]
    assert [kind for kind, _ in await markers(producer.client)] == kinds


# -- clusters that use no transactions ----------------------------------------------------------------------------


def test_librdkafka_is_told_at_once_where_the_cluster_uses_no_transactions(tmp_path):
    refusals = (
        confluent_kafka.KafkaError._UNSUPPORTED_FEATURE,
        confluent_kafka.KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    )

    async def test():
        async with broker_in(tmp_path, founded=LIVING) as broker:
            with pytest.raises(confluent_kafka.KafkaException) as refused:
                await asyncio.to_thread(begun, broker)
            assert refused.value.args[0].code() in refusals, refused.value

    run(test, seconds=60)


@pytest.mark.parametrize(
    ("features", "says"),
    [
        (None, "(transaction.version is at level 0): `raftka cluster features upgrade transaction.version=2` turns"),
        (LIVING, "this cluster has no transactions: its brokers do not offer the feature transaction.version"),
    ],
    ids=["not raised", "not offered"],
)
def test_the_command_line_names_what_a_cluster_lacks_for_transactions(tmp_path, features, says):
    async def test():
        async with broker_in(tmp_path, founded=LIVING, features=features) as broker:
            client = await broker.client()
            await client.create_topic("orders")
            words = ("produce", "orders", "--transactional", "--brokers", f"127.0.0.1:{broker.port}")
            done = await asyncio.to_thread(raftka, *words, stdin="one\n", code=1)
            assert says in done.stderr
            assert broker.partition("orders").end_offset == 0

    run(test, seconds=60)
