"""One transactional id at its coordinator as a state machine: no clock, no chance, no I/O.

             init_producer_id                       add_partitions, add_offsets
                 +----+                                      +----+
                 v    |                                      v    |
    (nothing) -> EMPTY -------------------------------------> ONGOING
                 ^  |                                        ^   |  |
                 |  | end(abort) that raises the epoch       |   |  | end(abort); timed out, or init_producer_id:
                 |  +-------------------------> PREPARE_ABORT <---+  |   an abort by the coordinator, with a new epoch
                 |                                   |       |      | end(commit)
                 |          complete: all partitions |       |      v
                 |          have their markers       |       |   PREPARE_COMMIT
                 |                                   v       |      | complete
                 | init_producer_id    COMPLETE_ABORT        |      v
                 +-------------------- COMPLETE_COMMIT <------------+
                                         |           |
                                         |           +-------> ONGOING, and PREPARE_ABORT as from EMPTY
    (nothing) <- DEAD <------------------+ expire; from EMPTY, too

Each arrow is a record, and the machine goes there when the record is committed. While a write is under way all other
requests wait. A write whose outcome is not known is under way until it is. *Prepare* is the decision: from then on the
markers of all partitions are due, and the client is answered.

Two protocols end transactions. Below EndTxn 5 the epoch stays, so that a late request looks like a new one. EndTxn 5
(KIP-890) raises it: its answer names the next epoch, and one that was lost is given again by that. The machine serves
both, by the version of each request.

PREPARE_EPOCH_FENCE is Kafka's name for the abort by the coordinator while its record is being written.

Source: the answers are those of Apache Kafka's transaction coordinator (KIP-98, KIP-360, KIP-588, KIP-890; KAFKA-18464,
KAFKA-18660, KAFKA-19367, KAFKA-20090, KAFKA-20785). RFC 0021 section 7 says where it is stricter.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cluster.transactions.records import (
    NO_PRODUCER_ID,
    NO_TIME,
    StoredTransaction,
    TopicPartition,
    TransactionState,
)
from cluster.transactions.transaction_table import PlacedTransaction
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.transactions.transaction_errors import told_error
from kafka_api.transactions.transaction_events import Answer, Identity, Later, Markers, Outcome, Verified, Write
from kafka_api.transactions.transaction_steps import EPOCH_MAX, GIVEN_EPOCH_MAX, assert_step, is_exhausted
from model.control_batch import NO_PREPARE, MarkerType, Prepare

# Of one request, and of one transaction.
PARTITIONS_MAX = 10_000
# EndTxn since KIP-890.
RAISING_VERSION = 5
# The transaction protocol in records, and the level of transaction.version that allows it.
_PLAIN, _RAISING = 0, 2
# What an open transaction has at least, so that clients find a new coordinator in time.
_OFFICE_MS = 10_000

_EMPTY, _ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
_COMMITTED, _ABORTED = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT


@dataclass(slots=True)
class _Pending:
    """A write that is under way, and what follows from it."""

    write: Write
    last: Identity | None


class Transaction:
    """See the module. Times are milliseconds of the wall clock, versions are those of requests.

    Args:
        placed: What the table has; None: nothing.
        office_ms: When this coordinator's term began.
        max_timeout_ms: `transaction.max.timeout.ms`.
    """

    def __init__(self, placed: PlacedTransaction | None, office_ms: int, max_timeout_ms: int) -> None:
        self._stored: StoredTransaction | None = None
        self._office_ms = office_ms
        self._max_timeout_ms = max_timeout_ms
        self._pending: _Pending | None = None
        # Who the producer was before its epoch was raised, if that one may still ask for the answer to that.
        self._last: Identity | None = None
        self._prepare = NO_PREPARE
        # The partitions of a decided transaction that are not known to have its marker.
        self._unmarked: set[TopicPartition] = set()
        # A transaction's start by a clock that may have been ahead, and when it began at the latest. Of what was open
        # when this began, another broker's clock says so; this broker's own may have gone back since.
        self._ahead = (NO_TIME if placed is None else placed.stored.started_ms, office_ms)
        if placed is not None:
            self._settle(placed.stored, placed.place, None)

    # -- what there is ------------------------------------------------------------------------------------------

    @property
    def stored(self) -> StoredTransaction | None:
        """The last committed record; None: there is none, or it was deleted."""
        return self._stored

    @property
    def state(self) -> TransactionState:
        """The state as it is committed; DEAD without a record."""
        return TransactionState.DEAD if self._stored is None else self._stored.state

    @property
    def is_writing(self) -> bool:
        """A record is on its way, or its outcome is not known."""
        return self._pending is not None

    @property
    def deadline_ms(self) -> int | None:
        """When the open transaction is aborted; None: nothing is open."""
        stored = self._stored
        if stored is None or stored.state is not _ONGOING:
            return None
        return max(self._began_ms(stored) + stored.timeout_ms, self._office_ms + _OFFICE_MS)

    def _began_ms(self, stored: StoredTransaction) -> int:
        started_ms, latest_ms = self._ahead
        return min(stored.started_ms, latest_ms) if stored.started_ms == started_ms else stored.started_ms

    def clock_shows(self, now_ms: int) -> None:
        """Count nothing as later than now, neither the office nor the start of what is open: a clock may go back."""
        self._office_ms = min(self._office_ms, now_ms)
        if self._stored is not None:
            self._ahead = (self._stored.started_ms, min(self._began_ms(self._stored), now_ms))

    def markers(self) -> Markers | None:
        """Return the markers that are due; None: there are none."""
        stored = self._stored
        if stored is None or not self._unmarked:
            return None
        # X1: the type is that of the stored decision.
        assert stored.state.is_prepare
        is_commit = stored.state is TransactionState.PREPARE_COMMIT
        return Markers(
            Identity(stored.producer_id, stored.epoch),
            MarkerType.COMMIT if is_commit else MarkerType.ABORT,
            self._prepare,
            tuple(sorted(self._unmarked)),
        )

    # -- requests -----------------------------------------------------------------------------------------------

    def init_producer_id(
        self,
        now_ms: int,
        version: int,
        timeout_ms: int,
        known: Identity | None,
        level: int,
        fresh_id: int | None = None,
    ) -> Outcome:
        """Make a producer the only one of this id, and give it an epoch of its own.

        Args:
            now_ms: The time.
            version: Of InitProducerId.
            timeout_ms: How long its transactions may be open.
            known: Who it has been (KIP-360); None for a new producer.
            level: Of `transaction.version`, 1 or 2.
            fresh_id: After NEEDS_PRODUCER_ID.
        """
        if not 0 < timeout_ms <= self._max_timeout_ms:
            return Answer(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        stored = self._stored
        if self._pending is not None or (stored is not None and stored.state.is_prepare):
            return Later.WAIT
        if stored is None:
            if fresh_id is None:
                return Later.NEEDS_PRODUCER_ID
            return self._begin_producer(now_ms, timeout_ms, Identity(fresh_id, 0), None)
        current = Identity(stored.producer_id, stored.epoch)
        is_retry = known is not None and known == self._last and stored.state is not _ONGOING
        if known is not None and known != current and not is_retry:
            # In Kafka a former producer aborts an open transaction here before it is refused.
            return Answer(told_error(ErrorCode.PRODUCER_FENCED, ApiKey.INIT_PRODUCER_ID, version))
        if stored.state is _ONGOING:
            return self._fence(now_ms, level, fresh_id, Answer(ErrorCode.CONCURRENT_TRANSACTIONS), known is None)
        if is_retry:
            return self._begin_producer(now_ms, timeout_ms, current, known)
        if not is_exhausted(stored.epoch):
            return self._begin_producer(now_ms, timeout_ms, Identity(stored.producer_id, stored.epoch + 1), known)
        if fresh_id is None:
            return Later.NEEDS_PRODUCER_ID
        return self._begin_producer(now_ms, timeout_ms, Identity(fresh_id, 0), known)

    def _begin_producer(self, now_ms: int, timeout_ms: int, identity: Identity, last: Identity | None) -> Write:
        stored = self._stored
        previous = NO_PRODUCER_ID
        if stored is not None and stored.producer_id != identity.producer_id:
            previous = stored.producer_id
        elif stored is not None and stored.epoch == identity.epoch:
            previous = stored.previous_producer_id
        record = StoredTransaction(
            identity.producer_id,
            identity.epoch,
            timeout_ms,
            _EMPTY,
            frozenset(),
            now_ms,
            previous_producer_id=previous,
        )
        return self._write(record, Answer(ErrorCode.NONE, identity), last)

    def add_partitions(
        self, now_ms: int, version: int, producer: Identity, partitions: Iterable[TopicPartition]
    ) -> Outcome:
        """Let partitions belong to the producer's transaction; the first ones begin it.

        Args:
            now_ms: The time.
            version: Of AddPartitionsToTxn: 0-3 of clients, 4 and above of brokers for Produce 12 and TxnOffsetCommit 5.
            producer: Whose.
            partitions: At most PARTITIONS_MAX.
        """
        client_version = _RAISING if version > 3 else _PLAIN
        return self._add(now_ms, ApiKey.ADD_PARTITIONS_TO_TXN, version, producer, frozenset(partitions), client_version)

    def add_offsets(self, now_ms: int, version: int, producer: Identity, partition: TopicPartition) -> Outcome:
        """Let the partition of `__consumer_offsets` that keeps a group belong to the transaction (AddOffsetsToTxn)."""
        return self._add(now_ms, ApiKey.ADD_OFFSETS_TO_TXN, version, producer, frozenset((partition,)), _PLAIN)

    def _add(
        self,
        now_ms: int,
        key: ApiKey,
        version: int,
        producer: Identity,
        partitions: frozenset[TopicPartition],
        client_version: int,
    ) -> Outcome:
        if len(partitions) > PARTITIONS_MAX:
            return Answer(ErrorCode.INVALID_REQUEST)
        stored = self._stored
        # First: the producer may be one that is only being written (KAFKA-18660).
        if self._pending is not None or (stored is not None and stored.state.is_prepare):
            return Later.WAIT
        error = self._identity_error(producer)
        if stored is None or error is not ErrorCode.NONE:
            return Answer(told_error(error, key, version))
        is_open = stored.state is _ONGOING
        if is_open and partitions <= stored.partitions:
            return Answer(ErrorCode.NONE)
        whole = stored.partitions | partitions if is_open else partitions
        # All brokers decode a record in one step of their loops.
        if len(whole) > PARTITIONS_MAX:
            return Answer(ErrorCode.INVALID_REQUEST)
        record = replace(
            stored,
            state=_ONGOING,
            partitions=whole,
            updated_ms=now_ms,
            started_ms=stored.started_ms if is_open else now_ms,
            previous_producer_id=NO_PRODUCER_ID,
            client_version=client_version,
        )
        return self._write(record, Answer(ErrorCode.NONE), self._last)

    def verify(
        self, version: int, producer: Identity, partitions: Iterable[TopicPartition]
    ) -> Verified | Answer | Later:
        """Say which partitions belong to the producer's transaction, as it is committed.

        What is being written does not count: the leader of a partition compares its guard afterwards.
        """
        stored = self._stored
        error = self._identity_error(producer)
        if stored is None or error is not ErrorCode.NONE:
            return Answer(told_error(error, ApiKey.ADD_PARTITIONS_TO_TXN, version))
        if stored.state.is_prepare:
            return Later.WAIT
        inside, outside = ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE
        return Verified({each: inside if each in stored.partitions else outside for each in partitions})

    def end(
        self, now_ms: int, version: int, producer: Identity, is_commit: bool, fresh_id: int | None = None
    ) -> Outcome:
        """End the producer's transaction (EndTxn).

        Args:
            now_ms: The time.
            version: Of EndTxn; from 5 on each end raises the epoch.
            producer: Whose.
            is_commit: Else it is aborted.
            fresh_id: After NEEDS_PRODUCER_ID.
        """
        stored = self._stored
        # First: the producer may be one that is only being written (KAFKA-18464).
        if self._pending is not None:
            return Later.WAIT
        if version >= RAISING_VERSION:
            if stored is not None and stored.state.is_prepare:
                return Later.WAIT
            if self._has_ended(producer):
                return self._answer_again(is_commit)
        error = self._identity_error(producer)
        if stored is None or error is not ErrorCode.NONE:
            return Answer(told_error(error, ApiKey.END_TXN, version))
        if stored.state.is_prepare:
            return Later.WAIT
        if version >= RAISING_VERSION:
            if stored.state is not _ONGOING and is_commit:
                return Answer(ErrorCode.INVALID_TXN_STATE)
            return self._raise_epoch(now_ms, is_commit, fresh_id, Answer(ErrorCode.NONE))
        if stored.state is not _ONGOING:
            is_done = stored.state is (_COMMITTED if is_commit else _ABORTED)
            return Answer(ErrorCode.NONE if is_done else ErrorCode.INVALID_TXN_STATE)
        return self._write(self._decided(now_ms, is_commit, _PLAIN), Answer(ErrorCode.NONE), self._last)

    def _has_ended(self, producer: Identity) -> bool:
        """Whether the last transaction was ended in the producer's epoch, and raised it."""
        stored = self._stored
        return (
            stored is not None
            and stored.state.is_complete
            and stored.client_version == _RAISING
            and producer == self._last
        )

    def _answer_again(self, is_commit: bool) -> Answer:
        """Answer EndTxn 5 of the producer that was before the last end: the answer to it was lost."""
        stored = self._stored
        assert stored is not None
        if is_commit == (stored.state is _COMMITTED):
            return Answer(ErrorCode.NONE, Identity(stored.producer_id, stored.epoch))
        # The coordinator has aborted what the client wants to commit (KAFKA-20785).
        return Answer(ErrorCode.PRODUCER_FENCED if is_commit else ErrorCode.INVALID_TXN_STATE)

    # -- what the coordinator does by itself --------------------------------------------------------------------

    def time_out(self, now_ms: int, level: int, fresh_id: int | None = None) -> Write | Later | None:
        """Abort a transaction that is open for too long; None: it is not."""
        deadline = self.deadline_ms
        if deadline is None or now_ms < deadline:
            return None
        if self._pending is not None:
            return Later.WAIT
        return self._fence(now_ms, level, fresh_id, None, False)

    def marker_written(self, prepare: Prepare, partition: TopicPartition) -> None:
        """A partition has the marker of the decision at `prepare`, or will never need it."""
        if prepare == self._prepare:
            self._unmarked.discard(partition)

    def complete(self, now_ms: int) -> Write | None:
        """Write that a decided transaction has ended everywhere; None: it has not, or that is being written."""
        stored = self._stored
        if stored is None or not stored.state.is_prepare or self._unmarked or self._pending is not None:
            return None
        is_commit = stored.state is TransactionState.PREPARE_COMMIT
        record = replace(
            stored,
            state=_COMMITTED if is_commit else _ABORTED,
            partitions=frozenset(),
            updated_ms=now_ms,
            next_producer_id=NO_PRODUCER_ID,
        )
        if stored.next_producer_id != NO_PRODUCER_ID:
            record = replace(
                record, producer_id=stored.next_producer_id, epoch=0, previous_producer_id=stored.producer_id
            )
        return self._write(record, None, self._last)

    def expire(self, now_ms: int, idle_ms: int) -> Write | None:
        """Forget an id that has nothing open and was not used for `idle_ms`; None: it stays."""
        stored = self._stored
        if stored is None or self._pending is not None or stored.state is _ONGOING or stored.state.is_prepare:
            return None
        if now_ms - stored.updated_ms < idle_ms:
            return None
        return self._write(None, None, None)

    # -- writes -------------------------------------------------------------------------------------------------

    def write_committed(self, place: Prepare) -> Answer | None:
        """The record under way is committed, and lies at `place`; returns what its request is answered with."""
        pending = self._take_pending()
        self._settle(pending.write.record, place, pending.last)
        return pending.write.answer

    def write_failed(self, error: ErrorCode) -> Answer | None:
        """The record under way is not in the log, and never will be: nothing has changed."""
        return self._refusal(self._take_pending(), error)

    def write_timed_out(self, error: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE) -> Answer | None:
        """Whether the record will be committed is not known: its request is answered, and the write stays under way."""
        pending = self._pending
        assert pending is not None, "no write is under way"
        answer = self._refusal(pending, error)
        pending.write = replace(pending.write, answer=None)
        return answer

    def _refusal(self, pending: _Pending, error: ErrorCode) -> Answer | None:
        return None if pending.write.answer is None else Answer(error)

    def _take_pending(self) -> _Pending:
        pending, self._pending = self._pending, None
        assert pending is not None, "no write is under way"
        return pending

    def _write(self, record: StoredTransaction | None, answer: Answer | None, last: Identity | None) -> Write:
        assert self._pending is None, "two writes of one id are under way"
        assert_step(self._stored, record, len(self._unmarked))
        write = Write(record, answer)
        self._pending = _Pending(write, last)
        return write

    def _settle(self, record: StoredTransaction | None, place: Prepare, last: Identity | None) -> None:
        """Go to the state of a committed record."""
        self._stored, self._last = record, last
        self._prepare, self._unmarked = NO_PREPARE, set()
        if record is None:
            return
        raised = _raised_from(record)
        if raised is not None:
            self._last = raised
        if record.state.is_prepare:
            self._prepare, self._unmarked = place, set(record.partitions)

    # -- decisions ----------------------------------------------------------------------------------------------

    def _identity_error(self, producer: Identity) -> ErrorCode:
        if self._stored is None or self._stored.producer_id != producer.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        # The largest epoch is the coordinator's: it fences, and nobody gets it.
        is_current = producer.epoch == self._stored.epoch < EPOCH_MAX
        return ErrorCode.NONE if is_current else ErrorCode.PRODUCER_FENCED

    def _fence(
        self, now_ms: int, level: int, fresh_id: int | None, answer: Answer | None, is_for_another: bool
    ) -> Write | Later:
        """Abort the open transaction with a new epoch.

        At level 2 that is as if its producer had aborted it: the producer learns the epoch by EndTxn(abort), and goes
        on. Not so if another producer has come: the former one is refused from now on.
        """
        if level >= _RAISING and not is_for_another:
            return self._raise_epoch(now_ms, False, fresh_id, answer)
        record = self._decided(now_ms, False, _PLAIN)
        # The epoch may be the last one: the next InitProducerId brings a new producer id.
        return self._write(replace(record, epoch=record.epoch + 1), answer, None)

    def _raise_epoch(self, now_ms: int, is_commit: bool, fresh_id: int | None, answer: Answer | None) -> Write | Later:
        """End a transaction, with a new epoch; an answer that says NONE names the producer from then on."""
        record = self._decided(now_ms, is_commit, _RAISING)
        former = Identity(record.producer_id, record.epoch)
        identity = Identity(record.producer_id, record.epoch + 1)
        record = replace(record, epoch=identity.epoch)
        if is_exhausted(former.epoch):
            if fresh_id is None:
                return Later.NEEDS_PRODUCER_ID
            # Markers carry the last epoch of the former id; the client goes on with the new one.
            record, identity = replace(record, next_producer_id=fresh_id), Identity(fresh_id, 0)
        if answer is not None and answer.error is ErrorCode.NONE:
            answer = Answer(ErrorCode.NONE, identity)
        return self._write(record, answer, former)

    def _decided(self, now_ms: int, is_commit: bool, client_version: int) -> StoredTransaction:
        stored = self._stored
        assert stored is not None
        is_open = stored.state is _ONGOING
        return replace(
            stored,
            state=TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
            updated_ms=now_ms,
            started_ms=stored.started_ms if is_open else now_ms,
            previous_producer_id=NO_PRODUCER_ID,
            client_version=client_version,
        )


def _raised_from(record: StoredTransaction) -> Identity | None:
    """Return who the producer was before the end in this record, if that has raised its epoch."""
    if record.client_version != _RAISING or not (record.state.is_prepare or record.state.is_complete):
        return None
    if record.previous_producer_id != NO_PRODUCER_ID:
        return Identity(record.previous_producer_id, GIVEN_EPOCH_MAX)
    return Identity(record.producer_id, record.epoch - 1)
