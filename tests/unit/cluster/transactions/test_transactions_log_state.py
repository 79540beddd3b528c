"""The transaction table behind a log: the same as a replay of what is committed, and never above its bounds."""

import asyncio
import dataclasses
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.state_bounds import StateFullError, StateOptions
from cluster.transactions.records import StoredTransaction, TopicPartition, TransactionState, encode_record
from cluster.transactions.transaction_table import PlacedTransaction, TransactionTable, record_size
from cluster.transactions.transactions_log_state import TransactionsLogState
from model.control_batch import Prepare
from model.ids import Index, Offset, Term
from model.key_value_batch import KeyValue, encode_key_values
from raft.replicate_item import NewEntry
from storage.entry import Entry, EntryKind
from storage.errors import CorruptLogError

_STATES = list(TransactionState)[:6]


def _stored(state, number=0, partitions=0, **fields):
    members = frozenset(TopicPartition("t", each) for each in range(partitions))
    return StoredTransaction(number, 0, 60_000, state, members, number, **fields)


EMPTY = _stored(TransactionState.EMPTY)
ONGOING = _stored(TransactionState.ONGOING, partitions=3)


def _payload(records):
    return bytes(encode_key_values([encode_record(*record) for record in records], 0))


def _entry(index, records, term=1):
    payload = _payload(records)
    return Entry(Index(index), Term(term), EntryKind.DATA, Offset(0), len(records), payload)


def _committed(state, *records):
    """Append records and commit them."""
    index = state.applied_index + 1
    state.note(_entry(index, records))
    state.commit(Index(index))


def _admit(state, *records):
    return state.admit(NewEntry(EntryKind.DATA, _payload(records), len(records)))


def _restored(snapshot, index, options=None):
    state = TransactionsLogState(options=options)
    for _ in state.restore(snapshot, Index(index)):
        pass
    return state


def test_ids_with_a_transaction_are_found_among_others_in_their_order():
    state = TransactionsLogState()
    _committed(state, *((each.shown, _stored(each)) for each in _STATES))
    asked = ["unknown", *reversed(state.table.transactional_ids())]
    assert state.table.open_among(asked) == ["PrepareAbort", "PrepareCommit", "Ongoing"]
    _committed(state, ("Ongoing", _stored(TransactionState.PREPARE_COMMIT)), ("PrepareCommit", None))
    assert state.table.open_among(asked) == ["PrepareAbort", "Ongoing"]


@st.composite
def _records(draw):
    state = draw(st.sampled_from(_STATES))
    value = _stored(
        state,
        draw(st.integers(0, 9)),
        0 if state is TransactionState.EMPTY else draw(st.integers(0, 4)),
        previous_producer_id=draw(st.sampled_from([-1, 5])),
        next_producer_id=draw(st.sampled_from([-1, 5])),
        client_version=draw(st.sampled_from([0, 2])),
    )
    return draw(st.sampled_from(["a", "b", "trans-ü"])), draw(st.none() | st.just(value))


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.lists(_records(), min_size=1, max_size=3)),
        st.tuples(st.just("commit"), st.integers(0, 50)),
        st.tuples(st.just("truncate"), st.integers(0, 50)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=30,
)


def _contents(table):
    states = {each: table.get(each) for each in table.transactional_ids()}
    assert table.partition_count == sum(len(each.stored.partitions) for each in states.values())
    return states, table.size_bytes, table.record_count


@settings(max_examples=300, deadline=None)
@given(_STEPS)
def test_the_table_is_what_a_replay_of_the_committed_entries_gives(steps):
    state, log, committed, snapshot = TransactionsLogState(), [], 0, (b"", 0)
    for step, argument in steps:
        match step:
            case "write":
                log.append(_entry(len(log) + 1, argument, term=1 + len(log) // 3))
                state.note(log[-1])
            case "commit":
                committed = max(committed, min(argument, len(log)))
                state.commit(Index(committed))
                if argument % 3 == 0:
                    snapshot = (b"".join(state.snapshot()), committed)
            case "truncate":
                del log[max(committed, argument) :]
                state.truncate(Index(len(log) + 1))
            case _:
                state = _restored(*snapshot)
                for entry in log:
                    state.note(entry)
                state.commit(Index(committed))
        replayed = TransactionsLogState()
        for entry in log[:committed]:
            replayed.note(entry)
        replayed.commit(Index(committed))
        assert _contents(state.table) == _contents(replayed.table)
        encoded = b"".join(state.snapshot())
        assert encoded == b"".join(replayed.snapshot())
        assert len(encoded) == state.table.size_bytes
        # What is counted ahead is what the table has once all of the log is applied.
        ahead = TransactionsLogState()
        for entry in log:
            ahead.note(entry)
        ahead.commit(Index(len(log)))
        whole = ahead.table
        expected = [whole.size_bytes, whole.record_count, whole.partition_count]
        assert [fill.used for fill in state.fills()] == expected


def test_each_state_has_the_place_of_its_record():
    state = TransactionsLogState()
    state.note(_entry(4, [("a", EMPTY), ("b", EMPTY)], term=2))
    state.note(_entry(6, [("a", ONGOING)], term=3))
    state.commit(Index(6))
    assert state.table.get("a") == PlacedTransaction(ONGOING, Prepare(3, 6))
    restored = _restored(b"".join(state.snapshot()), 6)
    assert restored.table.get("a") == PlacedTransaction(ONGOING, Prepare(3, 6))
    assert restored.table.get("b") == PlacedTransaction(EMPTY, Prepare(2, 4))


def test_nothing_uncommitted_is_seen():
    state = TransactionsLogState()
    _committed(state, ("a", EMPTY))
    state.note(_entry(2, [("a", ONGOING)]))
    assert state.table.get("a").stored == EMPTY
    state.truncate(Index(2))
    state.note(_entry(2, [("a", None)], term=2))
    state.commit(Index(2))
    assert state.table.get("a") is None
    assert state.table.transactional_ids() == []


def test_a_full_table_takes_no_new_id_and_no_partitions():
    bound = 1 + record_size("a", ONGOING)
    state = TransactionsLogState(options=StateOptions(transactions_bytes_max=bound))
    _committed(state, ("a", ONGOING))
    assert isinstance(_admit(state, ("b", EMPTY)), StateFullError)
    more = dataclasses.replace(ONGOING, partitions=ONGOING.partitions | {TopicPartition("t", 9)})
    assert isinstance(_admit(state, ("a", more)), StateFullError)
    assert [fill.refused for fill in state.fills()] == [2, 0, 0]


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_full_table_lets_transactions_end(is_alone):
    bound = 1 + record_size("a", ONGOING)
    state = TransactionsLogState(options=StateOptions(transactions_bytes_max=bound))
    _committed(state, ("a", ONGOING))
    prepare = dataclasses.replace(
        ONGOING, state=TransactionState.PREPARE_COMMIT, next_producer_id=9, client_version=2, epoch=1
    )
    assert record_size("a", prepare) > record_size("a", ONGOING)
    records = [("a", prepare)] if is_alone else [("a", prepare), ("b", EMPTY)]
    refusal = _admit(state, *records)
    assert (refusal is None) == is_alone
    if is_alone:
        _committed(state, *records)
        complete = dataclasses.replace(prepare, state=TransactionState.COMPLETE_COMMIT, partitions=frozenset())
        assert _admit(state, ("a", complete)) is None
        assert _admit(state, ("a", None)) is None


def test_a_table_has_a_bound_for_many_small_ids_too():
    state = TransactionsLogState(options=StateOptions(transactional_ids_max=2))
    assert _admit(state, ("a", EMPTY), ("b", EMPTY)) is None
    state.note(_entry(1, [("a", EMPTY), ("b", EMPTY)]))
    assert "2 transactional ids" in str(_admit(state, ("c", EMPTY)))
    state.note(_entry(2, [("a", None)]))
    assert _admit(state, ("c", EMPTY)) is None


def test_a_table_has_a_bound_for_the_partitions_of_all_transactions_together():
    """4 encoded bytes of a partition are 160 of memory: 40 MiB of state would be 1.6 GB on each replica."""
    state = TransactionsLogState(options=StateOptions(transaction_partitions_max=5))
    _committed(state, ("a", ONGOING), ("b", EMPTY))
    two, three = (_stored(TransactionState.ONGOING, partitions=each) for each in (2, 3))
    assert "5 partitions of transactions, has 3 and would have 6" in str(_admit(state, ("b", three)))
    assert _admit(state, ("b", two)) is None
    state.note(_entry(2, [("b", two)]))
    # What is not committed counts, and what is truncated does not.
    assert isinstance(_admit(state, ("c", _stored(TransactionState.ONGOING, partitions=1))), StateFullError)
    state.truncate(Index(2))
    assert _admit(state, ("c", two)) is None
    state.note(_entry(2, [("c", two)]))
    assert [fill.used for fill in state.fills()][2] == 5
    # A full table lets transactions end, and has room behind that.
    prepare = dataclasses.replace(ONGOING, state=TransactionState.PREPARE_COMMIT)
    assert _admit(state, ("a", prepare)) is None
    state.note(_entry(3, [("a", prepare)]))
    assert isinstance(_admit(state, ("b", three)), StateFullError)
    complete = dataclasses.replace(prepare, state=TransactionState.COMPLETE_COMMIT, partitions=frozenset())
    state.note(_entry(4, [("a", complete)]))
    assert _admit(state, ("b", three)) is None
    state.commit(Index(4))
    restored = _restored(b"".join(state.snapshot()), 4, StateOptions(transaction_partitions_max=5))
    assert [fill.used for fill in restored.fills()] == [fill.used for fill in state.fills()]
    # Of a table that is above the bound transactions end, too.
    full = _restored(b"".join(state.snapshot()), 4, StateOptions(transaction_partitions_max=1))
    done = dataclasses.replace(two, state=TransactionState.PREPARE_ABORT)
    assert _admit(full, ("c", done)) is None
    assert isinstance(_admit(full, ("c", three)), StateFullError)


def test_all_replicas_take_what_the_leader_has_taken_whatever_their_bounds_are():
    small, large = (TransactionsLogState(options=StateOptions(transaction_partitions_max=each)) for each in (1, 9))
    for state in (small, large):
        _committed(state, ("a", ONGOING))
    assert b"".join(small.snapshot()) == b"".join(large.snapshot())


def test_what_was_admitted_is_noted_without_decoding_it_again(monkeypatch):
    state, payload = TransactionsLogState(), _payload([("a", EMPTY)])
    assert state.admit(NewEntry(EntryKind.DATA, payload, 1)) is None
    monkeypatch.setattr(state, "decode", lambda batch: pytest.fail("decoded"))
    state.note(Entry(Index(1), Term(1), EntryKind.DATA, Offset(0), 1, payload))
    state.commit(Index(1))
    assert state.table.get("a") == PlacedTransaction(EMPTY, Prepare(1, 1))


def test_records_that_cannot_be_read_are_left_out_by_all_replicas(caplog):
    batch = encode_key_values([KeyValue(b"\x00\x07", b""), encode_record("a", EMPTY)], 0)
    state = TransactionsLogState()
    state.note(Entry(Index(1), Term(1), EntryKind.DATA, Offset(0), 2, bytes(batch)))
    state.note(Entry(Index(2), Term(1), EntryKind.DATA, Offset(2), 1, bytes(batch[:-1])))
    state.commit(Index(2))
    assert state.table.transactional_ids() == ["a"]
    assert "a key of version 7" in caplog.text
    assert "are left out" in caplog.text


def test_entries_that_are_in_the_snapshot_change_nothing_again():
    state = TransactionsLogState()
    _committed(state, ("a", EMPTY))
    restored = _restored(b"".join(state.snapshot()), 1)
    restored.note(_entry(1, [("a", None)]))
    restored.commit(Index(1))
    assert restored.table.get("a") is not None
    restored.reset()
    assert (restored.table.get("a"), restored.applied_index) == (None, 0)


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_state_bytes_that_are_cut_off_are_refused_by_name(cut):
    table = TransactionTable()
    table.apply("a", ONGOING, Prepare(1, 1))
    whole = b"".join(table.encode())
    with pytest.raises(CorruptLogError):
        list(TransactionTable().decode(whole[:-cut]))


@given(st.binary(max_size=100))
def test_any_state_bytes_are_a_table_of_that_size_or_a_named_error(data):
    for state in (b"\x01" + data, b"\x02" + data):
        table = TransactionTable()
        try:
            list(table.decode(state))
        except CorruptLogError:
            continue
        assert len(b"".join(table.encode())) == table.size_bytes


def test_a_caller_waits_until_an_index_is_applied():
    async def test():
        state = TransactionsLogState()
        async with asyncio.timeout(5):
            waiting = asyncio.ensure_future(state.wait_applied(Index(1)))
            # The task begins to wait.
            await asyncio.sleep(0)
            assert not waiting.done()
            _committed(state, ("a", EMPTY))
            await waiting
            await state.wait_applied(Index(1))

    asyncio.run(test())


def test_a_large_table_is_saved_and_restored_in_steps():
    table = TransactionTable()
    for number in range(250):
        table.apply(f"t{number}", EMPTY, Prepare(1, number))
    parts = list(table.encode())
    assert len(parts) > 2
    restored = TransactionTable()
    assert len(list(restored.decode(b"".join(parts)))) == 2
    assert _contents(restored) == _contents(table)


def test_a_table_of_many_partitions_is_saved_and_restored_in_steps():
    """A step has 2,000 partitions, or one transaction: not those of a hundred ids."""
    table = TransactionTable()
    for number in range(20):
        table.apply(f"t{number}", _stored(TransactionState.ONGOING, partitions=1000), Prepare(1, number))
    parts = list(table.encode())
    assert max(len(part) for part in parts) <= 2 * record_size("t10", table.get("t10").stored)
    restored = TransactionTable()
    sizes = [0, *(restored.partition_count for _ in restored.decode(b"".join(parts))), restored.partition_count]
    assert max(after - before for before, after in itertools.pairwise(sizes)) <= 2000
    assert _contents(restored) == _contents(table)
