"""How far a pass may go: what is committed and saved, below the first open transaction, and nothing while that is unknown."""

import asyncio
from types import SimpleNamespace

import pytest
from producer_batches import marker, new_batch, transactional
from test_producer_transactions import PRODUCER, Log

from cluster.compaction_limits import cleaning_limits
from cluster.compaction_rule import NO_MAX_LAG, CompactionPolicy
from cluster.producer_state import ProducerState
from model.ids import NO_INDEX, Index, Offset
from storage.log_compaction import CleaningLimits

POLICY = CompactionPolicy(0.5, 1000, 50, NO_MAX_LAG, is_deleted=False, segment_bytes=1 << 20)
OTHER = PRODUCER + 1


def limits_of(
    state: ProducerState | None,
    *,
    commit: int,
    snapshot: int = 100,
    visible: int | None = None,
    applied: int = 0,
    start: int = 0,
    policy: CompactionPolicy = POLICY,
) -> CleaningLimits | None:
    """Ask of a log of which every entry is one record: entry n has offset n - 1."""

    async def index_of_offset(offset: Offset) -> Index:
        return Index(offset + 1)

    log = SimpleNamespace(
        snapshot_index=Index(snapshot),
        start_offset=Offset(start),
        end_offset=lambda index: Offset(index),
        reader=SimpleNamespace(index_of_offset=index_of_offset),
    )
    positions = SimpleNamespace(commit_index=Index(commit), visible_index=Index(commit if visible is None else visible))
    consensus = SimpleNamespace(state=positions, log=log, applied_index=Index(applied), deletes_to=Index(2))
    return asyncio.run(cleaning_limits(consensus, state, policy, 7, 4096))


def end_of(state: ProducerState | None, **positions: int) -> int:
    limits = limits_of(state, **positions)
    assert limits is not None
    return int(limits.end)


@pytest.mark.parametrize(("commit", "snapshot", "end"), [(9, 20, 9), (20, 9, 9), (9, 9, 9), (0, 9, 0)])
def test_the_end_is_what_is_committed_and_in_the_durable_state(commit: int, snapshot: int, end: int) -> None:
    assert end_of(None, commit=commit, snapshot=snapshot) == end
    assert end_of(Log().state, commit=commit, snapshot=snapshot) == end


def test_a_pass_has_the_policy_of_its_topic_and_the_bound_of_its_group() -> None:
    both = POLICY._replace(is_deleted=True)
    limits, of_both = limits_of(None, commit=9), limits_of(None, commit=9, policy=both)
    assert limits == CleaningLimits(
        end=Index(9),
        kept_index=Index(9),
        committed_offset=Offset(9),
        deletes_to=Index(2),
        delete_retention_ms=POLICY.delete_retention_ms,
        min_lag_ms=POLICY.min_lag_ms,
        now_ms=7,
        joins=True,
        segment_bytes=POLICY.segment_bytes,
        map_bytes=4096,
    )
    # Retention judges whole segments.
    assert of_both is not None
    assert not of_both.joins


def test_no_record_is_kept_for_readers_where_the_log_starts_behind_all_that_is_committed() -> None:
    limits = limits_of(None, commit=9, start=9)
    assert limits is not None
    assert limits.kept_index == NO_INDEX


# -- open transactions -----------------------------------------------------------------------------------------------


def two_open() -> Log:
    """Entries 1 and 2 are plain; 3 and 5 begin transactions of two producers; 4, 6 and 7 are more of the first."""
    log = Log()
    log.append(new_batch(OTHER + 1, 0), new_batch(OTHER + 1, 1))
    log.open()
    log.append(transactional(PRODUCER, 1))
    log.open(OTHER)
    log.append(transactional(PRODUCER, 2), transactional(PRODUCER, 3))
    return log


@pytest.mark.parametrize("commit", [3, 4, 5, 7])
def test_a_pass_ends_before_the_earliest_transaction_that_is_open(commit: int) -> None:
    log = two_open()
    log.commit(commit)
    assert end_of(log.state, commit=commit) == 2


def test_a_transaction_that_begins_behind_the_commit_index_bounds_nothing() -> None:
    log = two_open()
    log.commit(2)
    assert end_of(log.state, commit=2) == 2
    # A state that is behind the commit index bounds it by itself.
    assert end_of(log.state, commit=7, snapshot=1) == 1


@pytest.mark.parametrize("is_commit", [False, True])
def test_a_pass_goes_on_once_the_marker_is_committed_and_not_before(is_commit: bool) -> None:
    log = two_open()
    log.append(marker(PRODUCER, 2, is_commit=is_commit))
    log.commit(7)
    # Entry 8 may be truncated, and then its transaction is open again.
    assert log.state.transactions.open_of(PRODUCER) is None
    assert end_of(log.state, commit=7) == 2
    log.truncate(8)
    assert end_of(log.state, commit=7) == 2
    log.append(marker(PRODUCER, 2, is_commit=is_commit))
    log.commit(8)
    # The second transaction is open from entry 5 on.
    assert end_of(log.state, commit=8) == 4
    log.append(marker(OTHER, 4, is_commit=is_commit))
    log.commit(9)
    assert end_of(log.state, commit=9) == 9


def test_a_transaction_whose_marker_is_committed_and_not_visible_bounds_nothing() -> None:
    log = two_open()
    log.state.visible = lambda: Index(7)
    log.append(marker(PRODUCER, 2), marker(OTHER, 4))
    log.commit(9)
    assert log.state.transactions.has_ended
    assert end_of(log.state, commit=9, visible=7) == 9


# -- a state ahead of its log ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("commit", "visible", "is_known"), [(4, 4, False), (5, 4, False), (4, 5, False), (5, 5, True), (6, 5, True)]
)
@pytest.mark.parametrize("is_restored", [False, True])
def test_no_pass_is_made_before_commit_and_visible_have_reached_the_state(
    commit: int, visible: int, is_known: bool, is_restored: bool
) -> None:
    """Of an internal topic's log, which has no transactions, and of one whose state was restored as of entry 5."""
    state = None
    if is_restored:
        state = ProducerState(lambda: 0)
        list(state.restore(Log().saved(), Index(5)))
    limits = limits_of(state, commit=commit, visible=visible, applied=0 if is_restored else 5)
    assert (limits is not None) is is_known


def test_no_pass_is_made_while_the_state_has_forgotten_what_is_open_in_the_log() -> None:
    """The log has lost its end, with the ABORT of a transaction that begins in what is left (amendment 1)."""
    log = Log()
    first = log.open()
    log.append(transactional(PRODUCER, 1), marker(PRODUCER, first, is_commit=False))
    log.commit()
    state = ProducerState(lambda: 0, log.options)
    list(state.restore(log.saved(), Index(3)))
    for entry in log.entries[:2]:
        state.note(entry)
        state.commit(entry.index)
        # By itself it would let the pass take records of the transaction for newest ones.
        assert state.transactions.first_open_at(entry.index) is None
        assert limits_of(state, commit=entry.index, snapshot=3) is None
    state.note(log.entries[2])
    state.commit(Index(3))
    assert end_of(state, commit=3, snapshot=3) == 3
