"""The bounds of a group table: counted in the bytes of its snapshot, over all that lies in the log."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.groups.group_table import GroupTable
from cluster.groups.offsets_log_state import OffsetsLogState
from cluster.groups.records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    StoredGroup,
    StoredMember,
    encode_record,
    encoded_size,
)
from cluster.state_bounds import StateFullError, StateOptions
from model.ids import Index, Offset, Term
from model.key_value_batch import encode_key_values
from raft.replicate_item import NewEntry
from storage.entry import Entry, EntryKind
from storage.errors import CorruptLogError
from storage.snapshot_file import STATE_BYTES_MAX

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_NULLABLE = st.none() | _TEXTS
_I32 = st.integers(-(2**31), 2**31 - 1)
_I64 = st.integers(-(2**63), 2**63 - 1)
_KEYS = st.one_of(
    st.builds(OffsetKey, st.sampled_from(["g", "gruppe-ü", "群"]), st.sampled_from(["t", "u"]), st.integers(0, 2)),
    st.builds(GroupKey, st.sampled_from(["g", "gruppe-ü", "群"])),
)
_MEMBERS = st.builds(
    StoredMember, _TEXTS, _NULLABLE, _TEXTS, _TEXTS, _I32, _I32, st.binary(max_size=9), st.binary(max_size=9)
)
_GROUPS = st.builds(StoredGroup, _TEXTS, _I32, _NULLABLE, _NULLABLE, _I64, st.lists(_MEMBERS, max_size=3).map(tuple))
_OFFSETS = st.builds(CommittedOffset, _I64, _I32, _TEXTS, _I64)


@st.composite
def _records(draw):
    key = draw(_KEYS)
    return key, draw(st.none() | (_OFFSETS if isinstance(key, OffsetKey) else _GROUPS))


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.lists(_records(), min_size=1, max_size=4)),
        st.tuples(st.just("commit"), st.integers(0, 50)),
        st.tuples(st.just("truncate"), st.integers(0, 50)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=25,
)


def _batch(records):
    return encode_key_values([encode_record(key, value) for key, value in records], 0)


def _admitted(state, log, records):
    """Let the leader judge an entry, and note it where it is taken; return the refusal."""
    payload = _batch(records)
    refusal = state.admit(NewEntry(EntryKind.DATA, payload, len(records)))
    if refusal is None:
        log.append(Entry(Index(len(log) + 1), Term(1), EntryKind.DATA, Offset(0), len(records), payload))
        state.note(log[-1])
    return refusal


@given(_records())
def test_the_size_of_a_record_is_told_without_encoding_it(record):
    key, value = record
    if value is not None:
        encoded = encode_record(key, value)
        assert encoded_size(key, value) == len(encoded.key) + len(encoded.value)


@settings(max_examples=300, deadline=None)
@given(_STEPS, st.integers(1, 600), st.integers(1, 6))
def test_no_replica_ever_has_a_larger_snapshot_than_the_bound(steps, bytes_max, records_max):
    options = StateOptions(groups_bytes_max=bytes_max, group_records_max=records_max)
    state, log, committed = OffsetsLogState(options=options), [], 0
    for word, argument in steps:
        match word:
            case "write":
                _admitted(state, log, argument)
            case "commit":
                committed = max(committed, min(argument, len(log)))
                state.commit(Index(committed))
            case "truncate":
                del log[max(committed, argument) :]
                state.truncate(Index(len(log) + 1))
            case _:
                snapshot = b"".join(state.snapshot())
                state = OffsetsLogState(options=options)
                list(state.restore(snapshot, Index(committed)))
                for entry in log:
                    state.note(entry)
        encoded = b"".join(state.snapshot())
        assert len(encoded) == state.table.size_bytes <= max(1, bytes_max)
        assert state.table.record_count <= records_max
    # Whatever was taken can be committed.
    state.commit(Index(len(log)))
    assert len(b"".join(state.snapshot())) == state.table.size_bytes <= max(1, bytes_max)
    assert [fill.used for fill in state.fills()] == [state.table.size_bytes, state.table.record_count]


@pytest.mark.parametrize(("share", "is_taken"), [(90, True), (100, True), (101, False)])
@pytest.mark.parametrize("letter", ["x", "ü", "群", "🐘"])
def test_the_table_is_filled_to_its_bound_and_no_further(share, is_taken, letter):
    key, width = OffsetKey("g", "t", 0), len(letter.encode())
    bound = 1 + 8 + encoded_size(key, CommittedOffset(0, 0, "", 0)) + 1000 * width
    state, log = OffsetsLogState(options=StateOptions(groups_bytes_max=bound)), []
    value = CommittedOffset(0, 0, letter * (10 * share), 0)
    assert (_admitted(state, log, [(key, value)]) is None) == is_taken
    state.commit(Index(len(log)))
    assert state.table.size_bytes == len(b"".join(state.snapshot())) <= bound


def test_what_is_in_the_log_and_not_committed_takes_its_part_of_the_bound():
    state, log = OffsetsLogState(options=StateOptions(groups_bytes_max=1000)), []
    value = CommittedOffset(1, 0, "ü" * 200, 0)
    assert _admitted(state, log, [(OffsetKey("g", "t", 0), value)]) is None
    assert _admitted(state, log, [(OffsetKey("g", "t", 1), value)]) is None
    assert isinstance(_admitted(state, log, [(OffsetKey("g", "t", 2), value)]), StateFullError)
    # The same place again costs nothing, and a truncation gives back what it takes.
    assert _admitted(state, log, [(OffsetKey("g", "t", 1), value)]) is None
    del log[1:]
    state.truncate(Index(2))
    assert _admitted(state, log, [(OffsetKey("g", "t", 2), value)]) is None
    assert [fill.refused for fill in state.fills()] == [1, 0]


def test_a_table_above_its_bound_may_shrink_and_nothing_else():
    large, log = OffsetsLogState(), []
    long, short = CommittedOffset(1, 0, "ü" * 200, 0), CommittedOffset(2, 0, "", 0)
    _admitted(large, log, [(OffsetKey("g", "t", number), long) for number in range(5)])
    large.commit(Index(1))
    state = OffsetsLogState(options=StateOptions(groups_bytes_max=500))
    list(state.restore(b"".join(large.snapshot()), Index(1)))
    assert isinstance(_admitted(state, log, [(OffsetKey("g", "t", 5), short)]), StateFullError)
    assert _admitted(state, log, [(OffsetKey("g", "t", 0), short)]) is None
    assert _admitted(state, log, [(OffsetKey("g", "t", 1), None)]) is None
    # Committed offsets of the same length go on: consumers keep their places.
    assert _admitted(state, log, [(OffsetKey("g", "t", 2), long._replace(offset=9))]) is None
    state.commit(Index(len(log)))
    assert state.table.offsets("g")["t", 2].offset == 9


def test_a_table_has_a_bound_for_many_small_records_too():
    state, log = OffsetsLogState(options=StateOptions(group_records_max=3)), []
    value = CommittedOffset(1, 0, "", 0)
    records = [(OffsetKey("g", "t", number), value) for number in range(4)]
    refusal = _admitted(state, log, records)
    assert "3 records" in str(refusal)
    assert _admitted(state, log, records[:3]) is None
    assert isinstance(_admitted(state, log, records[3:]), StateFullError)


def test_a_full_table_says_so_once_until_it_has_had_room_again(caplog):
    state, log = OffsetsLogState("__consumer_offsets-3", StateOptions(groups_bytes_max=500)), []
    value = CommittedOffset(1, 0, "x" * 200, 0)
    for number in range(20):
        _admitted(state, log, [(OffsetKey("g", "t", number), value._replace(metadata="x" * 100))])
    assert len(caplog.records) == 1
    assert "__consumer_offsets-3 may have 500 bytes" in caplog.text
    for key in [OffsetKey("g", "t", number) for number in range(20)]:
        _admitted(state, log, [(key, None)])
    for number in range(20):
        _admitted(state, log, [(OffsetKey("g", "t", number), value)])
    assert len(caplog.records) == 2


@pytest.mark.parametrize(
    "wrong",
    [{"groups_bytes_max": STATE_BYTES_MAX + 1}, {"raft0_bytes_max": 0}, {"group_records_max": 0}],
)
def test_no_bound_is_above_what_a_snapshot_holds(wrong):
    with pytest.raises(ValueError, match="_max must be"):
        StateOptions(**wrong)


@given(st.binary(max_size=120), st.lists(_records(), max_size=3))
def test_any_state_bytes_are_a_table_of_that_size_or_a_named_error(data, records):
    whole = GroupTable()
    for key, value in records:
        whole.apply(key, value)
    for state in (b"\x01" + data, b"".join(whole.encode()) + data):
        table = GroupTable()
        try:
            list(table.decode(state))
        except CorruptLogError:
            continue
        assert len(b"".join(table.encode())) == table.size_bytes
