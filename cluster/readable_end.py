"""Up to where readers see a partition: its high watermark, and its last stable offset (RFC 0021, section 3)."""

from cluster.transactions.log_state import TransactionalLogState
from model.ids import Index, Offset
from raft.consensus import Consensus
from raft.errors import NotLeaderError
from raft.replica_state import ReplicaState


class ReadableEnd:
    """See the module; both ends are defined for a leader in office.

    Args:
        consensus: The replica.
        transactional: What is open in its log; None: clients have no transactions there.
    """

    def __init__(self, consensus: Consensus, transactional: TransactionalLogState | None) -> None:
        self._consensus = consensus
        self._transactional = transactional

    @property
    def high_watermark(self) -> Offset:
        """The offset after the last visible record; defined in office, where it never goes backwards."""
        offset = self._consensus.log.end_offset(self._consensus.state.visible_index)
        assert offset is not None, "marks are kept from visible on"
        return offset

    @property
    def last_stable_offset(self) -> Offset:
        """The first offset that readers at read_committed must not see yet.

        Raises:
            NotLeaderError: It is not known what is open: ask again.
        """
        offset = self.stable_end(self.high_watermark)
        if offset is None:
            raise self._unknown()
        return offset

    def stable_end(self, high_watermark: Offset) -> Offset | None:
        """As `last_stable_offset`, where the caller has the high watermark of this moment; None: it is not known."""
        if self._transactional is None:
            return high_watermark
        state = self._consensus.state
        if not _is_known(self._transactional, state):
            return None
        first = self._transactional.transactions.first_open_at(state.visible_index)
        return high_watermark if first is None else max(first.first_offset, self._consensus.log.start_offset)

    def last_read(self, *, read_committed: bool) -> Index:
        """Return the last entry that readers see.

        Raises:
            NotLeaderError: As `last_stable_offset`.
        """
        state = self._consensus.state
        if not read_committed or self._transactional is None:
            return state.visible_index
        if not _is_known(self._transactional, state):
            raise self._unknown()
        first = self._transactional.transactions.first_open_at(state.visible_index)
        return state.visible_index if first is None else Index(first.first_index - 1)

    def _unknown(self) -> NotLeaderError:
        return NotLeaderError(f"{self._consensus.name}: the log has not reached what the state was saved as of")


def _is_known(transactional: TransactionalLogState, state: ReplicaState) -> bool:
    """Return whether the log has reached what the restored state is as of.

    Before that, what was open at a lower index is not known: a state as of entry 1000 over a log that ends at 500 has
    forgotten the transaction that began at 90 and was aborted at 900.
    """
    restored = transactional.restored_index
    return state.commit_index >= restored and state.visible_index >= restored
