"""Markers on their way: how many go in one message, what is sent again and when, and what is written at the end."""

import asyncio
import functools

from cluster.transactions.markers import TRANSACTIONS_MAX, MarkerResult
from cluster.transactions.records import StoredTransaction, TopicPartition, TransactionState
from cluster.transactions.transaction_table import PlacedTransaction
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.transactions.held_transaction import HeldTransaction, WriteFailure
from kafka_api.transactions.marker_sender import MarkerSender
from kafka_api.transactions.transaction import Transaction
from kafka_api.transactions.transaction_counts import TransactionCounts
from model.control_batch import MarkerType, Prepare
from model.ids import Index, Term
from runtime.gate import Gate
from tests.unit.cluster.cluster_nodes import run, until

PLACES = frozenset({TopicPartition("t", 0), TopicPartition("t", 1)})


class Coordinator:
    """Owns ids that are decided, and takes what is written of them; a test answers the messages."""

    busy_wait = write_wait = 5.0

    def __init__(self):
        self.gate = Gate("markers")
        self.counts = TransactionCounts()
        self.sender = MarkerSender(self.send, Term(7), self.now_ms, self.gate, self.counts)
        self.messages = []
        self.written = []
        self.pauses = []
        self.refusals = 0
        self.says = lambda name: MarkerResult.DONE
        self.answers = asyncio.Event()
        self.answers.set()

    async def send(self, decided, timeout):
        self.messages.append(decided)
        await self.answers.wait()
        return [{place: self.says(place) for place in each.partitions} for each in decided]

    def decided(self, name, partitions=PLACES, state=TransactionState.PREPARE_COMMIT):
        stored = StoredTransaction(5, 3, 60_000, state, partitions, 0, 0)
        machine = Transaction(PlacedTransaction(stored, Prepare(7, 20)), 0, 900_000)
        held = HeldTransaction(name, machine, self)
        self.sender.add(held)
        return held

    def write(self, transactional_id, record):
        done = asyncio.get_running_loop().create_future()
        if self.refusals:
            self.refusals -= 1
            done.set_result(WriteFailure(ErrorCode.COORDINATOR_NOT_AVAILABLE, is_certain=True))
        else:
            self.written.append((transactional_id, record.state))
            done.set_result(Index(30 + len(self.written)))
        return done

    def place(self, index):
        return Prepare(7, index)

    def now_ms(self):
        return 0

    async def new_producer_id(self):
        raise AssertionError("no id is needed to send markers")

    async def confirm(self):
        raise AssertionError("nobody asks")

    def changed(self, held):
        self.pauses.append(held.marker_pause)
        if held.machine.state.is_prepare:
            self.sender.add(held)


def with_coordinator(test):
    @functools.wraps(test)
    def wrapped():
        async def whole():
            coordinator = Coordinator()
            try:
                await test(coordinator)
            finally:
                coordinator.sender.end()
                await coordinator.gate.close()

        run(whole)

    del wrapped.__wrapped__
    return wrapped


@with_coordinator
async def test_a_decision_is_complete_once_all_partitions_have_their_marker(coordinator):
    coordinator.decided("a", state=TransactionState.PREPARE_ABORT)
    await until(lambda: coordinator.written)
    (((sent,),), written) = coordinator.messages, coordinator.written
    assert (sent.producer_id, sent.epoch, sent.type) == (5, 3, MarkerType.ABORT)
    assert (sent.coordinator_epoch, sent.prepare, frozenset(sent.partitions)) == (7, Prepare(7, 20), PLACES)
    assert written == [("a", TransactionState.COMPLETE_ABORT)]


@with_coordinator
async def test_what_is_decided_at_once_shares_messages_of_64(coordinator):
    for number in range(2 * TRANSACTIONS_MAX + 2):
        coordinator.decided(f"id{number}")
    await until(lambda: len(coordinator.written) == 2 * TRANSACTIONS_MAX + 2)
    assert [len(message) for message in coordinator.messages] == [TRANSACTIONS_MAX, TRANSACTIONS_MAX, 2]


@with_coordinator
async def test_a_leader_that_does_not_answer_holds_up_no_other_transaction(coordinator):
    coordinator.answers.clear()
    coordinator.decided("slow")
    await until(lambda: coordinator.messages)
    slow, coordinator.answers = coordinator.answers, asyncio.Event()
    coordinator.answers.set()
    coordinator.decided("quick")
    await until(lambda: coordinator.written)
    assert coordinator.written == [("quick", TransactionState.COMPLETE_COMMIT)]
    slow.set()
    await until(lambda: len(coordinator.written) == 2)


@with_coordinator
async def test_only_what_is_missing_is_sent_again_with_growing_pauses(coordinator):
    coordinator.says = lambda place: MarkerResult.DONE if place[1] == 0 else MarkerResult.NOT_LEADER
    held = coordinator.decided("a")
    await until(lambda: len(coordinator.messages) == 4)
    assert [list(message[0].partitions) for message in coordinator.messages[1:]] == [[TopicPartition("t", 1)]] * 3
    # 20 ms, and twice as long each time.
    assert held.marker_pause >= 0.08
    assert (coordinator.counts.markers_sent, coordinator.counts.markers_resent) == (2, 3)
    assert coordinator.written == []
    coordinator.says = lambda place: MarkerResult.DONE
    await until(lambda: coordinator.written)


@with_coordinator
async def test_a_decision_without_partitions_needs_no_message(coordinator):
    coordinator.decided("a", frozenset(), TransactionState.PREPARE_ABORT)
    await until(lambda: coordinator.written)
    assert coordinator.messages == []


@with_coordinator
async def test_an_end_that_is_refused_is_written_again(coordinator):
    coordinator.refusals = 2
    coordinator.decided("a")
    await until(lambda: coordinator.written)
    assert coordinator.written == [("a", TransactionState.COMPLETE_COMMIT)]
    # Its markers are there: they are not sent again.
    assert len(coordinator.messages) == 1
    assert coordinator.pauses == [0.02, 0.04, 0.0]


@with_coordinator
async def test_nothing_is_sent_or_written_once_the_term_is_over(coordinator):
    coordinator.answers.clear()
    coordinator.decided("a")
    await until(lambda: coordinator.messages)
    coordinator.sender.end()
    coordinator.answers.set()
    coordinator.decided("b")
    await coordinator.gate.close()
    assert len(coordinator.messages) == 1
    assert coordinator.written == []
