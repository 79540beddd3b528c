"""The transactional ids of one partition of `__transaction_state`, while this broker leads it in one term.

What is committed stands in the replica's table (`cluster.transactions.transactions_log_state`), which every replica
keeps. An id is *held*, with its state machine, while it has a transaction, and for some minutes after each request: the
machine knows which answer may have been lost. Of those without a transaction so many are held, the ones that were used
last. All other ids are read from the table when they are asked for.

What is written carries the term, and is refused in another one. So nothing that this object answers outlives its term.
"""

import asyncio
import contextlib
import heapq
import logging
from collections.abc import Sequence
from itertools import islice

from cluster.errors import ClusterError
from cluster.partition import Partition
from cluster.transactions.admission import PartitionName
from cluster.transactions.marker_writer import MarkerResult
from cluster.transactions.markers import DecidedTransaction
from cluster.transactions.records import StoredTransaction, TransactionState, encode_record, encoded_size
from cluster.transactions.transactions_log_state import TransactionsLogState
from cluster.transactions.transactions_topic import TRANSACTIONS_LEVEL
from kafka_api.coordinators.coordinator_errors import coordinator_error
from kafka_api.coordinators.shared_writes import SharedWrites
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.transactions.coordinator_means import CoordinatorMeans
from kafka_api.transactions.held_transaction import HeldTransaction, Step, WriteFailure
from kafka_api.transactions.marker_sender import MarkerSender
from kafka_api.transactions.options import TransactionOptions
from kafka_api.transactions.transaction import Transaction
from kafka_api.transactions.transaction_counts import TransactionCounts
from kafka_api.transactions.transaction_events import Answer, Verified
from kafka_api.transactions.transaction_timeouts import TransactionTimeouts
from model.control_batch import Prepare
from model.ids import Index
from raft.errors import RaftError, RetryableError

_IDS_PER_STEP = 200
# Of a new coordinator, which looks for those that have a transaction: some 0.1 us each.
_IDS_PER_LOOK = 2_000
# Of an open transaction: all its partitions stand in one record. What ends it is a few bytes longer.
_RECORD_BYTES_MAX = 8 * 1024 * 1024
# Below the request timeout of every client.
_PRODUCER_ID_TIMEOUT = 5.0
# A client asks again for a lost answer within its own request timeout.
_HELD_IDLE_MS = 600_000
# Machines beyond which those go that are not needed, the one first that was used longest ago: each takes some 1 KiB.
_HELD_MAX = 10_000
# How many are looked at for that, each time that one more is made.
_LOOKED_AT = 8
# So many deletions are under way at a time.
_FORGOTTEN_AT_ONCE = 1000
# A full table is looked at again after so many seconds if nothing was old enough.
_ROOM_PAUSE = 10.0
# What the producer that was replaced is answered, by the version of its request.
_FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
_logger = logging.getLogger("kafka.transactions")


class KeptTransactions:
    """See the module. A `held_transaction.Owner`.

    Attributes:
        is_loaded: Every transaction that is open or decided is held; requests are answered.
        markers: Those on their way.
        timeouts: Those of the transactions that are held.
    """

    def __init__(self, partition: Partition, state: TransactionsLogState, means: CoordinatorMeans) -> None:
        self.partition = partition
        self.state = state
        self.term = partition.leader_epoch
        self.is_loaded = False
        self._means = means
        self._office_ms = self._looked_ms = self.now_ms()
        self._held: dict[str, HeldTransaction] = {}
        self._is_ended = False
        self._making_room = asyncio.Lock()
        self._no_room_until = 0.0
        # Without a deadline: what has become of a record is known, or the term is over.
        # Durable: markers may be on the disks when a loss of power comes, and their decision must be, too.
        how = (TRANSACTIONS_LEVEL, None, self.now_ms, _failure)
        self._writes = SharedWrites(partition, self.term, *how, is_durable=True)
        self.timeouts = TransactionTimeouts(means, self.now_ms, self._held)
        way_to = means.node.markers.way_to
        self.markers = MarkerSender(self._send_markers, way_to, self.term, self.now_ms, means.gate, means.counts)

    @property
    def options(self) -> TransactionOptions:
        """Those in force now."""
        return self._means.options()

    @property
    def is_current(self) -> bool:
        """Whether the replica still leads in the term in which this began."""
        return not self._is_ended and self.partition.is_in_office and self.partition.leader_epoch == self.term

    async def load(self) -> None:
        """Wait until the table is as of this term, and go on with all transactions that are open or decided."""
        self._means.node.markers.expect_tables()
        await self.state.wait_applied(self.partition.barrier_index)
        found = 0
        known = self.state.table.transactional_ids()
        for begin in range(0, len(known), _IDS_PER_LOOK):
            if begin:
                await asyncio.sleep(0)
            for transactional_id in self.state.table.open_among(known[begin : begin + _IDS_PER_LOOK]):
                if not self.is_current:
                    return
                self.changed(self._hold_open(transactional_id))
                found += 1
                if found % _IDS_PER_STEP == 0:
                    await asyncio.sleep(0)
        self.is_loaded = self.is_current
        if self.is_loaded:
            logger = self.partition.logger_of(_logger.name)
            logger.info("coordinator of %d transactional ids, %d with a transaction", self.id_count, found)

    def end(self) -> None:
        """The term is over: everybody who waits looks for the next coordinator, and no marker is sent any more."""
        if self._is_ended:
            return
        self._is_ended = True
        self.is_loaded = False
        self.markers.end()
        for held in self._held.values():
            held.end(ErrorCode.NOT_COORDINATOR)
        self._held.clear()
        self.timeouts.end()

    # -- ids ----------------------------------------------------------------------------------------------------

    @property
    def id_count(self) -> int:
        """How many ids there are."""
        return self.state.table.record_count

    def transactional_ids(self) -> list[str]:
        """Return every id that is known."""
        return list(dict.fromkeys((*self._held, *self.state.table.transactional_ids())))

    def view(self, transactional_id: str) -> StoredTransaction | None:
        """Return the committed state of an id; None: there is none."""
        held = self._held.get(transactional_id)
        if held is not None:
            return held.machine.stored
        placed = self.state.table.get(transactional_id)
        return None if placed is None else placed.stored

    async def ask(self, transactional_id: str, step: Step) -> Answer | Verified:
        """Put a request to the machine of an id until it is answered."""
        answer = await self._ask(transactional_id, step)
        if isinstance(answer, Answer) and answer.error is ErrorCode.POLICY_VIOLATION and await self._make_room():
            answer = await self._ask(transactional_id, step)
        assert answer is not None, "a request has an answer"
        if isinstance(answer, Answer) and answer.error in _FENCED:
            self.counts.fenced += 1
        return answer

    async def _ask(self, transactional_id: str, step: Step) -> Answer | Verified | None:
        held = self._hold(transactional_id)
        try:
            return await held.ask(step)
        finally:
            self._drop_unknown(held)

    def _hold(self, transactional_id: str) -> HeldTransaction:
        held = self._held.pop(transactional_id, None)
        if held is None:
            self._make_room_for_one()
            held = self._new_held(transactional_id)
        # In the order of their use.
        self._held[transactional_id] = held
        return held

    def _hold_open(self, transactional_id: str) -> HeldTransaction:
        """Hold an id that has a transaction, while no other ids are held: none of these can make room."""
        held = self._held[transactional_id] = self._new_held(transactional_id)
        return held

    def _new_held(self, transactional_id: str) -> HeldTransaction:
        placed = self.state.table.get(transactional_id)
        machine = Transaction(placed, self._office_ms, self.options.max_timeout_ms)
        return HeldTransaction(transactional_id, machine, self)

    def _make_room_for_one(self) -> None:
        if len(self._held) >= _HELD_MAX:
            for held in list(islice(self._held.values(), _LOOKED_AT)):
                if self._is_in_table(held):
                    self._drop(held)
                else:
                    # The next look begins behind it.
                    self._held[held.transactional_id] = self._held.pop(held.transactional_id)

    def _is_in_table(self, held: HeldTransaction) -> bool:
        """Whether nothing is lost without the machine: nothing is open, and the table says what it says."""
        is_settled = held.is_idle and held.machine.deadline_ms is None
        return is_settled and held.written_index <= self.state.applied_index

    def _drop_unknown(self, held: HeldTransaction) -> None:
        """Nothing is kept of ids that somebody has asked for and that do not exist."""
        if held.is_idle and held.machine.stored is None and held.written_index <= self.state.applied_index:
            self._drop(held)

    def _drop(self, held: HeldTransaction) -> None:
        if self._held.get(held.transactional_id) is held:
            del self._held[held.transactional_id]

    # -- Owner --------------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """Return the wall clock's time."""
        return self._means.node.env.wall_clock.now_ms()

    @property
    def counts(self) -> TransactionCounts:
        """What the broker has done in all terms."""
        return self._means.counts

    @property
    def busy_wait(self) -> float:
        """Seconds for which a request waits for another change of its id."""
        return self.options.busy_wait_ms / 1000

    @property
    def write_wait(self) -> float:
        """Seconds for which a request waits for its write."""
        return self.options.write_timeout_ms / 1000

    def place(self, index: Index) -> Prepare:
        """Return the place of an entry of this term."""
        return Prepare(self.term, index)

    def write(self, transactional_id: str, record: StoredTransaction | None) -> "asyncio.Future[Index | WriteFailure]":
        """Append the record of an id in this term; the result is its index once committed, or why not."""
        is_open = record is not None and record.state is TransactionState.ONGOING
        if record is not None and is_open and encoded_size(transactional_id, record) > _RECORD_BYTES_MAX:
            done: asyncio.Future[Index | WriteFailure] = asyncio.get_running_loop().create_future()
            done.set_result(WriteFailure(ErrorCode.INVALID_REQUEST, is_certain=True))
            return done
        return self._writes.write([encode_record(transactional_id, record)])

    async def new_producer_id(self) -> int | None:
        """Return a producer id that nobody has had; None: raft0 has no leader that gives one."""
        try:
            return await self._means.node.producer_ids.allocate(_PRODUCER_ID_TIMEOUT)
        except ClusterError:
            return None

    async def confirm(self) -> ErrorCode:
        """Make sure that this broker has led in this term until now.

        A coordinator that was deposed and does not know it must not answer: neither that a partition belongs to a
        transaction which another one has aborted, nor that a producer is fenced which another one has let in. Nor must
        it send a marker: it could end the next transaction.
        """
        try:
            await self.partition.confirm_read(self.partition.begin_read())
        except RaftError as error:
            return coordinator_error(error)
        return ErrorCode.NONE if self.is_current else ErrorCode.NOT_COORDINATOR

    async def _send_markers(
        self, decided: Sequence[DecidedTransaction], timeout: float
    ) -> list[dict[PartitionName, MarkerResult]]:
        return await self._means.node.markers.send(decided, timeout, self._is_confirmed)

    async def _is_confirmed(self) -> bool:
        return await self.confirm() is ErrorCode.NONE

    def changed(self, held: HeldTransaction) -> None:
        """A write of an id has ended: send its markers, watch its time-out, or forget it."""
        if self._is_ended or held.machine.is_writing:
            return
        if held.machine.state.is_prepare:
            self.markers.add(held)
        else:
            self.timeouts.watch(held)
        self._drop_unknown(held)

    def look(self) -> None:
        """Abort transactions that are open for too long."""
        if self.is_loaded and self.is_current:
            now_ms = self.now_ms()
            if now_ms < self._looked_ms:
                self.timeouts.clock_went_back()
            self._looked_ms = now_ms
            self.timeouts.look()

    # -- ids that nobody uses -----------------------------------------------------------------------------------

    async def expire(self) -> None:
        """Forget ids that nobody has used for the time of their expiration, and machines that nobody needs."""
        await self._drop_unused()
        idle_ms = self.options.id_expiration_ms
        begun: list[asyncio.Future[Answer | None]] = []
        for number, transactional_id in enumerate(self.state.table.transactional_ids(), start=1):
            if number % _IDS_PER_STEP == 0:
                await asyncio.sleep(0)
            if not self.is_current:
                return
            write = self._expire(transactional_id, idle_ms)
            if write is not None:
                begun.append(write)
            if len(begun) >= _FORGOTTEN_AT_ONCE:
                await self._until_done(begun)
                begun = []

    async def _drop_unused(self) -> None:
        before_ms = self.now_ms() - _HELD_IDLE_MS
        for number, held in enumerate(list(self._held.values()), start=1):
            if held.used_ms < before_ms and self._is_in_table(held):
                self._drop(held)
            if number % _IDS_PER_STEP == 0:
                await asyncio.sleep(0)

    def _expire(self, transactional_id: str, idle_ms: int) -> "asyncio.Future[Answer | None] | None":
        """Begin to forget an id that nobody has used for so long; None: it stays."""
        placed = self.state.table.get(transactional_id)
        if placed is None or not _is_idle(placed.stored) or self.now_ms() - placed.stored.updated_ms < idle_ms:
            return None
        held = self._hold(transactional_id)
        write = None if held.users else held.machine.expire(self.now_ms(), idle_ms)
        return None if write is None else held.begin(write)

    async def _make_room(self) -> bool:
        """Forget the ids that were not used for longest, in a table that is full; return whether there were any."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._no_room_until:
            return False
        async with self._making_room:
            # Many may have waited while one has found nothing.
            if loop.time() < self._no_room_until:
                return False
            idle_ms = self.options.room_idle_ms
            table, before_ms = self.state.table, self.now_ms() - idle_ms
            found: list[tuple[int, str]] = []
            for number, transactional_id in enumerate(table.transactional_ids(), start=1):
                placed = table.get(transactional_id)
                if placed is not None and _is_idle(placed.stored) and placed.stored.updated_ms <= before_ms:
                    found.append((placed.stored.updated_ms, transactional_id))
                if number % _IDS_PER_STEP == 0:
                    await asyncio.sleep(0)
            oldest = heapq.nsmallest(_FORGOTTEN_AT_ONCE, found)
            begun = [self._expire(transactional_id, idle_ms) for _, transactional_id in oldest if self.is_current]
            writes = [each for each in begun if each is not None]
            if not writes:
                self._no_room_until = loop.time() + _ROOM_PAUSE
                return False
            _logger.warning("%s is full: %d ids that nobody uses are forgotten", self.partition.name, len(writes))
            await self._until_done(writes)
            return True

    async def _until_done(self, writes: Sequence["asyncio.Future[Answer | None]"]) -> None:
        """Wait for writes, as long as a request waits for its own."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.write_wait):
                for write in writes:
                    await asyncio.shield(write)


def _is_idle(stored: StoredTransaction) -> bool:
    """Whether an id has no transaction."""
    return stored.state is TransactionState.EMPTY or stored.state.is_complete


def _failure(error: BaseException) -> WriteFailure:
    code = coordinator_error(error)
    if code is ErrorCode.INVALID_COMMIT_OFFSET_SIZE:
        # The table has no room.
        code = ErrorCode.POLICY_VIOLATION
    return WriteFailure(code, is_certain=isinstance(error, RetryableError))
