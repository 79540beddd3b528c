"""The machine of a transactional id under random requests, lost answers, writes of unknown outcome and failover.

The model keeps the log of the id, and what clients were answered. It checks after each step:

- X1: the markers are those of the stored decision, at the place of its record, also after a failover;
- X3: Complete is written only when each partition has its marker;
- a producer that another one has replaced, or whose epoch is over, never ends a transaction;
- a decision that is committed never changes;
- the answer to an EndTxn 5 that is sent again is the first one's.
"""

from dataclasses import dataclass, replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cluster.transactions.records import StoredTransaction, TopicPartition, TransactionState
from cluster.transactions.transaction_table import PlacedTransaction, TransactionTable
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.transactions.transaction import Transaction
from kafka_api.transactions.transaction_events import Answer, Identity, Later, Verified, Write
from model.control_batch import MarkerType, Prepare

_NAME = "t"
_MAX_TIMEOUT = 900_000
_TIMEOUT = 60_000
_PARTITIONS = [TopicPartition("t", number) for number in range(3)]
_LEVELS = st.sampled_from([1, 2])


@dataclass
class Client:
    """One instance of the application: who it believes to be, and the protocol that it speaks."""

    version: int
    identity: Identity | None = None


@dataclass(frozen=True)
class End:
    """An EndTxn request."""

    producer: Identity
    is_commit: bool
    version: int


@dataclass
class UnderWay:
    """A write, and what it was for; `is_answered`: the client knows that its outcome is not known."""

    write: Write
    client: Client | None
    end: End | None
    is_answered: bool = False


class TransactionalId(RuleBasedStateMachine):
    """See the module."""

    def __init__(self):
        super().__init__()
        self.now = 1_000_000
        self.term = 1
        self.index = 0
        self.next_id = 100
        self.table = TransactionTable()
        self.transaction = Transaction(None, self.now, _MAX_TIMEOUT)
        self.under_way = None
        # Whether a record is committed as soon as it is written, and its answer arrives.
        self.is_prompt, self.is_heard = True, True
        self.clients = [Client(4), Client(5), Client(5)]
        # Requests that were sent, and may arrive again.
        self.ends = []
        # The decision of each marker's identity: its type, place and partitions; those that have the marker.
        self.decisions = {}
        self.marked = {}
        # The first answer to each EndTxn 5 that was decided, by producer; what was decided in each epoch.
        self.raised = {}
        self.decided = {}

    @initialize(epoch=st.sampled_from([None, 0, 32_763, 32_766]))
    def begin(self, epoch):
        if epoch is not None:
            record = StoredTransaction(7, epoch, _TIMEOUT, TransactionState.EMPTY, frozenset(), self.now)
            self._append(record)
            self.clients[1].identity = Identity(7, epoch)
            self._begin_office()

    # -- requests -----------------------------------------------------------------------------------------------

    @rule(number=st.integers(0, 2), is_known=st.booleans(), level=_LEVELS)
    def init_producer_id(self, number, is_known, level):
        client = self.clients[number]
        self._init(client, client.identity if is_known else None, level)

    @precondition(lambda self: (self._current() or Identity(0, 0)).epoch > 0)
    @rule(back=st.integers(1, 2), level=_LEVELS)
    def init_producer_id_of_a_former_epoch(self, back, level):
        current = self._current()
        self._init(Client(4), current._replace(epoch=max(0, current.epoch - back)), level)

    def _init(self, client, known, level):
        before = self._current()
        outcome = self._put(
            lambda **fresh: self.transaction.init_producer_id(self.now, 4, _TIMEOUT, known, level, **fresh)
        )
        if isinstance(outcome, Write):
            if outcome.record.state is TransactionState.PREPARE_ABORT:
                assert known in (None, before), "a former producer aborts a transaction"
                self._check_fence(outcome.record)
            self._begin_write(outcome, client)

    def _check_fence(self, record):
        """The coordinator aborts a transaction by itself."""
        assert record.state is TransactionState.PREPARE_ABORT
        assert record.epoch == self._current().epoch + 1, "an abort by the coordinator leaves the epoch"

    @rule(number=st.integers(0, 2), partitions=st.lists(st.sampled_from(_PARTITIONS), min_size=1, max_size=2))
    def add_partitions(self, number, partitions):
        client = self.clients[number]
        producer = client.identity or Identity(1, 1)
        version = 3 if client.version < 5 else 5
        outcome = self.transaction.add_partitions(self.now, version, producer, partitions)
        if isinstance(outcome, Write):
            assert producer == self._current()
            self._begin_write(outcome, client)
        elif outcome == Answer(ErrorCode.NONE):
            assert producer == self._current()
            assert frozenset(partitions) <= self._record().partitions

    @rule(number=st.integers(0, 2), partition=st.sampled_from(_PARTITIONS))
    def verify(self, number, partition):
        producer = self.clients[number].identity or Identity(1, 1)
        outcome = self.transaction.verify(5, producer, [partition])
        if isinstance(outcome, Verified) and outcome.errors[partition] is ErrorCode.NONE:
            assert producer == self._current()
            assert partition in self._record().partitions
            assert self._record().state is TransactionState.ONGOING

    @rule(number=st.integers(0, 2), is_commit=st.booleans())
    def end(self, number, is_commit):
        client = self.clients[number]
        if client.identity is not None:
            end = End(client.identity, is_commit, client.version)
            self.ends.append(end)
            self._end(client, end)

    @rule(number=st.integers(0, 2), is_commit=st.booleans(), is_lost=st.booleans())
    def a_whole_transaction(self, number, is_commit, is_lost):
        """A transaction without any trouble, unless the answer to its end is lost: few random walks get that far."""
        weather = self.is_prompt, self.is_heard
        self.is_prompt, self.is_heard = True, True
        self.add_partitions(number, _PARTITIONS[:1])
        self.is_heard = not is_lost
        self.end(number, is_commit)
        self.all_markers_written()
        self.complete()
        self.is_prompt, self.is_heard = weather

    @precondition(lambda self: self.ends)
    @rule(back=st.integers(1, 3), number=st.integers(0, 2), is_opposite=st.booleans())
    def end_again(self, back, number, is_opposite):
        """A request arrives a second time: sent again by its client, perhaps for the opposite, or a late copy."""
        end = self.ends[-min(back, len(self.ends))]
        if is_opposite:
            end = replace(end, is_commit=not end.is_commit)
        client = self.clients[number]
        self._end(client if client.identity == end.producer and client.version == end.version else None, end)

    def _end(self, client, end):
        outcome = self._put(
            lambda **fresh: self.transaction.end(self.now, end.version, end.producer, end.is_commit, **fresh)
        )
        match outcome:
            case Write():
                assert end.producer == self._current(), "an epoch that is over ends a transaction"
                assert (outcome.record.state is TransactionState.PREPARE_COMMIT) == end.is_commit
                assert outcome.record.epoch == end.producer.epoch + (end.version == 5)
                self._begin_write(outcome, client, end)
            case Answer(error, _) if error is not ErrorCode.NONE:
                is_repeated = self.decided.get(end.producer) == (end.is_commit, self._current())
                assert not (is_repeated and self._record().state.is_complete), "the answer is not given again"
            case Answer(_, identity):
                self._check_ended(end, identity)
                if client is not None and end.version == 5:
                    client.identity = identity

    def _check_ended(self, end, identity):
        """An EndTxn was answered with success, and nothing was written for it."""
        if end.version < 5:
            assert end.producer == self._current()
            done = TransactionState.COMPLETE_COMMIT if end.is_commit else TransactionState.COMPLETE_ABORT
            assert self._record().state is done
            return
        is_commit, first = self.decided[end.producer]
        assert is_commit == end.is_commit, "a client hears the opposite of the decision"
        # The coordinator's own abort has no first answer: its producer learns the epoch by this one.
        assert identity == self.raised.setdefault(end.producer, identity)
        assert first is None or first == identity

    # -- what the coordinator does by itself --------------------------------------------------------------------

    @rule(milliseconds=st.sampled_from([1, 5_000, 100_000]))
    def time_passes(self, milliseconds):
        self.now += milliseconds

    @rule(level=_LEVELS)
    def time_out(self, level):
        outcome = self._put(lambda **fresh: self.transaction.time_out(self.now, level, **fresh))
        if isinstance(outcome, Write):
            assert self.now >= self._record().started_ms + self._record().timeout_ms
            self._check_fence(outcome.record)
            self._begin_write(outcome, None)

    @rule(data=st.data())
    def marker_written(self, data):
        markers = self.transaction.markers()
        if markers is not None:
            partition = data.draw(st.sampled_from(markers.partitions))
            self.marked[markers.identity].add(partition)
            self.transaction.marker_written(markers.prepare, partition)

    @rule()
    def all_markers_written(self):
        markers = self.transaction.markers()
        for partition in markers.partitions if markers else ():
            self.marked[markers.identity].add(partition)
            self.transaction.marker_written(markers.prepare, partition)

    @rule(place=st.tuples(st.integers(1, 5), st.integers(0, 30)), partition=st.sampled_from(_PARTITIONS))
    def late_marker_written(self, place, partition):
        if self.transaction.markers() is None or Prepare(*place) != self.transaction.markers().prepare:
            self.transaction.marker_written(Prepare(*place), partition)

    @rule()
    def complete(self):
        write = self.transaction.complete(self.now)
        if write is not None:
            before = self._record()
            assert before.partitions == self.marked[self._current()], "Complete without all markers"
            assert write.record.state is (
                TransactionState.COMPLETE_COMMIT
                if before.state is TransactionState.PREPARE_COMMIT
                else TransactionState.COMPLETE_ABORT
            )
            self._begin_write(write, None)

    @rule(idle=st.sampled_from([50_000, 1_000_000]))
    def expire(self, idle):
        write = self.transaction.expire(self.now, idle)
        if write is not None:
            self._begin_write(write, None)

    # -- writes -------------------------------------------------------------------------------------------------

    @rule(is_prompt=st.booleans(), is_heard=st.booleans())
    def weather(self, is_prompt, is_heard):
        self.is_prompt, self.is_heard = is_prompt, is_heard

    @precondition(lambda self: self.under_way is not None)
    @rule(is_lost=st.booleans())
    def write_committed(self, is_lost):
        self._commit(is_lost)

    def _commit(self, is_lost):
        under_way, self.under_way = self.under_way, None
        place = self._append(under_way.write.record, under_way)
        answer = self.transaction.write_committed(place)
        assert (answer is None) == (under_way.write.answer is None or under_way.is_answered)
        if answer is None:
            return
        assert answer == under_way.write.answer
        if under_way.end is not None and under_way.end.version == 5:
            assert answer.identity == self.raised.setdefault(under_way.end.producer, answer.identity)
        if under_way.client is not None and not is_lost and answer.identity.producer_id >= 0:
            under_way.client.identity = answer.identity

    @precondition(lambda self: self.under_way is not None)
    @rule()
    def write_failed(self):
        under_way, self.under_way = self.under_way, None
        answer = self.transaction.write_failed(ErrorCode.NOT_COORDINATOR)
        assert (answer is None) == (under_way.write.answer is None or under_way.is_answered)

    @precondition(lambda self: self.under_way is not None and not self.under_way.is_answered)
    @rule()
    def write_timed_out(self):
        self.transaction.write_timed_out()
        self.under_way.is_answered = True

    @rule(is_committed=st.booleans(), is_saved=st.booleans())
    def failover(self, is_committed, is_saved):
        """Another coordinator begins: what is under way is committed or lost, and its answer is."""
        under_way, self.under_way = self.under_way, None
        if under_way is not None and is_committed:
            self._append(under_way.write.record, under_way)
        if is_saved:
            restored = TransactionTable()
            list(restored.decode(b"".join(self.table.encode())))
            self.table = restored
        self.term += 1
        self._begin_office()

    # -- the model ----------------------------------------------------------------------------------------------

    def _put(self, request):
        outcome = request()
        if outcome is Later.NEEDS_PRODUCER_ID:
            self.next_id += 1
            outcome = request(fresh_id=self.next_id)
            assert outcome is not Later.NEEDS_PRODUCER_ID
        return outcome

    def _begin_write(self, write, client, end=None):
        assert self.under_way is None, "two writes are under way"
        self.under_way = UnderWay(write, client, end)
        if self.is_prompt:
            self._commit(not self.is_heard)

    def _begin_office(self):
        self.transaction = Transaction(self.table.get(_NAME), self.now, _MAX_TIMEOUT)

    def _append(self, record, under_way=None):
        self.index += 1
        place = Prepare(self.term, self.index)
        before = self._record()
        self.table.apply(_NAME, record, place)
        if record is not None and record.state.is_prepare:
            self._decide(before, record, place, under_way)
        return place

    def _decide(self, before, record, place, under_way):
        marker = Identity(record.producer_id, record.epoch)
        is_commit = record.state is TransactionState.PREPARE_COMMIT
        if record.epoch != before.epoch:
            assert marker not in self.decisions, "a decision is made twice"
        self.decisions[marker] = (is_commit, place, record.partitions)
        self.marked[marker] = set()
        answer = under_way.write.answer
        is_end = under_way.end is not None and under_way.end.version == 5
        self.decided[Identity(before.producer_id, before.epoch)] = (is_commit, answer.identity if is_end else None)

    def _record(self):
        placed = self.table.get(_NAME)
        return None if placed is None else placed.stored

    def _current(self):
        """Return the only producer that may end a transaction."""
        record = self._record()
        return None if record is None else Identity(record.producer_id, record.epoch)

    @invariant()
    def the_machine_has_what_is_committed(self):
        assert self.transaction.stored == self._record()
        assert self.transaction.is_writing == (self.under_way is not None)

    @invariant()
    def the_markers_are_those_of_the_decision(self):
        record, markers = self._record(), self.transaction.markers()
        if record is None or not record.state.is_prepare:
            assert markers is None
            return
        is_commit, place, partitions = self.decisions[self._current()]
        assert self.table.get(_NAME) == PlacedTransaction(record, place)
        assert is_commit == (record.state is TransactionState.PREPARE_COMMIT), "a decision has changed"
        assert record.partitions == partitions
        if markers is not None:
            assert markers.identity == self._current()
            assert markers.prepare == place
            assert markers.type is (MarkerType.COMMIT if is_commit else MarkerType.ABORT)
            assert set(markers.partitions) <= partitions
        missing = set() if markers is None else set(markers.partitions)
        assert partitions - missing <= self.marked[self._current()], "a marker is taken for written"


TestTransactionalId = TransactionalId.TestCase
TestTransactionalId.settings = settings(
    max_examples=200, stateful_step_count=50, deadline=None, suppress_health_check=[HealthCheck.filter_too_much]
)
