"""The machine of a transactional id: each request and event in each state, by the versions of both protocols.

In all rows the producer is (7, 3). `former` is its epoch before, `foreign` another id. A state with the suffix `_2` was
ended by EndTxn 5, and so by the former epoch; without it EndTxn has left the epoch as it was.
"""

import dataclasses

import pytest

from cluster.transactions.admission import Admission
from cluster.transactions.records import StoredTransaction, TopicPartition, TransactionState
from cluster.transactions.transaction_table import PlacedTransaction
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.transactions.admission_codes import admission_code
from kafka_api.transactions.transaction import PARTITIONS_MAX, Transaction
from kafka_api.transactions.transaction_errors import told_error
from kafka_api.transactions.transaction_events import Answer, Identity, Later, Markers, Verified, Write
from kafka_api.transactions.transaction_steps import assert_step
from model.control_batch import MarkerType, Prepare

CURRENT, FORMER, FOREIGN = Identity(7, 3), Identity(7, 2), Identity(9, 3)
INSIDE = frozenset({TopicPartition("t", 0), TopicPartition("t", 1)})
OUTSIDE = TopicPartition("t", 2)
PLACE, NEXT_PLACE = Prepare(4, 20), Prepare(4, 21)
MAX_TIMEOUT = 900_000
NOW = 1_000_000
LAST_EPOCH = 32_766

_S = TransactionState
_IDLE = StoredTransaction(7, 3, 60_000, _S.EMPTY, frozenset(), 900_000)
_OPEN = dataclasses.replace(_IDLE, state=_S.ONGOING, partitions=INSIDE, started_ms=900_000)
_STATES = {
    "nothing": None,
    "empty": _IDLE,
    "ongoing": _OPEN,
    "prepare_commit": dataclasses.replace(_OPEN, state=_S.PREPARE_COMMIT),
    "prepare_abort": dataclasses.replace(_OPEN, state=_S.PREPARE_ABORT),
    "complete_commit": dataclasses.replace(_IDLE, state=_S.COMPLETE_COMMIT, started_ms=900_000),
    "complete_abort": dataclasses.replace(_IDLE, state=_S.COMPLETE_ABORT, started_ms=900_000),
    "complete_commit_2": dataclasses.replace(_IDLE, state=_S.COMPLETE_COMMIT, started_ms=900_000, client_version=2),
    "complete_abort_2": dataclasses.replace(_IDLE, state=_S.COMPLETE_ABORT, started_ms=900_000, client_version=2),
}
_NAMED = {"current": CURRENT, "former": FORMER, "foreign": FOREIGN, "new": None}


def machine(state, **changes):
    stored = _STATES[state]
    placed = None if stored is None else PlacedTransaction(dataclasses.replace(stored, **changes), PLACE)
    return Transaction(placed, 0, MAX_TIMEOUT)


def shown(outcome):
    """Return an outcome as the tables show it: an error, `wait`, a state, or who the producer is from now on."""
    match outcome:
        case Write(record, _):
            return "deleted" if record is None else f"{record.state.shown} {record.epoch}"
        case Answer(ErrorCode.NONE, (producer_id, epoch)):
            return "ok" if producer_id < 0 else f"ok {producer_id} {epoch}"
        case Answer(error, _):
            return error.name
        case Later.WAIT:
            return "wait"
    return outcome.name.lower()


def written(transaction, outcome, place=NEXT_PLACE):
    """Let the record of an outcome be committed; return the answer."""
    assert isinstance(outcome, Write)
    return transaction.write_committed(place)


def rows(table):
    """Return (row, column, cell) of each cell of a table in text."""
    found = []
    head, *lines = [line.split() for line in table.strip().splitlines()]
    for name, *cells in lines:
        assert len(cells) == len(head) - 1, name
        for column, cell in zip(head[1:], cells, strict=True):
            found.append(pytest.param(name, column, cell.replace(".", " "), id=f"{name}-{column}"))
    return found


# -- EndTxn -----------------------------------------------------------------------------------------------------


_PLAIN_ENDS = """
state              current/commit     current/abort      former/commit    former/abort     foreign/commit
nothing            INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_ID_MAPPING
empty              INVALID_TXN_STATE  INVALID_TXN_STATE  PRODUCER_FENCED  PRODUCER_FENCED  INVALID_PRODUCER_ID_MAPPING
ongoing            PrepareCommit.3    PrepareAbort.3     PRODUCER_FENCED  PRODUCER_FENCED  INVALID_PRODUCER_ID_MAPPING
prepare_commit     wait               wait               PRODUCER_FENCED  PRODUCER_FENCED  INVALID_PRODUCER_ID_MAPPING
prepare_abort      wait               wait               PRODUCER_FENCED  PRODUCER_FENCED  INVALID_PRODUCER_ID_MAPPING
complete_commit    ok                 INVALID_TXN_STATE  PRODUCER_FENCED  PRODUCER_FENCED  INVALID_PRODUCER_ID_MAPPING
complete_abort     INVALID_TXN_STATE  ok                 PRODUCER_FENCED  PRODUCER_FENCED  INVALID_PRODUCER_ID_MAPPING
complete_commit_2  ok                 INVALID_TXN_STATE  PRODUCER_FENCED  PRODUCER_FENCED  INVALID_PRODUCER_ID_MAPPING
complete_abort_2   INVALID_TXN_STATE  ok                 PRODUCER_FENCED  PRODUCER_FENCED  INVALID_PRODUCER_ID_MAPPING
"""

_RAISING_ENDS = """
state              current/commit     current/abort      former/commit    former/abort       foreign/commit
nothing            INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_ID_MAPPING
empty              INVALID_TXN_STATE  PrepareAbort.4     PRODUCER_FENCED  PRODUCER_FENCED    INVALID_PRODUCER_ID_MAPPING
ongoing            PrepareCommit.4    PrepareAbort.4     PRODUCER_FENCED  PRODUCER_FENCED    INVALID_PRODUCER_ID_MAPPING
prepare_commit     wait               wait               wait             wait               wait
prepare_abort      wait               wait               wait             wait               wait
complete_commit    INVALID_TXN_STATE  PrepareAbort.4     PRODUCER_FENCED  PRODUCER_FENCED    INVALID_PRODUCER_ID_MAPPING
complete_abort     INVALID_TXN_STATE  PrepareAbort.4     PRODUCER_FENCED  PRODUCER_FENCED    INVALID_PRODUCER_ID_MAPPING
complete_commit_2  INVALID_TXN_STATE  PrepareAbort.4     ok.7.3           INVALID_TXN_STATE  INVALID_PRODUCER_ID_MAPPING
complete_abort_2   INVALID_TXN_STATE  PrepareAbort.4     PRODUCER_FENCED  ok.7.3             INVALID_PRODUCER_ID_MAPPING
"""


def _end(state, column, version):
    who, how = column.split("/")
    return shown(machine(state).end(NOW, version, _NAMED[who], how == "commit"))


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize(("state", "column", "expected"), rows(_PLAIN_ENDS))
def test_an_end_below_version_5(state, column, expected, version):
    if version < 2 and expected == "PRODUCER_FENCED":
        expected = "INVALID_PRODUCER_EPOCH"
    assert _end(state, column, version) == expected


@pytest.mark.parametrize(("state", "column", "expected"), rows(_RAISING_ENDS))
def test_an_end_of_version_5(state, column, expected):
    assert _end(state, column, 5) == expected


def test_the_answer_to_an_end_of_version_5_is_the_next_epoch():
    transaction = machine("ongoing")
    assert written(transaction, transaction.end(NOW, 5, CURRENT, True)) == Answer(ErrorCode.NONE, Identity(7, 4))
    assert transaction.stored.client_version == 2


def test_the_answer_to_an_end_below_version_5_names_nobody():
    transaction = machine("ongoing")
    assert written(transaction, transaction.end(NOW, 4, CURRENT, True)) == Answer(ErrorCode.NONE)
    assert transaction.stored.client_version == 0


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("is_moved", [True, False])
@pytest.mark.parametrize("epoch", [3, LAST_EPOCH])
def test_an_end_of_version_5_whose_answer_was_lost_is_answered_again(is_commit, is_moved, epoch):
    transaction, producer = machine("ongoing", epoch=epoch), Identity(7, epoch)
    first = written(transaction, transaction.end(NOW, 5, producer, is_commit, fresh_id=50))
    assert transaction.end(NOW, 5, producer, is_commit) is Later.WAIT
    _mark_all(transaction)
    if is_moved:
        transaction = Transaction(PlacedTransaction(transaction.stored, PLACE), 0, MAX_TIMEOUT)
    assert transaction.end(NOW, 5, producer, is_commit) == first
    assert first.identity == (Identity(50, 0) if epoch == LAST_EPOCH else Identity(7, 4))


def test_a_producer_is_not_told_of_a_commit_that_another_one_made():
    """In Kafka, the epoch before the last one is told of whatever was committed since, also below EndTxn 5."""
    assert shown(machine("complete_commit").end(NOW, 5, FORMER, True)) == "PRODUCER_FENCED"


def test_an_abort_of_nothing_writes_no_marker_and_raises_the_epoch():
    transaction = machine("empty")
    answer = written(transaction, transaction.end(NOW, 5, CURRENT, False))
    assert answer == Answer(ErrorCode.NONE, Identity(7, 4))
    assert transaction.markers() is None
    written(transaction, transaction.complete(NOW))
    assert shown(transaction.end(NOW, 5, CURRENT, False)) == "ok 7 4"


# -- AddPartitionsToTxn, AddOffsetsToTxn, verification ----------------------------------------------------------


_ADDITIONS = """
state              current/new  current/known  former/new       foreign/new
nothing            INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_ID_MAPPING
empty              Ongoing.3    Ongoing.3      PRODUCER_FENCED  INVALID_PRODUCER_ID_MAPPING
ongoing            Ongoing.3    ok             PRODUCER_FENCED  INVALID_PRODUCER_ID_MAPPING
prepare_commit     wait         wait           wait             wait
prepare_abort      wait         wait           wait             wait
complete_commit    Ongoing.3    Ongoing.3      PRODUCER_FENCED  INVALID_PRODUCER_ID_MAPPING
complete_abort     Ongoing.3    Ongoing.3      PRODUCER_FENCED  INVALID_PRODUCER_ID_MAPPING
complete_commit_2  Ongoing.3    Ongoing.3      PRODUCER_FENCED  INVALID_PRODUCER_ID_MAPPING
complete_abort_2   Ongoing.3    Ongoing.3      PRODUCER_FENCED  INVALID_PRODUCER_ID_MAPPING
"""


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize(("state", "column", "expected"), rows(_ADDITIONS))
def test_partitions_are_added(state, column, expected, version):
    who, what = column.split("/")
    partitions = [OUTSIDE] if what == "new" else sorted(INSIDE)[:1]
    if version < 2 and expected == "PRODUCER_FENCED":
        expected = "INVALID_PRODUCER_EPOCH"
    assert shown(machine(state).add_partitions(NOW, version, _NAMED[who], partitions)) == expected
    if version < 5:
        assert shown(machine(state).add_offsets(NOW, version, _NAMED[who], partitions[0])) == expected


@pytest.mark.parametrize(("state", "started"), [("empty", NOW), ("ongoing", 900_000), ("complete_commit_2", NOW)])
def test_a_transaction_begins_with_its_first_partition(state, started):
    transaction = machine(state)
    write = transaction.add_partitions(NOW, 3, CURRENT, [OUTSIDE])
    assert write.record.partitions == {OUTSIDE} | (INSIDE if state == "ongoing" else set())
    assert (write.record.started_ms, write.record.client_version) == (started, 0)
    assert written(transaction, write) == Answer(ErrorCode.NONE)


def test_a_broker_adds_partitions_by_the_newer_protocol():
    assert machine("empty").add_partitions(NOW, 5, CURRENT, [OUTSIDE]).record.client_version == 2
    assert machine("empty").add_offsets(NOW, 4, CURRENT, OUTSIDE).record.client_version == 0


@pytest.mark.parametrize(
    ("count", "expected"), [(PARTITIONS_MAX, "Ongoing 3"), (PARTITIONS_MAX + 1, "INVALID_REQUEST")]
)
def test_a_request_adds_a_bounded_number_of_partitions(count, expected):
    partitions = [TopicPartition("t", number) for number in range(count)]
    assert shown(machine("empty").add_partitions(NOW, 3, CURRENT, partitions)) == expected


@pytest.mark.parametrize("state", ["ongoing", "complete_commit"])
def test_a_transaction_has_a_bounded_number_of_partitions_however_many_requests_add_them(state):
    room = PARTITIONS_MAX - (len(INSIDE) if state == "ongoing" else 0)
    partitions = [TopicPartition("other", number) for number in range(PARTITIONS_MAX)]
    transaction = machine(state)
    write = transaction.add_partitions(NOW, 3, CURRENT, partitions[:room])
    assert len(write.record.partitions) == PARTITIONS_MAX
    assert written(transaction, write) == Answer(ErrorCode.NONE)
    assert shown(transaction.add_partitions(NOW, 3, CURRENT, [OUTSIDE])) == "INVALID_REQUEST"
    assert shown(transaction.add_offsets(NOW, 3, CURRENT, OUTSIDE)) == "INVALID_REQUEST"
    # What it has already is no more than before.
    assert transaction.add_partitions(NOW, 3, CURRENT, partitions[:2]) == Answer(ErrorCode.NONE)


@pytest.mark.parametrize(
    ("state", "who", "expected"),
    [
        *((state, "foreign", "INVALID_PRODUCER_ID_MAPPING") for state in _STATES),
        *((state, "former", "PRODUCER_FENCED") for state in _STATES if state != "nothing"),
        ("prepare_commit", "current", "wait"),
        ("prepare_abort", "current", "wait"),
    ],
)
def test_no_partition_is_verified_for_another_producer_or_behind_a_decision(state, who, expected):
    assert shown(machine(state).verify(5, _NAMED[who], [OUTSIDE])) == expected


@pytest.mark.parametrize("state", ["empty", "ongoing", "complete_commit", "complete_abort_2"])
def test_a_partition_is_verified_if_it_is_in_the_transaction(state):
    known = min(INSIDE)
    inside = ErrorCode.NONE if state == "ongoing" else ErrorCode.TRANSACTION_ABORTABLE
    verified = machine(state).verify(5, CURRENT, [known, OUTSIDE])
    assert verified == Verified({known: inside, OUTSIDE: ErrorCode.TRANSACTION_ABORTABLE})


def test_a_partition_is_not_verified_before_its_addition_is_committed():
    transaction = machine("empty")
    write = transaction.add_partitions(NOW, 3, CURRENT, [OUTSIDE])
    assert transaction.verify(5, CURRENT, [OUTSIDE]).errors[OUTSIDE] is ErrorCode.TRANSACTION_ABORTABLE
    written(transaction, write)
    assert transaction.verify(5, CURRENT, [OUTSIDE]).errors[OUTSIDE] is ErrorCode.NONE


# -- InitProducerId ---------------------------------------------------------------------------------------------


_INITS = """
state              new             current         former           foreign
nothing            Empty.0         Empty.0         Empty.0          Empty.0
empty              Empty.4         Empty.4         PRODUCER_FENCED  PRODUCER_FENCED
ongoing            PrepareAbort.4  PrepareAbort.4  PRODUCER_FENCED  PRODUCER_FENCED
prepare_commit     wait            wait            wait             wait
prepare_abort      wait            wait            wait             wait
complete_commit    Empty.4         Empty.4         PRODUCER_FENCED  PRODUCER_FENCED
complete_abort     Empty.4         Empty.4         PRODUCER_FENCED  PRODUCER_FENCED
complete_commit_2  Empty.4         Empty.4         Empty.3          PRODUCER_FENCED
complete_abort_2   Empty.4         Empty.4         Empty.3          PRODUCER_FENCED
"""


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize(("state", "who", "expected"), rows(_INITS))
def test_a_producer_comes(state, who, expected, level, version):
    if version < 4 and expected == "PRODUCER_FENCED":
        expected = "INVALID_PRODUCER_EPOCH"
    transaction = machine(state)
    outcome = transaction.init_producer_id(NOW, version, 30_000, _NAMED[who], level, fresh_id=50)
    assert shown(outcome) == expected
    if isinstance(outcome, Write):
        answer = written(transaction, outcome)
        record = transaction.stored
        is_fence = state == "ongoing"
        assert answer.error is (ErrorCode.CONCURRENT_TRANSACTIONS if is_fence else ErrorCode.NONE)
        assert is_fence or answer.identity == Identity(50 if state == "nothing" else 7, record.epoch)
        assert record.timeout_ms == (60_000 if is_fence else 30_000)


@pytest.mark.parametrize("timeout", [-1, 0, MAX_TIMEOUT + 1])
@pytest.mark.parametrize("state", _STATES)
def test_a_timeout_that_is_none_or_too_long_is_refused(timeout, state):
    outcome = machine(state).init_producer_id(NOW, 4, timeout, None, 2, fresh_id=50)
    assert shown(outcome) == "INVALID_TRANSACTION_TIMEOUT"
    assert isinstance(machine("empty").init_producer_id(NOW, 4, MAX_TIMEOUT, None, 2), Write)


def test_a_new_id_needs_a_producer_id_that_nobody_has():
    transaction = machine("nothing")
    assert transaction.init_producer_id(NOW, 4, 30_000, None, 2) is Later.NEEDS_PRODUCER_ID
    write = transaction.init_producer_id(NOW, 4, 30_000, None, 2, fresh_id=50)
    assert written(transaction, write) == Answer(ErrorCode.NONE, Identity(50, 0))
    assert transaction.stored.previous_producer_id == -1


def test_a_producer_whose_new_epoch_was_not_answered_gets_it_again():
    transaction = machine("empty")
    first = written(transaction, transaction.init_producer_id(NOW, 4, 30_000, CURRENT, 2))
    for _ in range(2):
        assert written(transaction, transaction.init_producer_id(NOW, 4, 30_000, CURRENT, 2)) == first
    written(transaction, transaction.init_producer_id(NOW, 4, 30_000, None, 2))
    assert shown(transaction.init_producer_id(NOW, 4, 30_000, CURRENT, 2)) == "PRODUCER_FENCED"


def test_a_former_producer_does_not_abort_the_transaction_of_its_successor():
    """In Kafka it does, and is refused afterwards."""
    transaction = machine("empty")
    written(transaction, transaction.init_producer_id(NOW, 4, 30_000, CURRENT, 2))
    written(transaction, transaction.add_partitions(NOW, 3, Identity(7, 4), [OUTSIDE]))
    assert shown(transaction.init_producer_id(NOW, 4, 30_000, CURRENT, 2)) == "PRODUCER_FENCED"
    assert transaction.state is _S.ONGOING


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("version", [2, 5])
def test_a_producer_that_another_one_has_replaced_ends_nothing(level, is_commit, version):
    transaction = machine("ongoing")
    written(transaction, transaction.init_producer_id(NOW, 4, 30_000, None, level))
    assert _late_end(transaction, version, is_commit) == "PRODUCER_FENCED"
    assert shown(transaction.init_producer_id(NOW, 4, 30_000, CURRENT, level)) == "PRODUCER_FENCED"
    answer = written(transaction, transaction.init_producer_id(NOW, 4, 30_000, None, level))
    assert answer == Answer(ErrorCode.NONE, Identity(7, 5))
    assert shown(transaction.end(NOW, version, CURRENT, is_commit)) == "PRODUCER_FENCED"


def test_a_producer_that_begins_anew_itself_gets_the_epoch_of_its_own_abort():
    transaction = machine("ongoing")
    written(transaction, transaction.init_producer_id(NOW, 4, 30_000, CURRENT, 2))
    _mark_all(transaction)
    answer = written(transaction, transaction.init_producer_id(NOW, 4, 30_000, CURRENT, 2))
    assert answer == Answer(ErrorCode.NONE, Identity(7, 4))


# -- the end of the epochs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [None, Identity(7, LAST_EPOCH)])
def test_a_producer_that_has_used_up_its_epochs_gets_another_id(known):
    transaction = machine("empty", epoch=LAST_EPOCH)
    assert transaction.init_producer_id(NOW, 4, 30_000, known, 2) is Later.NEEDS_PRODUCER_ID
    answer = written(transaction, transaction.init_producer_id(NOW, 4, 30_000, known, 2, fresh_id=50))
    assert answer == Answer(ErrorCode.NONE, Identity(50, 0))
    assert transaction.stored.previous_producer_id == 7
    again = transaction.init_producer_id(NOW, 4, 30_000, Identity(7, LAST_EPOCH), 2, fresh_id=51)
    assert shown(again) == ("PRODUCER_FENCED" if known is None else "Empty 0")
    assert known is None or written(transaction, again) == answer


def test_an_end_that_uses_up_the_epochs_gives_another_id_once_it_is_complete():
    transaction, producer = machine("ongoing", epoch=LAST_EPOCH), Identity(7, LAST_EPOCH)
    assert transaction.end(NOW, 5, producer, True) is Later.NEEDS_PRODUCER_ID
    answer = written(transaction, transaction.end(NOW, 5, producer, True, fresh_id=50))
    assert answer == Answer(ErrorCode.NONE, Identity(50, 0))
    prepared = transaction.stored
    assert (prepared.producer_id, prepared.epoch, prepared.next_producer_id) == (7, 32_767, 50)
    assert transaction.markers().identity == Identity(7, 32_767)
    # The client has the new id already.
    assert shown(transaction.add_partitions(NOW, 5, Identity(50, 0), [OUTSIDE])) == "wait"
    _mark_all(transaction)
    complete = transaction.stored
    assert (complete.producer_id, complete.epoch, complete.previous_producer_id) == (50, 0, 7)
    assert complete.next_producer_id == -1
    assert shown(transaction.add_partitions(NOW, 5, Identity(50, 0), [OUTSIDE])) == "Ongoing 0"


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_below_version_5_leaves_the_last_epoch(is_commit):
    transaction = machine("ongoing", epoch=LAST_EPOCH)
    written(transaction, transaction.end(NOW, 4, Identity(7, LAST_EPOCH), is_commit))
    assert (transaction.stored.epoch, transaction.stored.next_producer_id) == (LAST_EPOCH, -1)


@pytest.mark.parametrize("level", [1, 2])
def test_a_timeout_in_the_last_epoch_is_followed_by_another_id(level):
    transaction = machine("ongoing", epoch=LAST_EPOCH)
    outcome = transaction.time_out(NOW, level)
    if level == 2:
        assert outcome is Later.NEEDS_PRODUCER_ID
        outcome = transaction.time_out(NOW, level, fresh_id=50)
    assert written(transaction, outcome) is None
    assert transaction.stored.epoch == 32_767
    _mark_all(transaction)
    assert transaction.stored.producer_id == (50 if level == 2 else 7)
    answer = written(transaction, transaction.init_producer_id(NOW, 4, 30_000, None, level, fresh_id=51))
    assert answer.identity == (Identity(50, 1) if level == 2 else Identity(51, 0))


def test_nobody_has_the_epoch_that_only_fences():
    transaction = machine("complete_abort", epoch=32_767)
    fenced = Identity(7, 32_767)
    assert shown(transaction.add_partitions(NOW, 5, fenced, [OUTSIDE])) == "PRODUCER_FENCED"
    assert shown(transaction.end(NOW, 5, fenced, False, fresh_id=50)) == "PRODUCER_FENCED"
    assert shown(transaction.init_producer_id(NOW, 4, 30_000, Identity(7, LAST_EPOCH), 1)) == "PRODUCER_FENCED"


# -- time-outs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("office", "deadline"), [(0, 60_000), (949_999, 960_000), (955_000, 965_000)])
def test_a_transaction_has_its_time_and_ten_seconds_of_each_office(office, deadline):
    transaction = Transaction(PlacedTransaction(_OPEN, PLACE), office, MAX_TIMEOUT)
    assert transaction.deadline_ms == deadline
    assert transaction.time_out(deadline - 1, 2) is None
    assert shown(transaction.time_out(deadline, 2)) == "PrepareAbort 4"


def test_a_clock_that_goes_back_puts_no_deadline_off_by_more_than_the_time_of_a_transaction():
    office = NOW + 90_000_000
    transaction = Transaction(PlacedTransaction(_OPEN, PLACE), office, MAX_TIMEOUT)
    transaction.clock_shows(NOW)
    assert transaction.deadline_ms == max(_OPEN.started_ms + _OPEN.timeout_ms, NOW + 10_000)
    # What was begun in this office began by a clock that was ahead.
    started = office + 1_000
    transaction = Transaction(None, office, MAX_TIMEOUT)
    written(transaction, transaction.init_producer_id(office, 4, 30_000, None, 1, fresh_id=7))
    written(transaction, transaction.add_partitions(started, 3, Identity(7, 0), [OUTSIDE]))
    assert transaction.deadline_ms == started + 30_000
    transaction.clock_shows(NOW)
    assert transaction.deadline_ms == NOW + 30_000
    transaction.clock_shows(NOW - 5_000)
    assert transaction.deadline_ms == NOW + 25_000


@pytest.mark.parametrize("state", [state for state in _STATES if state != "ongoing"])
def test_only_an_open_transaction_times_out(state):
    transaction = machine(state)
    assert transaction.deadline_ms is None
    assert transaction.time_out(NOW * 1000, 2) is None


@pytest.mark.parametrize(
    ("level", "version", "is_commit", "expected"),
    [
        (1, 1, True, "INVALID_PRODUCER_EPOCH"),
        (1, 2, True, "PRODUCER_FENCED"),
        (1, 2, False, "PRODUCER_FENCED"),
        (2, 1, True, "INVALID_PRODUCER_EPOCH"),
        (2, 2, True, "PRODUCER_FENCED"),
        (2, 2, False, "PRODUCER_FENCED"),
        (2, 5, True, "PRODUCER_FENCED"),
        (2, 5, False, "ok 7 4"),
    ],
)
def test_an_end_that_comes_after_the_timeout(level, version, is_commit, expected):
    transaction = machine("ongoing")
    written(transaction, transaction.time_out(NOW, level))
    assert transaction.markers().type is MarkerType.ABORT
    assert _late_end(transaction, version, is_commit) == expected


def test_a_timeout_waits_for_the_write_that_is_under_way():
    transaction = machine("ongoing")
    write = transaction.end(NOW, 4, CURRENT, True)
    assert transaction.time_out(NOW, 2) is Later.WAIT
    written(transaction, write)
    assert transaction.time_out(NOW, 2) is None


# -- markers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("is_commit", "kind"), [(True, MarkerType.COMMIT), (False, MarkerType.ABORT)])
@pytest.mark.parametrize(("version", "epoch"), [(4, 3), (5, 4)])
def test_the_markers_are_those_of_the_decision(is_commit, kind, version, epoch):
    transaction = machine("ongoing")
    write = transaction.end(NOW, version, CURRENT, is_commit)
    assert transaction.markers() is None, "nothing is decided before the record is committed"
    written(transaction, write)
    assert transaction.markers() == Markers(Identity(7, epoch), kind, NEXT_PLACE, tuple(sorted(INSIDE)))


def test_complete_is_written_when_each_partition_has_its_marker():
    transaction = machine("ongoing")
    written(transaction, transaction.end(NOW, 4, CURRENT, True))
    first, last = sorted(INSIDE)
    assert transaction.complete(NOW) is None
    transaction.marker_written(NEXT_PLACE, first)
    assert transaction.markers().partitions == (last,)
    assert transaction.complete(NOW) is None
    transaction.marker_written(Prepare(4, 19), last)
    assert transaction.complete(NOW) is None, "a marker of another decision is none of this one"
    transaction.marker_written(NEXT_PLACE, last)
    write = transaction.complete(NOW)
    assert (shown(write), write.record.partitions) == ("CompleteCommit 3", frozenset())
    assert transaction.complete(NOW) is None, "it is being written"
    assert written(transaction, write) is None
    assert transaction.markers() is None
    assert transaction.complete(NOW) is None


@pytest.mark.parametrize("state", ["prepare_commit", "prepare_abort"])
def test_a_new_coordinator_sends_all_markers_of_the_same_decision_again(state):
    transaction = machine(state)
    kind = MarkerType.COMMIT if state == "prepare_commit" else MarkerType.ABORT
    assert transaction.markers() == Markers(CURRENT, kind, PLACE, tuple(sorted(INSIDE)))


def test_complete_is_written_again_after_it_has_failed():
    transaction = machine("prepare_commit")
    for partition in INSIDE:
        transaction.marker_written(PLACE, partition)
    assert transaction.complete(NOW) is not None
    assert transaction.write_failed(ErrorCode.NOT_COORDINATOR) is None
    assert shown(transaction.complete(NOW)) == "CompleteCommit 3"


# -- writes -----------------------------------------------------------------------------------------------------


def _request(transaction, number):
    calls = [
        lambda: transaction.init_producer_id(NOW, 4, 30_000, None, 2, fresh_id=50),
        lambda: transaction.init_producer_id(NOW, 4, 30_000, CURRENT, 2, fresh_id=50),
        lambda: transaction.add_partitions(NOW, 3, CURRENT, [OUTSIDE]),
        lambda: transaction.add_offsets(NOW, 3, CURRENT, OUTSIDE),
        lambda: transaction.end(NOW, 4, CURRENT, True),
        lambda: transaction.end(NOW, 5, CURRENT, False),
    ]
    return calls[number]()


def _requests(transaction):
    return [_request(transaction, number) for number in range(6)]


@pytest.mark.parametrize("state", ["nothing", "empty", "ongoing", "complete_commit_2"])
def test_all_requests_wait_while_a_write_is_under_way(state):
    assert any(isinstance(_request(machine(state), number), Write) for number in range(6))
    for number in range(6):
        transaction = machine(state)
        if isinstance(_request(transaction, number), Write):
            assert _requests(transaction) == [Later.WAIT] * 6
            assert transaction.expire(NOW, 0) is None
            assert transaction.complete(NOW) is None


def test_a_write_that_failed_has_changed_nothing():
    transaction = machine("ongoing")
    assert isinstance(transaction.end(NOW, 5, CURRENT, True), Write)
    answer = transaction.write_failed(ErrorCode.NOT_COORDINATOR)
    assert answer == Answer(ErrorCode.NOT_COORDINATOR)
    assert transaction.stored == _OPEN
    # The client aborts instead: no decision was made.
    assert shown(transaction.end(NOW, 5, CURRENT, False)) == "PrepareAbort 4"


def test_a_write_that_timed_out_is_under_way_until_its_outcome_is_known():
    transaction = machine("ongoing")
    assert isinstance(transaction.end(NOW, 5, CURRENT, True), Write)
    assert transaction.write_timed_out() == Answer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert transaction.is_writing
    assert _requests(transaction) == [Later.WAIT] * 6
    assert transaction.markers() is None
    assert transaction.write_committed(NEXT_PLACE) is None, "its request has been answered"
    assert transaction.markers().type is MarkerType.COMMIT
    _mark_all(transaction)
    assert shown(transaction.end(NOW, 5, CURRENT, True)) == "ok 7 4"


def test_a_write_that_timed_out_and_failed_has_changed_nothing():
    transaction = machine("empty")
    assert isinstance(transaction.add_partitions(NOW, 3, CURRENT, [OUTSIDE]), Write)
    transaction.write_timed_out()
    assert transaction.write_timed_out() is None
    assert transaction.write_failed(ErrorCode.NOT_COORDINATOR) is None
    assert shown(transaction.add_partitions(NOW, 3, CURRENT, [OUTSIDE])) == "Ongoing 3"


# -- expiry -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", _STATES)
def test_an_id_is_forgotten_when_it_has_nothing_open_and_was_idle(state):
    transaction = machine(state)
    is_idle = state == "empty" or state.startswith("complete")
    assert transaction.expire(NOW, 100_001) is None
    write = transaction.expire(NOW, 100_000)
    assert (write is not None) == is_idle
    if write is not None:
        assert shown(write) == "deleted"
        assert written(transaction, write) is None
        assert (transaction.state, transaction.stored) == (_S.DEAD, None)
        assert shown(transaction.end(NOW, 5, CURRENT, True)) == "INVALID_PRODUCER_ID_MAPPING"
        assert shown(transaction.init_producer_id(NOW, 4, 30_000, CURRENT, 2, fresh_id=50)) == "Empty 0"


# -- invariants -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "unmarked"),
    [
        ("prepare_commit", "complete_commit", 1),
        ("prepare_commit", "complete_abort", 0),
        ("prepare_abort", "complete_commit", 0),
        ("prepare_commit", "prepare_abort", 0),
        ("prepare_abort", "prepare_commit", 0),
        ("empty", "prepare_commit", 0),
        ("ongoing", "empty", 0),
        ("ongoing", "complete_abort", 0),
        ("ongoing", "nothing", 0),
        ("nothing", "ongoing", 0),
    ],
)
def test_a_step_that_no_transaction_takes_is_caught(before, after, unmarked):
    with pytest.raises(AssertionError):
        assert_step(_STATES[before], _STATES[after], unmarked)


@pytest.mark.parametrize(
    "changes",
    [
        {"epoch": 2},
        {"epoch": 5},
        {"producer_id": 50, "epoch": 0},
        {"producer_id": 50, "epoch": 1, "previous_producer_id": 7},
        {"producer_id": 50, "epoch": 3, "previous_producer_id": 7},
    ],
)
def test_an_epoch_that_falls_or_jumps_is_caught(changes):
    with pytest.raises(AssertionError):
        assert_step(_IDLE, dataclasses.replace(_IDLE, **changes), 0)


# -- error codes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "since"),
    [
        (ApiKey.INIT_PRODUCER_ID, 4),
        (ApiKey.ADD_PARTITIONS_TO_TXN, 2),
        (ApiKey.ADD_OFFSETS_TO_TXN, 2),
        (ApiKey.END_TXN, 2),
    ],
)
def test_a_client_that_does_not_know_fenced_gets_the_older_code(key, since):
    fenced, older = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
    assert [told_error(fenced, key, version) for version in (since - 1, since)] == [older, fenced]
    assert told_error(ErrorCode.INVALID_TXN_STATE, key, 0) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize(
    ("admission", "produce", "offsets"),
    [
        ("AWAY", "NOT_ENOUGH_REPLICAS", "COORDINATOR_NOT_AVAILABLE"),
        ("BUSY", "NOT_ENOUGH_REPLICAS", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("OLD_EPOCH", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_EPOCH"),
        ("UNKNOWN_ID", "INVALID_PRODUCER_ID_MAPPING", "INVALID_PRODUCER_ID_MAPPING"),
        ("YES", "NONE", "NONE"),
    ],
)
def test_a_batch_that_is_not_admitted_is_answered_as_the_rfc_says(admission, produce, offsets):
    for version in (3, 12):
        assert admission_code(Admission[admission], ApiKey.PRODUCE, version) is ErrorCode[produce]
        assert admission_code(Admission[admission], ApiKey.TXN_OFFSET_COMMIT, version) is ErrorCode[offsets]


@pytest.mark.parametrize(("key", "since"), [(ApiKey.PRODUCE, 11), (ApiKey.TXN_OFFSET_COMMIT, 4)])
def test_a_client_that_does_not_know_abortable_gets_the_older_code(key, since):
    assert admission_code(Admission.NOT_IN_TRANSACTION, key, since) is ErrorCode.TRANSACTION_ABORTABLE
    assert admission_code(Admission.NOT_IN_TRANSACTION, key, since - 1) is ErrorCode.INVALID_TXN_STATE


def _mark_all(transaction):
    """Let all markers be written, and Complete."""
    markers = transaction.markers()
    for partition in markers.partitions if markers else ():
        transaction.marker_written(markers.prepare, partition)
    write = transaction.complete(NOW)
    assert write is not None
    transaction.write_committed(Prepare(9, 99))


def _late_end(transaction, version, is_commit):
    """Let the transaction be complete, and its former producer end it then."""
    _mark_all(transaction)
    return shown(transaction.end(NOW, version, CURRENT, is_commit))
