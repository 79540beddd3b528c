"""Markers on their way: how many go in one message, what is sent again and when, and what is written at the end."""

import asyncio
import functools

from cluster.transactions.marker_writer import TRANSACTIONS_MAX, MarkerResult
from cluster.transactions.markers import Nowhere
from cluster.transactions.records import StoredTransaction, TopicPartition, TransactionState
from cluster.transactions.transaction_table import PlacedTransaction
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.transactions.held_transaction import HeldTransaction, WriteFailure
from kafka_api.transactions.marker_sender import _ROUNDS_MAX, MarkerSender
from kafka_api.transactions.transaction import Transaction
from kafka_api.transactions.transaction_counts import TransactionCounts
from model.control_batch import MarkerType, Prepare
from model.ids import Index, NodeId, Term
from runtime.gate import Gate
from tests.unit.cluster.cluster_nodes import run, until

HANGING = TopicPartition("hangs", 0)
PLACES = frozenset({TopicPartition("t", 0), TopicPartition("t", 1)})


class Coordinator:
    """Owns ids that are decided, and takes what is written of them; a test answers the messages.

    Node 2 leads the topic "hangs" and node 1 all others, and what goes to node 2 waits for `goes_on`.
    """

    busy_wait = write_wait = 5.0

    def __init__(self):
        self.gate = Gate("markers")
        self.counts = TransactionCounts()
        self.sender = MarkerSender(
            self.send, lambda name: self.way_to(name), Term(7), self.now_ms, self.gate, self.counts
        )
        self.messages = []
        self.written = []
        self.pauses = []
        self.refusals = 0
        self.says = lambda name: MarkerResult.DONE
        self.answers = asyncio.Event()
        self.answers.set()
        self.way_to = lambda name: NodeId(2 if name[0] == "hangs" else 1)
        self.goes_on = asyncio.Event()

    async def send(self, decided, timeout):
        self.messages.append(decided)
        await self.answers.wait()
        if any(HANGING in each.partitions for each in decided):
            await self.goes_on.wait()
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
        self.pauses.append(held.end_pause)
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
async def test_a_broker_that_hangs_holds_up_no_transaction_without_markers_for_it(coordinator):
    """More transactions than all its rounds hold are decided, each in the same step as one without a part in it."""
    count = 2 * _ROUNDS_MAX * TRANSACTIONS_MAX
    for number in range(count):
        coordinator.decided(f"slow{number}", frozenset({HANGING}))
        coordinator.decided(f"quick{number}")
    await until(lambda: len(coordinator.written) == count)
    assert {name[:5] for name, _ in coordinator.written} == {"quick"}
    assert sum(HANGING in each.partitions for message in coordinator.messages for each in message) == count // 2
    coordinator.goes_on.set()
    await until(lambda: len(coordinator.written) == 2 * count)


@with_coordinator
async def test_what_waits_behind_a_broker_that_hangs_goes_to_the_next_leader(coordinator):
    for number in range(_ROUNDS_MAX):
        coordinator.decided(f"sent{number}", frozenset({HANGING}))
        await until(lambda number=number: len(coordinator.messages) == number + 1)
    coordinator.decided("waits", frozenset({HANGING}))
    coordinator.way_to = lambda name: NodeId(1)
    coordinator.goes_on.set()
    await until(lambda: len(coordinator.written) == _ROUNDS_MAX + 1)
    assert coordinator.sender._lanes[NodeId(1)].rounds == 0


@with_coordinator
async def test_a_transaction_with_a_part_at_a_broker_that_hangs_has_its_other_markers(coordinator):
    held = coordinator.decided("a", PLACES | {HANGING})
    await until(lambda: held.machine.markers().partitions == (HANGING,))
    assert coordinator.written == []
    coordinator.goes_on.set()
    await until(lambda: coordinator.written)


@with_coordinator
async def test_a_partition_without_a_leader_is_asked_for_once_it_has_one(coordinator):
    coordinator.way_to = lambda name: NodeId(1) if name[1] == 0 else Nowhere.NO_LEADER
    held = coordinator.decided("a")
    await until(lambda: held.machine.markers().partitions == (TopicPartition("t", 1),))
    coordinator.way_to = lambda name: NodeId(1)
    await until(lambda: coordinator.written)
    assert [list(message[0].partitions) for message in coordinator.messages] == [[each] for each in sorted(PLACES)]
    assert (coordinator.counts.markers_sent, coordinator.counts.markers_resent) == (2, 0)


@with_coordinator
async def test_only_what_is_missing_is_sent_again_with_growing_pauses(coordinator):
    coordinator.says = lambda place: MarkerResult.DONE if place[1] == 0 else MarkerResult.NOT_LEADER
    coordinator.decided("a")
    await until(lambda: len(coordinator.messages) == 4 and coordinator.sender._paused)
    assert [list(message[0].partitions) for message in coordinator.messages[1:]] == [[TopicPartition("t", 1)]] * 3
    # 20 ms, and twice as long each time.
    assert coordinator.sender._paused[0][2].pause == 0.16
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
    await until(lambda: len(coordinator.pauses) == 3)
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
