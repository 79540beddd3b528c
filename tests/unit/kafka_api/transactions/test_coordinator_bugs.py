"""Bugs planted in the transaction coordinator, and the story that finds each (RFC 0021, section 7)."""

import asyncio

import pytest
from test_coordinator_failover import with_brokers
from transaction_calls import with_transactions

from cluster.transactions import transaction_table
from cluster.transactions.markers import MarkerResult
from cluster.transactions.records import TransactionState
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.transactions import transaction
from kafka_api.transactions.transaction import Transaction
from tests.unit.cluster.cluster_nodes import until

_TIME_OUT = Transaction.time_out


# -- stories ------------------------------------------------------------------------------------------------------


def _a_producer_does_not_go_on_behind_its_time_out(tmp_path, patch):
    """It was stopped for a while, and does not know that its transaction was aborted.

    Else the rest of the transaction would be committed alone.
    """
    patch.setattr(transaction, "_OFFICE_MS", 0)

    @with_transactions()
    async def test(broker, producer):
        await producer.init(timeout_ms=100)
        assert await producer.send(b"first half") is ErrorCode.NONE
        assert await producer.until_state("CompleteAbort") == "CompleteAbort"
        assert await producer.send(b"second half") is ErrorCode.INVALID_PRODUCER_EPOCH

    test(tmp_path)


def _a_new_coordinator_goes_on_with_what_is_decided(tmp_path, patch):
    """The former one has answered its client, and no marker of it has arrived."""

    async def lost(decided, timeout):
        return [dict.fromkeys(each.partitions, MarkerResult.FAILED) for each in decided]

    async def test(brokers):
        brokers.kept().markers._send = lost
        assert await brokers.send() is ErrorCode.NONE
        assert await brokers.again(brokers.producer.end) is ErrorCode.NONE
        await brokers.move_coordinator()
        servers = brokers.servers
        await until(lambda: brokers.replica.group in servers[brokers.coordinator]._transactions._active)
        kept = brokers.kept()
        await until(lambda: kept.is_loaded)
        name = brokers.producer.name
        # Between the last marker and the record that says so it is neither on its way nor complete.
        for _ in range(100):
            if name in kept.markers._known or kept.view(name).state.is_complete:
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"nobody sends the markers of {kept.view(name)}")

    with_brokers(tmp_path, test)


# -- bugs ---------------------------------------------------------------------------------------------------------


def _time_outs_leave_the_epoch(patch):
    def time_out(machine, *arguments):
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(Transaction, "_fence", _abort_as_asked_for_by_the_producer)
            return _TIME_OUT(machine, *arguments)

    patch.setattr(Transaction, "time_out", time_out)


def _abort_as_asked_for_by_the_producer(machine, now_ms, level, fresh_id, answer, is_for_another):
    return machine._write(machine._decided(now_ms, False, 0), answer, machine._last)


def _decisions_are_forgotten_at_a_failover(patch):
    patch.setattr(transaction_table, "_IDLE", set(TransactionState) - {TransactionState.ONGOING})


BUGS = {
    "time-out without a new epoch": (_time_outs_leave_the_epoch, _a_producer_does_not_go_on_behind_its_time_out),
    "decision forgotten at a failover": (
        _decisions_are_forgotten_at_a_failover,
        _a_new_coordinator_goes_on_with_what_is_decided,
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_coordinator_keeps_what_it_promises(bug, tmp_path, monkeypatch):
    BUGS[bug][1](tmp_path, monkeypatch)


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_planted_in_the_coordinator_is_found(bug, tmp_path, monkeypatch):
    plant, story = BUGS[bug]
    plant(monkeypatch)
    with pytest.raises(AssertionError) as caught:
        story(tmp_path, monkeypatch)
    assert "tests" in caught.traceback[-1].path.parts, "an assertion of the product counts for nothing"
