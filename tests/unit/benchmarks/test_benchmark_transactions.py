"""The wire client that benchmarks measure transactions with, against a broker in this process."""

import asyncio
from types import SimpleNamespace

import pytest

from benchmarks.compare import transaction_rate, visible_commits
from benchmarks.compare.match import Contender
from benchmarks.plan import Plan
from benchmarks.wire.connection import WireConnection
from benchmarks.wire.transactions import commit_for, transactors
from benchmarks.wire.transactor import TV1, TV2, CommittedReader, DisturbedError, Transactor, init_producer
from kafka_api.transactions.options import TransactionOptions
from tests.unit.cluster.cluster_nodes import run
from tests.unit.kafka_api.transactions.transaction_calls import Producer, features, markers, readable
from tests.unit.kafka_api.wire_client import broker_in

_PARTITIONS = 2
_RECORDS = 10
_OPTIONS = TransactionOptions(topic_partitions=2, timeout_check_interval_ms=20)


def with_broker(tmp_path, test):
    """Run `test(client, address)` with a broker that has the topic."""

    async def whole():
        async with broker_in(tmp_path, transactions=_OPTIONS, features=features()) as broker:
            client = await broker.client()
            await client.create_topic("bench", _PARTITIONS)
            await test(client, f"127.0.0.1:{broker.port}")

    run(whole, seconds=60)


def _contender(address):
    """A cluster whose only broker is in this process; nothing else of it is asked for."""
    return Contender("raftka", SimpleNamespace(bootstrap=address, pids={}))


async def _begun(address, protocol, name="sink"):
    return await Transactor.begun(address, name, protocol, [address] * _PARTITIONS, _RECORDS)


@pytest.mark.parametrize("protocol", [TV1, TV2], ids=lambda each: each.name)
def test_each_transaction_writes_to_every_partition_and_a_reader_sees_it_once_it_is_committed(tmp_path, protocol):
    async def test(client, address):
        transactor = await _begun(address, protocol)
        reader = CommittedReader(await WireConnection.open(address), 0, 0)
        for number in range(3):
            ends = await transactor.write()
            # A marker lies behind each transaction.
            assert ends == dict.fromkeys(range(_PARTITIONS), number * 6 + 5)
            high, stable = await readable(client, "bench")
            assert (high, stable) == (number * 6 + 5, number * 6)
            _, seen_at = await asyncio.gather(transactor.commit(), reader.until(ends[0]))
            assert seen_at > 0
        for partition in range(_PARTITIONS):
            assert len(await markers(client, "bench", partition)) >= 2, "the last may still be on its way"
        await reader.close()
        await transactor.close()

    with_broker(tmp_path, test)


def test_a_producer_that_was_fenced_ends_the_run(tmp_path):
    async def test(client, address):
        transactor = await _begun(address, TV2)
        await transactor.write()
        await transactor.commit()
        await Producer(client).init()
        with pytest.raises(DisturbedError, match="PRODUCE of sink: error"):
            await transactor.write()
        with pytest.raises(DisturbedError, match="END_TXN of sink: error"):
            await transactor.commit()
        await transactor.close()

    with_broker(tmp_path, test)


def test_a_reader_that_is_refused_says_so_to_who_waits(tmp_path):
    async def test(_client, address):
        reader = CommittedReader(await WireConnection.open(address), _PARTITIONS, 0)
        with pytest.raises(DisturbedError, match="FETCH: error 3"):
            await reader.until(1)
        await reader.close()

    with_broker(tmp_path, test)


def test_an_id_that_is_refused_ends_the_run(tmp_path):
    async def test(_client, address):
        connection = await WireConnection.open(address)
        with pytest.raises(DisturbedError, match="INIT_PRODUCER_ID of late: error 50"):
            await init_producer(connection, "late", TV1, timeout_ms=2**31 - 1)
        await connection.close()

    with_broker(tmp_path, test)


def test_each_producer_commits_within_the_window(tmp_path):
    async def test(client, address):
        told = []
        async with transactors(address, [address] * _PARTITIONS, TV2, _RECORDS, producers=2) as found:
            committed = await commit_for(found, 0.0, 0.3, lambda: told.append("began"), lambda: told.append("ended"))
        assert told == ["began", "ended"]
        assert len(committed.samples) >= 2
        assert 0 < max(committed.samples) <= committed.seconds
        async with asyncio.timeout(10):
            # Markers come behind the answers to commits.
            while (ends := await readable(client, "bench"))[0] != ends[1]:
                await asyncio.sleep(0.01)
        # Five records and a marker each.
        assert ends[0] == 6 * len(committed.samples)

    with_broker(tmp_path, test)


_SHORT = Plan(pairs=1, seconds=0.3, settle_seconds=0.1)


@pytest.mark.parametrize("protocol", [TV1, TV2], ids=lambda each: each.name)
def test_a_run_tells_how_long_transactions_took_and_when_they_were_visible(tmp_path, monkeypatch, protocol):
    async def test(_client, address):
        # It would ask librdkafka, in the loop of the broker.
        for module in (transaction_rate, visible_commits):
            monkeypatch.setattr(module, "leaders_of", lambda *_: [address] * _PARTITIONS)
        case = transaction_rate.Case(protocol, _PARTITIONS)
        rate = await transaction_rate._rate(_contender(address), case, _SHORT)
        assert rate["errors"] == 0
        assert rate["transactions_per_second"] > 0
        assert 0 < rate["p50_ms"] <= rate["p99_ms"]
        visible = await visible_commits._visible(_contender(address), protocol, _SHORT)
        assert visible["errors"] == 0
        assert visible["answered_p50_ms"] > 0
        assert 0 < visible["p50_ms"] <= visible["p99_ms"]

    with_broker(tmp_path, test)


def test_a_run_that_a_broker_disturbs_does_not_count(tmp_path, monkeypatch, capsys):
    async def test(_client, address):
        # The topic has no such partition.
        for module in (transaction_rate, visible_commits):
            monkeypatch.setattr(module, "leaders_of", lambda *_: [address] * (_PARTITIONS + 1))
        for case in (transaction_rate.Case(TV1, 1), transaction_rate.Case(TV2, 1)):
            assert await transaction_rate._rate(_contender(address), case, _SHORT) == {"errors": 1}
        assert await visible_commits._visible(_contender(address), TV2, _SHORT) == {"errors": 1}

    with_broker(tmp_path, test)
    assert capsys.readouterr().out.count("error") == 3
