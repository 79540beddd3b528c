"""Transactional ids that nobody uses: which of several make room in a full table, and who forgets them after a failover."""

from dataclasses import replace
from itertools import islice

import pytest
from coordinating_brokers import AGAIN, HeldEntries, with_brokers
from transaction_calls import QUICK, Producer, kept_of, with_transactions

from cluster.state_bounds import StateOptions
from cluster.transactions.records import StoredTransaction, TransactionState
from cluster.transactions.transactions_topic import transactions_partition
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.transactions import kept_transactions
from tests.unit.cluster.cluster_nodes import until

HOUR, DAY = 3_600_000, 24 * 3_600_000
EMPTY, COMMITTED = TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT
ABORTED = TransactionState.COMPLETE_ABORT


async def remember(kept, name, idle_ms, state=EMPTY, **fields):
    """Let an id be in the table that was used last so long ago."""
    stored = StoredTransaction(900, 3, 60_000, state, frozenset(), kept.now_ms() - idle_ms, **fields)
    await kept.write(name, stored)
    await until(lambda: kept.view(name) == stored)


def beside_sink(count):
    """Return ids that are kept in the same partition as "sink"."""
    names = (f"id{number}" for number in range(1000))
    place = transactions_partition("sink", QUICK.topic_partitions)
    return list(
        islice((each for each in names if transactions_partition(each, QUICK.topic_partitions) == place), count)
    )


def known(kept):
    return sorted(kept.state.table.transactional_ids())


@with_transactions(replace(QUICK, topic_partitions=1), state=StateOptions(transactional_ids_max=6))
async def test_a_full_table_forgets_ids_that_were_idle_for_over_an_hour_and_the_oldest_first(
    broker, producer, monkeypatch
):
    monkeypatch.setattr(kept_transactions, "_FORGOTTEN_AT_ONCE", 1)
    await producer.init()
    assert await producer.send() is ErrorCode.NONE
    kept = kept_of(broker)
    ages = {"a": 2 * HOUR, "b": 5 * HOUR, "c": HOUR + 60_000, "d": HOUR - 60_000}
    for (name, idle_ms), state in zip(ages.items(), (COMMITTED, EMPTY, ABORTED, EMPTY), strict=True):
        await remember(kept, name, idle_ms, state)
    await Producer(producer.client, name="n0").init()
    assert known(kept) == ["a", "b", "c", "d", "n0", "sink"]
    for number, gone in enumerate(("b", "a", "c"), start=1):
        await Producer(producer.client, name=f"n{number}").init()
        assert gone not in known(kept)
        assert len(known(kept)) == 6
    # One that was used within the hour stays, and so does what is open.
    refused = await Producer(producer.client, name="n4").init_once()
    assert refused.error_code == ErrorCode.POLICY_VIOLATION
    assert known(kept) == ["d", "n0", "n1", "n2", "n3", "sink"]
    assert await producer.end() is ErrorCode.NONE


@with_transactions(replace(QUICK, topic_partitions=1), state=StateOptions(transactional_ids_max=4))
async def test_a_full_table_forgets_all_that_are_old_enough_at_once(broker, producer):
    await producer.init()
    kept = kept_of(broker)
    for name, idle_ms in (("a", 2 * HOUR), ("b", 5 * HOUR), ("c", HOUR - 60_000)):
        await remember(kept, name, idle_ms)
    await Producer(producer.client, name="n").init()
    assert known(kept) == ["c", "n", "sink"]


@pytest.mark.parametrize("level", [1, 2])
def test_the_next_coordinator_forgets_by_the_time_of_the_last_use(tmp_path, level):
    """And not by that of its own election."""

    async def test(brokers):
        kept, (old, replaced, young) = brokers.kept(), beside_sink(3)
        await remember(kept, old, 8 * DAY, COMMITTED)
        await remember(kept, replaced, 8 * DAY, EMPTY, previous_producer_id=899)
        await remember(kept, young, 6 * DAY)
        # One that is open is not idle, however old it is.
        assert await brokers.send() is ErrorCode.NONE
        await brokers.move_coordinator()
        kept = brokers.kept()
        await until(lambda: kept.is_loaded)
        assert known(kept) == sorted(["sink", old, replaced, young])
        await kept.expire()
        await until(lambda: known(kept) == sorted(["sink", young]))
        # It is forgotten for good, and its next producer has a new id.
        await brokers.move_coordinator()
        kept = brokers.kept()
        await until(lambda: kept.is_loaded)
        assert known(kept) == sorted(["sink", young])
        former = Producer(brokers.clients[brokers.coordinator], name=old, producer_id=900, epoch=3)
        assert await former.add() is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        await former.init()
        assert former.producer_id != 900
        assert former.epoch == 0
        assert await brokers.end() is ErrorCode.NONE

    with_brokers(tmp_path, test, level)


def test_an_id_whose_deletion_was_on_its_way_is_there_or_not_and_its_producer_goes_on(tmp_path):
    async def test(brokers):
        for name, is_kept in zip(beside_sink(2), (False, True), strict=True):
            kept = brokers.kept()
            await remember(kept, name, 8 * DAY, COMMITTED)
            held = HeldEntries(brokers, brokers.replica, is_kept=is_kept)
            await kept.expire()
            await held.appended()
            # A producer that comes meanwhile waits for it, and is told to come again.
            asked = await Producer(brokers.clients[brokers.coordinator], name=name).init_once()
            assert asked.error_code in AGAIN
            await held.depose()
            kept = brokers.kept()
            await until(lambda: kept.is_loaded)  # noqa: B023
            assert (name in known(kept)) == (not is_kept)
            producer = await Producer(brokers.clients[brokers.coordinator], name=name).init()
            assert (producer.producer_id == 900, producer.epoch) == ((False, 0) if is_kept else (True, 4))

    with_brokers(tmp_path, test)
