"""The group table behind a log: the same as a replay of what is committed, whatever happens on the way."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.groups.group_table import GroupTable
from cluster.groups.offsets_log_state import OffsetsLogState
from cluster.groups.records import CommittedOffset, GroupKey, OffsetKey, StoredGroup, encode_record
from model.ids import Index, Offset, Term
from model.key_value_batch import KeyValue, encode_key_values
from storage.entry import Entry, EntryKind
from storage.errors import CorruptLogError

_KEYS = [*(OffsetKey(group, "t", number) for group in "gh" for number in range(2)), GroupKey("g"), GroupKey("h")]


def _entry(index, *records):
    batch = encode_key_values([encode_record(key, value) for key, value in records], 0)
    return Entry(Index(index), Term(1), EntryKind.DATA, Offset(0), len(records), bytes(batch))


def _value(key, number):
    if number < 0:
        return None
    return (
        CommittedOffset(number, 0, "", 0) if isinstance(key, OffsetKey) else StoredGroup("c", number, None, None, 0, ())
    )


def _contents(table):
    groups = {each: (table.group(each), dict(table.offsets(each))) for each in table.group_ids()}
    return groups, table.size_bytes


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(_KEYS), st.integers(-1, 3)),
        st.tuples(st.just("commit"), st.integers(0, 100)),
        st.tuples(st.just("truncate"), st.integers(0, 100)),
        st.tuples(st.just("restart")),
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(_STEPS)
def test_the_table_is_what_a_replay_of_the_committed_entries_gives(steps):
    state, log, committed, snapshot = OffsetsLogState(), [], 0, (b"", 0)
    for step in steps:
        match step:
            case ("write", key, number):
                log.append(_entry(len(log) + 1, (key, _value(key, number))))
                state.note(log[-1])
            case ("commit", upto):
                committed = max(committed, min(upto, len(log)))
                state.commit(Index(committed))
                if upto % 3 == 0:
                    snapshot = (b"".join(state.snapshot()), committed)
            case ("truncate", upto):
                del log[max(committed, upto) :]
                state.truncate(Index(len(log) + 1))
            case _:
                state = OffsetsLogState()
                for _ in state.restore(snapshot[0], Index(snapshot[1])):
                    pass
                for entry in log:
                    state.note(entry)
                state.commit(Index(committed))
        replayed = OffsetsLogState()
        for entry in log[:committed]:
            replayed.note(entry)
        replayed.commit(Index(committed))
        assert _contents(state.table) == _contents(replayed.table)
        assert b"".join(state.snapshot()) == b"".join(replayed.snapshot())


def test_what_is_not_committed_is_not_seen_and_not_in_a_snapshot():
    state = OffsetsLogState()
    state.note(_entry(1, (_KEYS[0], _value(_KEYS[0], 5))))
    assert state.table.group_ids() == []
    assert b"".join(state.snapshot()) == b"\x01"
    state.commit(Index(1))
    assert state.table.offsets("g") == {("t", 0): CommittedOffset(5, 0, "", 0)}


def test_what_nobody_here_has_written_is_skipped():
    state = OffsetsLogState()
    records = [KeyValue(b"\x00\x03new", b"x"), KeyValue(b"", None), encode_record(_KEYS[0], _value(_KEYS[0], 5))]
    state.note(Entry(Index(1), Term(1), EntryKind.DATA, Offset(0), 3, bytes(encode_key_values(records, 0))))
    compressed = encode_key_values(records, 0)
    compressed[22] |= 1
    state.note(Entry(Index(2), Term(1), EntryKind.DATA, Offset(3), 3, bytes(compressed)))
    state.note(Entry(Index(3), Term(1), EntryKind.BARRIER, Offset(3), 0, b""))
    state.commit(Index(3))
    assert state.table.offsets("g") == {("t", 0): CommittedOffset(5, 0, "", 0)}


@pytest.mark.parametrize(
    "state", [b"\x02", b"\x01\x00\x00", b"\x01\x00\x00\x00\x05ab", b"\x01" + b"\x00\x00\x00\x01a" * 2]
)
def test_a_state_that_cannot_be_read_is_refused_by_name(state):
    with pytest.raises(CorruptLogError):
        list(GroupTable().decode(state))


def test_large_tables_are_written_and_read_in_steps():
    state = OffsetsLogState()
    for index in range(1, 1001):
        state.note(_entry(index, (OffsetKey(f"g{index}", "t", 0), CommittedOffset(index, 0, "", 0))))
    state.commit(Index(1000))
    parts = list(state.snapshot())
    assert len(parts) >= 10
    again = OffsetsLogState()
    assert len(list(again.restore(b"".join(parts), Index(1000)))) >= 9
    assert _contents(again.table) == _contents(state.table)
    again.reset()
    assert again.table.group_ids() == []


def test_whoever_waits_is_told_when_it_is_applied():
    async def test():
        state = OffsetsLogState()
        state.note(_entry(1, (_KEYS[0], _value(_KEYS[0], 5))))
        async with asyncio.timeout(5):
            waiting = asyncio.ensure_future(state.wait_applied(Index(1)))
            await asyncio.sleep(0)
            assert not waiting.done()
            state.commit(Index(1))
            await waiting
            await state.wait_applied(Index(1))

    asyncio.run(test())
