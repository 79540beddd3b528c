"""What brokers tell of transactions: how many are open and for how long, how far stable offsets lag, what was decided."""

import asyncio
import json
from types import SimpleNamespace

from cluster.transactions.marker_writer import MarkerResult
from cluster.transactions.open_transactions import OpenTransactions, Transaction
from kafka_api.protocol.error_codes import ErrorCode
from model.ids import GroupId, Index, Offset
from raftka.broker.health import HealthReader
from raftka.broker.stall_watch import StallWatch
from raftka.broker.transaction_metrics import TransactionCollector
from raftka.broker.transaction_watch import PER_PARTITION_MAX, TransactionWatch
from raftka.cli import admin_picture
from raftka.cli.admin_picture import read_details
from raftka.health.picture import HANGING_MARGIN_SECONDS, BrokerPicture
from raftka.health.rules import judge
from tests.unit.kafka_api.transactions.transaction_calls import Producer, kept_of, with_transactions


def rows_of(broker, stalls):
    collector = TransactionCollector(broker.server.transactions, stalls.transactions)
    rows = collector.rows(asyncio.get_running_loop().time())
    return {row.name.removeprefix("raftka_"): row.value for row in rows if row is not None}


@with_transactions()
async def test_an_open_transaction_is_told_and_its_end_is_counted(broker, producer):
    stalls = StallWatch(broker.node)
    await stalls.look()
    before = rows_of(broker, stalls)
    assert set(before.values()) == {0}
    await producer.init()
    assert await producer.send(b"a", b"b") is ErrorCode.NONE
    assert await producer.send(b"c", partition=2) is ErrorCode.NONE
    await stalls.look()
    rows = rows_of(broker, stalls)
    assert (rows["open_transactions"], rows["transactional_ids"], rows["hanging_transactions"]) == (2, 1, 0)
    assert (rows["stable_offset_lag_max"], rows["stable_offset_lag_partitions"]) == (2, 2)
    assert rows["oldest_transaction_seconds"] >= 0
    assert await producer.end() is ErrorCode.NONE
    await producer.until_state("CompleteCommit")
    rows = rows_of(broker, stalls)
    assert (rows["open_transactions"], rows["stable_offset_lag_max"], rows["oldest_transaction_seconds"]) == (0, 0, 0)
    assert (rows["transactions_committed_total"], rows["transactions_aborted_total"]) == (1, 0)
    assert (rows["transaction_markers_sent_total"], rows["transaction_markers_resent_total"]) == (2, 0)


@with_transactions()
async def test_a_producer_that_was_replaced_is_counted_and_so_is_the_abort_of_its_transaction(broker, producer):
    await producer.init()
    assert await producer.send(b"a") is ErrorCode.NONE
    await Producer(producer.client).init()
    assert await producer.end() is ErrorCode.PRODUCER_FENCED
    rows = rows_of(broker, StallWatch(broker.node))
    assert (rows["producers_fenced_total"], rows["transactions_aborted_total"]) == (1, 1)


@with_transactions()
async def test_markers_that_a_leader_is_asked_for_again_are_counted(broker, producer):
    await producer.init()
    assert await producer.send(b"a") is ErrorCode.NONE
    sender, tries = kept_of(broker).markers, []
    send = sender._send

    async def lost_twice(decided, timeout):
        tries.append(decided)
        if len(tries) < 3:
            return [dict.fromkeys(each.partitions, MarkerResult.FAILED) for each in decided]
        return await send(decided, timeout)

    sender._send = lost_twice
    assert await producer.end() is ErrorCode.NONE
    await producer.until_state("CompleteCommit")
    rows = rows_of(broker, StallWatch(broker.node))
    assert (rows["transaction_markers_sent_total"], rows["transaction_markers_resent_total"]) == (1, 2)


@with_transactions()
async def test_a_transaction_that_times_out_is_counted(broker, producer):
    producer.timeout_ms = 1
    await producer.init()
    assert await producer.send(b"a") is ErrorCode.NONE
    kept = kept_of(broker)
    # A new coordinator gives clients 10 s to find it.
    kept._held["sink"].machine._office_ms = -10_000
    kept.timeouts.arm(kept._held["sink"], 0)
    kept.look()
    await producer.until_state("CompleteAbort")
    rows = rows_of(broker, StallWatch(broker.node))
    assert (rows["transactions_timed_out_total"], rows["transactions_aborted_total"]) == (1, 1)


@with_transactions()
async def test_a_hanging_transaction_is_a_finding_of_its_leader_and_of_the_doctor(broker, producer, monkeypatch):
    # Whatever is open hangs.
    stalls = StallWatch(broker.node, TransactionWatch(lambda: -1 - HANGING_MARGIN_SECONDS))
    reader = HealthReader(broker.node, stalls, lambda: None)
    await producer.init()
    await producer.send(b"a")
    await producer.end()
    await producer.until_state("CompleteCommit")
    await producer.send(b"b")
    await stalls.look()
    (finding,) = [each for each in judge(await reader.read_picture()) if each.what == "transactions"]
    # A record and a marker lie before it.
    assert f"t-0: the transaction of producer {producer.producer_id}, epoch 1, has been open" in finding.words
    assert finding.words.endswith("readers at read_committed wait at offset 2")
    assert "raftka txn abort t/0 --start-offset 2" in finding.cure
    told = json.loads(await reader._judged())
    assert finding.words in [each["words"] for each in told["findings"]]
    monkeypatch.setattr(admin_picture, "get_json", lambda *_: (200, told))
    monkeypatch.setattr(admin_picture, "_clock_offset", lambda _: None)
    monkeypatch.setattr(admin_picture, "read_fills", lambda _: ())
    seen, _ = read_details("h:1", BrokerPicture(1))
    assert [(each.topic, each.number, each.epoch, each.first_offset, each.hangs) for each in seen.transactions] == [
        ("t", 0, 1, 2, True)
    ]
    await producer.end()
    assert [each for each in judge(await reader.read_picture()) if each.what == "transactions"] == []


class Replica(SimpleNamespace):
    """One replica, as the watch sees it."""

    def __init__(self, *transactions: Transaction) -> None:
        super().__init__(group=GroupId("g"), is_in_office=True)
        self.restore(*transactions)

    def restore(self, *transactions: Transaction) -> None:
        state = OpenTransactions()
        state.restore(transactions)
        self.transactional = SimpleNamespace(transactions=state, visible=lambda: Index(1_000))


def opened(number: int) -> Transaction:
    return Transaction(number, 0, Index(number), Offset(10 * number), 0)


def look(watch: TransactionWatch, replica: Replica, now: float) -> list[tuple[int, float]]:
    """Return the producers with something open, and since when."""
    watch.look_at(replica, now)
    watch.end_look()
    return [(each.transaction.producer_id, each.since) for each in watch.led()]


def test_the_age_of_a_transaction_outlives_a_restored_replica_and_an_election() -> None:
    watch, replica = TransactionWatch(), Replica(opened(1))
    assert look(watch, replica, 5.0) == [(1, 5.0)]
    replica.is_in_office = False
    assert look(watch, replica, 6.0) == []
    replica.restore(opened(1), opened(2))
    replica.is_in_office = True
    assert look(watch, replica, 7.0) == [(1, 5.0), (2, 7.0)]


def test_a_transaction_that_has_ended_since_the_last_look_is_not_told() -> None:
    watch, replica = TransactionWatch(), Replica(opened(1), opened(2))
    look(watch, replica, 5.0)
    replica.transactional.transactions.end(1, Index(900))
    assert [each.transaction.producer_id for each in watch.led()] == [2]


def test_the_earliest_transactions_of_a_partition_are_watched() -> None:
    replica = Replica(*(opened(number) for number in range(1, 100)))
    assert [producer for producer, _ in look(TransactionWatch(), replica, 0.0)] == [*range(1, PER_PARTITION_MAX + 1)]


def test_a_transaction_hangs_after_the_longest_time_that_a_producer_may_ask_for() -> None:
    watch = TransactionWatch(lambda: 30.0)
    look(watch, Replica(opened(1)), 5.0)
    (seen,) = watch.led()
    assert not watch.hangs(seen, 35.0 + HANGING_MARGIN_SECONDS)
    assert watch.hangs(seen, 36.0 + HANGING_MARGIN_SECONDS)
