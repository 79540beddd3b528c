"""Which record of a transactional id may follow which, and what holds of every step (RFC 0021, "Invariants").

state             may follow
Empty             nothing, Empty, Complete*
Ongoing           Ongoing, Empty, Complete*
PrepareCommit     Ongoing
PrepareAbort      Ongoing; without partitions Empty and Complete*, too (KIP-890)
CompleteCommit    PrepareCommit
CompleteAbort     PrepareAbort
deleted           Empty, Complete*
"""

from cluster.transactions.records import NO_PRODUCER_ID, StoredTransaction, TransactionState

EPOCH_MAX = 2**15 - 1
# The last one that a producer gets: the coordinator needs one above it.
GIVEN_EPOCH_MAX = EPOCH_MAX - 1

_IDLE = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
_BEFORE = {
    TransactionState.EMPTY: _IDLE,
    TransactionState.ONGOING: _IDLE | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: _IDLE | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
}


def is_exhausted(epoch: int) -> bool:
    """Whether a producer gets no later epoch of its id."""
    return epoch >= GIVEN_EPOCH_MAX


def assert_step(before: StoredTransaction | None, after: StoredTransaction | None, unmarked: int) -> None:
    """Check that a record may follow another one.

    Args:
        before: What the id has; None: nothing.
        after: What it gets; None: it is deleted.
        unmarked: How many partitions of a decided transaction are not known to have its marker.
    """
    if after is None:
        assert before is not None
        assert before.state in _IDLE, "an id is forgotten while it has a transaction"
        return
    assert 0 <= after.epoch <= EPOCH_MAX
    if before is None:
        assert after.state is TransactionState.EMPTY
        assert after.epoch == 0
        return
    # X1: a decision is never changed, and the marker's type is that of the stored decision.
    assert before.state in _BEFORE[after.state], f"{after.state.shown} does not follow {before.state.shown}"
    _assert_epochs(before, after)
    match after.state:
        case TransactionState.ONGOING:
            assert before.partitions <= after.partitions
        case TransactionState.PREPARE_COMMIT | TransactionState.PREPARE_ABORT:
            assert before.partitions == after.partitions
        case _:
            assert not after.partitions
    # X3: nothing is open anywhere once Complete is written.
    assert not unmarked, f"{after.state.shown} is written while {unmarked} partitions lack their marker"


def _assert_epochs(before: StoredTransaction, after: StoredTransaction) -> None:
    """Epochs never fall, and rise by one; a new producer id begins at 0, and only where nothing is open."""
    if after.producer_id == before.producer_id:
        assert 0 <= after.epoch - before.epoch <= 1
        return
    assert (after.epoch, after.previous_producer_id) == (0, before.producer_id)
    if before.state.is_prepare:
        assert after.producer_id == before.next_producer_id != NO_PRODUCER_ID
    else:
        assert after.state is TransactionState.EMPTY
