"""What the seed documents promise of transactions: rows F21 and R9 of docs/seed-rows.md."""

import pytest
from transaction_calls import kept_of, with_transactions

from cluster.transactions.open_transactions import OpenTransactions
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from model.ids import Index
from model.record_batch import read_header
from raftka.kafka.wire.record_batches import AbortedTransaction, read_layout
from storage.entry import EntryKind
from tests.unit.kafka_api.wire_client import produce_request
from tests.unit.model.record_batches import build_batch

UNCOMMITTED, COMMITTED = 0, 1


async def seen(client, isolation_level, offset=0):
    """Return the offsets of the records that a consumer gets of "t", partition 0."""
    result = await client.fetch("t", offset, isolation_level=isolation_level)
    assert result.error_code == 0
    aborted = [AbortedTransaction(each.producer_id, each.first_offset) for each in result.aborted_transactions or ()]
    shown = [each for each in read_layout(bytes(result.records), aborted) if not (each.is_control or each.is_aborted)]
    return [offset for each in shown for offset in range(each.begin, each.end)]


async def send_plain(client):
    answer = await client.call(ApiKey.PRODUCE, 9, produce_request("t", build_batch(b"plain")))
    assert answer.responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize("is_commit", [True, False], ids=["committed", "aborted"])
@with_transactions()
async def test_row_f21_readers_choose_whether_they_see_what_is_not_decided(broker, producer, is_commit):
    client = producer.client
    await producer.init()
    await send_plain(client)
    assert await producer.send(b"a", b"b") is ErrorCode.NONE
    await send_plain(client)
    # While it is open, its records are there for one kind of reader, and for the other nothing behind its beginning is.
    assert await seen(client, UNCOMMITTED) == [0, 1, 2, 3]
    assert await seen(client, COMMITTED) == [0]
    assert await producer.end(is_commit) is ErrorCode.NONE
    await producer.until_state("CompleteCommit" if is_commit else "CompleteAbort")
    assert await seen(client, UNCOMMITTED) == [0, 1, 2, 3]
    assert await seen(client, COMMITTED) == ([0, 1, 2, 3] if is_commit else [0, 3])


@with_transactions()
async def test_row_f21_fails_if_what_is_open_counts_as_decided(broker, producer, monkeypatch):
    monkeypatch.setattr(OpenTransactions, "first_open_at", lambda transactions, visible: None)
    await producer.init()
    assert await producer.send(b"a", b"b") is ErrorCode.NONE
    assert await seen(producer.client, COMMITTED) == [0, 1]
    assert await producer.end(is_commit=False) is ErrorCode.NONE
    # It was shown, and is aborted.
    await producer.until_state("CompleteAbort")
    assert await seen(producer.client, COMMITTED) == []


@with_transactions()
async def test_row_r9_batches_markers_and_decisions_are_entries_of_kind_data(broker, producer):
    await producer.init()
    assert await producer.send(b"a") is ErrorCode.NONE
    assert await producer.end() is ErrorCode.NONE
    await producer.until_state("CompleteCommit")
    partition, coordinator = broker.partition("t"), kept_of(broker).partition
    of_partition = [entry for entry in await entries(partition) if entry.kind is EntryKind.DATA]
    assert [read_header(entry.payload).is_control for entry in of_partition] == [False, True]
    # Empty, Ongoing, Prepare and Complete.
    of_coordinator = [entry.kind for entry in await entries(coordinator)]
    assert of_coordinator.count(EntryKind.DATA) == 4
    assert {*of_coordinator, *(entry.kind for entry in await entries(partition))} == {
        EntryKind.BARRIER,
        EntryKind.DATA,
    }


async def entries(partition):
    return await partition._log.read(Index(1), 2**20)
