"""A coordinator that is deposed while a record of a transaction is on its way: appended, and not known to be committed.

Each record is lost in one round, and kept by the next coordinator in the other one. The client has heard of neither: it
asks again, and finds one outcome.
"""

import asyncio

import pytest
from coordinating_brokers import AGAIN, HeldEntries, with_brokers
from transaction_calls import ADDING_PRODUCE, Producer, markers, readable

from cluster.transactions.markers import MarkerResult
from cluster.transactions.records import StoredTransaction, TransactionState
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.transactions.transaction_steps import GIVEN_EPOCH_MAX
from model.control_batch import MarkerType

# Of transaction.version: at 2 Produce adds partitions, and each end raises the epoch (KIP-890).
of_both_protocols = pytest.mark.parametrize("level", [1, 2])
FATES = (False, True)


async def deposed_amid(brokers, ask, *, is_kept):
    """Ask the coordinator for a change, and depose it once its record is appended; return what it has answered."""
    held = HeldEntries(brokers, brokers.replica, is_kept=is_kept)
    asking = asyncio.ensure_future(ask())
    await held.appended()
    await held.depose()
    return await asking


def code_of(answer):
    return ErrorCode(getattr(answer, "error_code", answer))


@of_both_protocols
def test_a_decision_that_was_on_its_way_is_lost_or_kept_as_a_whole(tmp_path, level):
    async def test(brokers):
        kinds = []
        for is_kept, is_commit in ((False, True), (True, False), (True, True)):
            producer, epoch = brokers.producer, brokers.producer.epoch
            if level == 1:
                assert await brokers.again(producer.add) is ErrorCode.NONE
            assert await brokers.send() is ErrorCode.NONE
            kind = MarkerType.COMMIT if is_commit else MarkerType.ABORT
            answer = await deposed_amid(brokers, lambda: producer.end_once(is_commit), is_kept=is_kept)  # noqa: B023
            assert code_of(answer) in AGAIN
            if is_kept:
                await brokers.completed("CompleteCommit" if is_commit else "CompleteAbort")
            else:
                assert (await brokers.again(producer.describe)).transaction_state == "Ongoing"
            # The client has heard nothing, and asks again.
            assert await brokers.end(is_commit) is ErrorCode.NONE
            assert producer.epoch == epoch + level - 1
            await brokers.completed("CompleteCommit" if is_commit else "CompleteAbort")
            kinds.append((kind, producer.epoch))
            assert await markers(brokers.leader()) == kinds
            assert await readable(brokers.leader()) == (2 * len(kinds), 2 * len(kinds))

    with_brokers(tmp_path, test, level)


@of_both_protocols
def test_a_transaction_whose_markers_are_all_written_is_completed_by_the_next_coordinator(tmp_path, level):
    """Complete is not written, or appended and lost, or appended and kept."""

    async def test(brokers):
        held = []

        def disturb(fate):
            kept = brokers.kept()
            send = kept.markers._send

            async def sent(decided, timeout):
                results = await send(decided, timeout)
                assert {said for each in results for said in each.values()} == {MarkerResult.DONE}
                if fate is None:
                    kept._held["sink"].machine.complete = lambda now_ms: None
                else:
                    held.append(HeldEntries(brokers, brokers.replica, is_kept=fate))
                return results

            kept.markers._send = sent

        for number, fate in enumerate((None, *FATES), start=1):
            disturb(fate)
            for partition in (0, 1):
                assert await brokers.send(partition) is ErrorCode.NONE
            assert await brokers.end() is ErrorCode.NONE
            for partition in (0, 1):
                async with asyncio.timeout(10):
                    while await readable(brokers.leader(partition), partition=partition) != (2 * number, 2 * number):
                        await asyncio.sleep(0.01)
            if fate is None:
                assert (await brokers.producer.describe()).transaction_state == "PrepareCommit"
                await brokers.move_coordinator()
            else:
                await held[-1].appended()
                await held[-1].depose()
            await brokers.completed("CompleteCommit")
            # The next one may have sent the markers once more: none of them is written twice.
            for partition in (0, 1):
                assert len(await markers(brokers.leader(partition), partition=partition)) == number
            if level == 1:
                brokers.producer.sequences = {}
                await brokers.init()

    with_brokers(tmp_path, test, level)


@of_both_protocols
def test_a_new_producer_whose_record_was_on_its_way_fences_the_former_one_once_it_is_let_in(tmp_path, level):
    async def test(brokers):
        for is_kept in FATES:
            former = Producer(brokers.producer.client, producer_id=brokers.producer.producer_id)
            former.epoch = brokers.producer.epoch
            assert code_of(await deposed_amid(brokers, brokers.producer.init_once, is_kept=is_kept)) in AGAIN
            if not is_kept:
                # Nobody has replaced it: it goes on.
                assert await brokers.send() is ErrorCode.NONE
                assert await brokers.end() is ErrorCode.NONE
                await brokers.completed("CompleteCommit")
                former.epoch = brokers.producer.epoch
            await brokers.init()
            # An epoch that nobody was told of is not given to anybody.
            assert brokers.producer.epoch == former.epoch + (2 if is_kept else 1)
            former.client = brokers.producer.client
            assert code_of(await former.end_once()) is ErrorCode.PRODUCER_FENCED
            assert await former.add() is ErrorCode.PRODUCER_FENCED
            assert await brokers.send() is ErrorCode.NONE
            assert await brokers.end() is ErrorCode.NONE
            await brokers.completed("CompleteCommit")

    with_brokers(tmp_path, test, level)


@of_both_protocols
def test_a_partition_whose_record_was_on_its_way_is_added_again(tmp_path, level):
    async def test(brokers):
        producer = brokers.producer
        # AddPartitionsToTxn of the client, or the question of the partition's leader for Produce 12.
        if level == 1:

            async def add():
                return await producer.add(1)
        else:

            async def add():
                return await producer.produce(1, version=ADDING_PRODUCE, client=brokers.leader(1))

        for number, is_kept in enumerate(FATES, start=1):
            assert await brokers.send() is ErrorCode.NONE
            assert code_of(await deposed_amid(brokers, add, is_kept=is_kept)) in AGAIN
            assert await readable(brokers.leader(1), partition=1) == (2 * number - 2, 2 * number - 2)
            described = await brokers.again(producer.describe)
            assert [each.partitions for each in described.topics] == [[0, 1] if is_kept else [0]]
            assert await brokers.send(1) is ErrorCode.NONE
            assert await brokers.end() is ErrorCode.NONE
            await brokers.completed("CompleteCommit")
            for partition in (0, 1):
                assert await readable(brokers.leader(partition), partition=partition) == (2 * number, 2 * number)
            if level == 1:
                await brokers.init()

    with_brokers(tmp_path, test, level)


def test_a_partition_that_was_added_and_got_nothing_ends_with_its_transaction(tmp_path):
    async def test(brokers):
        producer = brokers.producer
        assert await brokers.send() is ErrorCode.NONE
        assert code_of(await deposed_amid(brokers, lambda: producer.add(1), is_kept=True)) in AGAIN
        assert await brokers.end() is ErrorCode.NONE
        await brokers.completed("CompleteCommit")
        assert await readable(brokers.leader(1), partition=1) == (0, 0)

    with_brokers(tmp_path, test, 1)


# -- epochs that are used up ----------------------------------------------------------------------------------------


async def with_the_last_epoch(brokers):
    """Let the producer be in its last epoch, with a record in the log, and lose all markers."""
    producer = brokers.producer
    last = StoredTransaction(5, GIVEN_EPOCH_MAX, 60_000, TransactionState.EMPTY, frozenset(), brokers.kept().now_ms())
    # As if it had begun and ended 32,766 times: the log has it, and no machine is held.
    brokers.kept()._held.clear()
    await brokers.kept().write(producer.name, last)
    producer.producer_id, producer.epoch = 5, GIVEN_EPOCH_MAX
    assert await brokers.send() is ErrorCode.NONE

    async def lost(decided, timeout):
        return [dict.fromkeys(each.partitions, MarkerResult.FAILED) for each in decided]

    brokers.kept().markers._send = lost


def test_the_next_coordinator_gives_the_id_that_follows_a_used_up_one(tmp_path):
    """The decision names the next producer id; the answer to EndTxn 5 was lost."""

    async def test(brokers):
        await with_the_last_epoch(brokers)
        told = await brokers.again(brokers.producer.end_once)
        assert (told.error_code, told.producer_epoch) == (0, 0)
        await brokers.move_coordinator()
        assert await brokers.end() is ErrorCode.NONE
        assert (brokers.producer.producer_id, brokers.producer.epoch) == (told.producer_id, 0) != (5, 0)
        await brokers.completed("CompleteCommit")
        assert await markers(brokers.leader()) == [(MarkerType.COMMIT, GIVEN_EPOCH_MAX + 1)]
        assert await brokers.send() is ErrorCode.NONE
        assert await brokers.end() is ErrorCode.NONE
        await brokers.completed("CompleteCommit")
        assert await readable(brokers.leader()) == (4, 4)

    with_brokers(tmp_path, test)


@of_both_protocols
def test_a_producer_that_is_fenced_in_its_last_epoch_is_followed_by_a_new_id(tmp_path, level):
    async def test(brokers):
        await with_the_last_epoch(brokers)
        answer = await brokers.producer.init_once()
        assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        await brokers.move_coordinator()
        await brokers.init()
        assert brokers.producer.producer_id != 5
        assert brokers.producer.epoch == 0
        assert await markers(brokers.leader()) == [(MarkerType.ABORT, GIVEN_EPOCH_MAX + 1)]
        former = Producer(brokers.producer.client, producer_id=5, epoch=GIVEN_EPOCH_MAX)
        assert code_of(await former.end_once()) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert await brokers.send() is ErrorCode.NONE

    with_brokers(tmp_path, test, level)
