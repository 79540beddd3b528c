"""A coordinator that changes in each state of a transaction: what the next one does, and what the former one says."""

import asyncio

import pytest
from coordinating_brokers import AGAIN, with_brokers
from transaction_calls import QUICK, Producer, markers, readable

from cluster.transactions.marker_writer import MarkerResult
from cluster.transactions.transactions_topic import transactions_partition
from kafka_api.protocol.error_codes import ErrorCode
from model.control_batch import MarkerType
from tests.unit.cluster.cluster_nodes import until

# Of transaction.version: at 2 Produce adds partitions, and each end raises the epoch (KIP-890).
of_both_protocols = pytest.mark.parametrize("level", [1, 2])


@of_both_protocols
def test_a_transaction_goes_on_at_the_next_coordinator(tmp_path, level):
    async def test(brokers):
        assert await brokers.send() is ErrorCode.NONE
        former = await brokers.move_coordinator()
        at_former = Producer(brokers.clients[former], producer_id=brokers.producer.producer_id, epoch=0)
        # It was told of its end, or will be: it says nothing of the id any more.
        assert await at_former.add() is ErrorCode.NOT_COORDINATOR
        assert (await at_former.end_once()).error_code == ErrorCode.NOT_COORDINATOR
        assert await brokers.send(1) is ErrorCode.NONE
        assert await brokers.end() is ErrorCode.NONE
        await brokers.completed("CompleteCommit")
        for partition in (0, 1):
            assert await markers(brokers.leader(partition), partition=partition) == [(MarkerType.COMMIT, level - 1)]
            assert await readable(brokers.leader(partition), partition=partition) == (2, 2)

    with_brokers(tmp_path, test, level)


@of_both_protocols
def test_the_next_coordinator_aborts_what_nobody_ends(tmp_path, monkeypatch, level):
    monkeypatch.setattr("kafka_api.transactions.transaction._OFFICE_MS", 300)

    async def test(brokers):
        brokers.producer.timeout_ms = 1
        # The first one ends before it has looked.
        brokers.kept().look = lambda: None
        await brokers.init()
        assert await brokers.send() is ErrorCode.NONE
        await brokers.move_coordinator()
        await brokers.completed("CompleteAbort")
        assert await readable(brokers.leader()) == (2, 2)

    with_brokers(tmp_path, test, level)


@of_both_protocols
def test_the_next_coordinator_sends_the_markers_of_a_decision(tmp_path, level):
    """Each marker of the former one is lost."""

    async def lost(decided, timeout):
        return [dict.fromkeys(each.partitions, MarkerResult.FAILED) for each in decided]

    async def test(brokers):
        brokers.kept().markers._send = lost
        assert await brokers.send() is ErrorCode.NONE
        assert await brokers.end() is ErrorCode.NONE
        assert (await brokers.producer.describe()).transaction_state == "PrepareCommit"
        assert await readable(brokers.leader()) == (1, 0)
        await brokers.move_coordinator()
        await brokers.completed("CompleteCommit")
        assert await markers(brokers.leader()) == [(MarkerType.COMMIT, level - 1)]

    with_brokers(tmp_path, test, level)


@of_both_protocols
def test_a_marker_that_was_written_for_the_former_coordinator_is_not_written_twice(tmp_path, level):
    async def test(brokers):
        kept = brokers.kept()
        send = kept.markers._send

        async def first_only(decided, timeout):
            cut = [each._replace(partitions=[place for place in each.partitions if place[1] == 0]) for each in decided]
            results = await send(cut, timeout)
            return [
                dict.fromkeys(each.partitions, MarkerResult.FAILED) | said
                for each, said in zip(decided, results, strict=True)
            ]

        kept.markers._send = first_only
        assert [await brokers.send(partition) for partition in (0, 1)] == [ErrorCode.NONE] * 2
        assert await brokers.end(is_commit=False) is ErrorCode.NONE
        await until(lambda: brokers.cluster.leader_of("t").last_stable_offset == 2)
        assert await readable(brokers.leader(1), partition=1) == (1, 0)
        await brokers.move_coordinator()
        await brokers.completed("CompleteAbort")
        for partition in (0, 1):
            assert await markers(brokers.leader(partition), partition=partition) == [(MarkerType.ABORT, level - 1)]

    with_brokers(tmp_path, test, level)


def test_a_data_leader_that_hangs_holds_up_no_transaction_of_other_partitions(tmp_path, monkeypatch):
    """It takes the message and answers nothing, as a stopped process or a disk that hangs does."""
    # One message is on its way at a time, and is waited for until the test ends.
    monkeypatch.setattr("kafka_api.transactions.marker_sender._ROUNDS_MAX", 1)
    monkeypatch.setattr("kafka_api.transactions.marker_sender._ROUND_TIMEOUT", 3600.0)
    goes_on = asyncio.Event()

    async def test(brokers):
        slow = brokers.producer
        quick = Producer(brokers.clients[1], name=same_partition_as(slow.name))
        hanging = await brokers.lead_apart()
        writer = brokers.cluster[hanging].markers.writer
        write = writer.write

        async def hang(request):
            await goes_on.wait()
            return await write(request)

        monkeypatch.setattr(writer, "write", hang)
        assert await brokers.send(0) is ErrorCode.NONE
        assert await brokers.again(slow.end) is ErrorCode.NONE
        brokers.producer = quick
        for _ in range(3):
            await brokers.init()
            assert await brokers.send(1) is ErrorCode.NONE
            assert await brokers.again(quick.end) is ErrorCode.NONE
            await brokers.completed("CompleteCommit")
        assert await slow.state() == "PrepareCommit"
        goes_on.set()
        await slow.until_state("CompleteCommit")

    with_brokers(tmp_path, test)


def same_partition_as(name):
    """Return another id that the same coordinator keeps."""
    number = transactions_partition(name, QUICK.topic_partitions)
    others = (f"other{each}" for each in range(100))
    return next(each for each in others if transactions_partition(each, QUICK.topic_partitions) == number)


def test_a_coordinator_without_a_majority_neither_admits_nor_fences(tmp_path):
    """It may have been deposed: the next one may have aborted what it takes for open."""

    async def test(brokers):
        assert await brokers.send() is ErrorCode.NONE
        number = brokers.coordinator
        producer = brokers.producer
        at_old = Producer(brokers.clients[number], producer_id=producer.producer_id, epoch=producer.epoch)
        others = [each for each in brokers.cluster.nodes if each != number]
        for other in others:
            await brokers.servers[other].stop()
        await brokers.cluster.stop(*others)
        said = await asyncio.gather(at_old.add_each("t", [0], version=5, verify_only=True))
        assert said[0] != [ErrorCode.NONE]
        assert (await at_old.end_once(epoch=7)).error_code in AGAIN

    with_brokers(tmp_path, test)
