"""Both protocols on the wire: transactions of one epoch at level 1, and levels that change while a transaction is open.

A level decides what ApiVersions tells clients. A broker serves both kinds of client at level 1 and at level 2, so a
client that has not heard of the change goes on as before.
"""

import asyncio

import pytest
from bad_input import code_of, produce
from transaction_calls import ADDING_PRODUCE, PLAIN_PRODUCE, let_time_pass, markers, readable, with_transactions

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import ApiVersionsRequest, UpdateFeaturesRequest
from kafka_api.transactions import transaction
from model.control_batch import MarkerType
from model.features import TRANSACTION_VERSION

NONE = ErrorCode.NONE
COMMIT, ABORT = MarkerType.COMMIT, MarkerType.ABORT
UPGRADE, SAFE_DOWNGRADE = 1, 2
# What the cluster is at first, and then.
CHANGES = [(2, 1), (1, 2)]


async def added(producer, partition):
    """Add a partition as soon as the markers of the last transaction are there."""
    async with asyncio.timeout(10):
        while (code := await producer.add(partition)) is ErrorCode.CONCURRENT_TRANSACTIONS:
            await asyncio.sleep(0.01)
    assert code is NONE


@with_transactions(level=1)
async def test_transactions_of_the_older_protocol_follow_each_other_in_one_epoch(broker, producer):
    """Without InitProducerId in between, as its clients do. Sequences go on, and markers differ by their decision only."""
    await producer.init(version=4)
    kinds = [COMMIT, ABORT, ABORT, COMMIT, COMMIT]
    for number, kind in enumerate(kinds):
        for partition in (0, 2):
            await added(producer, partition)
            assert await producer.produce(partition, b"a") is NONE
            assert await readable(producer.client, partition=partition) == (2 * number + 1, 2 * number)
        assert await producer.end(kind is COMMIT) is NONE
        # An answer that was lost.
        await producer.until_state("CompleteCommit" if kind is COMMIT else "CompleteAbort")
        assert await producer.end(kind is COMMIT) is NONE
        assert await producer.end(kind is ABORT) is ErrorCode.INVALID_TXN_STATE
        # A batch of the transaction that comes once more opens nothing; a new one is in no transaction.
        assert await produce(producer, version=PLAIN_PRODUCE, base_sequence=number) is NONE
        assert await producer.produce(0, b"late") is ErrorCode.TRANSACTION_ABORTABLE
        assert await readable(producer.client) == (2 * number + 2, 2 * number + 2)
    assert producer.epoch == 0
    for partition in (0, 2):
        assert await markers(producer.client, partition=partition) == [(kind, 0) for kind in kinds]
        result = await producer.client.fetch("t", 0, partition=partition, isolation_level=1)
        rows = [(each.producer_id, each.first_offset) for each in result.aborted_transactions]
        assert rows == [(producer.producer_id, 2), (producer.producer_id, 4)]


@with_transactions(level=1)
async def test_a_transaction_without_data_ends_and_the_next_one_is_its_own(broker, producer):
    await producer.init(version=4)
    await added(producer, 0)
    assert await producer.end() is NONE
    await added(producer, 0)
    assert await producer.produce(0) is NONE
    assert await readable(producer.client) == (1, 0)
    assert await producer.end(is_commit=False) is NONE
    await producer.until_state("CompleteAbort")
    assert await markers(producer.client) == [(ABORT, 0)]


# -- levels that change -------------------------------------------------------------------------------------------


async def change_level(client, level):
    """Raise or lower the level; return what ApiVersions tells from then on."""
    kind = UPGRADE if level == 2 else SAFE_DOWNGRADE
    update = UpdateFeaturesRequest.FeatureUpdateKey(
        feature=TRANSACTION_VERSION, max_version_level=level, upgrade_type=kind
    )
    request = UpdateFeaturesRequest(timeout_ms=5000, feature_updates=[update])
    assert (await client.call(ApiKey.UPDATE_FEATURES, 2, request)).error_code == 0
    told = await client.call(ApiKey.API_VERSIONS, 4, ApiVersionsRequest(client_software_name="test"))
    assert {each.name: each.max_version_level for each in told.finalized_features}[TRANSACTION_VERSION] == level


def at_changing_level(test):
    """Run a test whose level is another one from some moment on; its producer has not heard of it."""

    @pytest.mark.parametrize(("before", "then"), CHANGES)
    def wrapped(tmp_path, monkeypatch, before, then):
        monkeypatch.setattr(transaction, "_OFFICE_MS", 0)

        @with_transactions(level=2)
        async def whole(broker, producer):
            if before == 1:
                await change_level(producer.client, 1)
            producer.is_raising = before == 2
            await test(broker, producer, then)

        whole(tmp_path)

    wrapped.__name__ = test.__name__
    return wrapped


@at_changing_level
async def test_a_client_that_has_not_heard_of_a_new_level_ends_its_transaction_as_it_began(broker, producer, then):
    await producer.init()
    assert await producer.send() is NONE
    await change_level(producer.client, then)
    assert await producer.send(partition=2) is NONE
    before = producer.epoch
    assert await producer.end() is NONE
    assert producer.epoch == before + producer.is_raising
    await producer.until_state("CompleteCommit")
    # The answer was lost.
    again = await producer.end_once(epoch=before)
    assert (code_of(again), again.producer_epoch) == (NONE, producer.epoch if producer.is_raising else -1)
    for partition in (0, 2):
        assert await markers(producer.client, partition=partition) == [(COMMIT, producer.epoch)]
        assert await readable(producer.client, partition=partition) == (2, 2)


@at_changing_level
async def test_a_client_that_has_heard_of_a_new_level_ends_its_transaction_by_the_other_protocol(
    broker, producer, then
):
    await producer.init()
    assert await producer.send() is NONE
    await change_level(producer.client, then)
    producer.is_raising = then == 2
    # A batch of what is open asks nobody; a partition more is added by the one or the other.
    assert await producer.produce(0, version=ADDING_PRODUCE if producer.is_raising else PLAIN_PRODUCE) is NONE
    assert await producer.send(partition=2) is NONE
    assert await producer.end(is_commit=False) is NONE
    assert producer.epoch == producer.is_raising
    await producer.until_state("CompleteAbort")
    for partition in (0, 2):
        assert await markers(producer.client, partition=partition) == [(ABORT, producer.epoch)]
    # And the next one in its epoch.
    producer.sequences = {} if producer.is_raising else producer.sequences
    if not producer.is_raising:
        await added(producer, 0)
    assert await producer.produce(0, version=ADDING_PRODUCE if producer.is_raising else PLAIN_PRODUCE) is NONE
    assert await producer.end() is NONE
    await producer.until_state("CompleteCommit")
    assert (await markers(producer.client))[-1] == (COMMIT, producer.epoch)


@at_changing_level
async def test_a_transaction_that_times_out_is_aborted_by_the_level_of_that_time(broker, producer, then):
    await producer.init(timeout_ms=60_000)
    assert await producer.send() is NONE
    await change_level(producer.client, then)
    let_time_pass(broker, 60_000)
    await producer.until_state("CompleteAbort")
    # Only level 2 lets its producer learn the new epoch, by an abort.
    said = NONE if then == 2 else ErrorCode.PRODUCER_FENCED
    assert await producer.end(is_commit=True, version=5) is ErrorCode.PRODUCER_FENCED
    assert await producer.end(is_commit=False, version=5) is said
    assert await markers(producer.client) == [(ABORT, 1)]
    await producer.init()
    producer.is_raising = then == 2
    assert await producer.send() is NONE
    assert await producer.end() is NONE
