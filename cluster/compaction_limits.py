"""How far a replica's log may be cleaned now (RFC 0022, section 3)."""

from cluster.compaction_rule import CompactionPolicy
from cluster.transactions.log_state import TransactionalLogState
from model.ids import NO_INDEX, Index, Offset
from raft.consensus import Consensus
from storage.log_compaction import CleaningLimits


async def cleaning_limits(
    consensus: Consensus,
    transactional: TransactionalLogState | None,
    policy: CompactionPolicy,
    now_ms: int,
    map_bytes: int,
) -> CleaningLimits | None:
    """Return what a pass may do, if anything.

    None: it is not known which transactions are open in the log, or the commit index is within a placeholder.

    Raises:
        StorageError: The newest committed record cannot be looked up.
    """
    state, log = consensus.state, consensus.log
    commit = state.commit_index
    if min(commit, state.visible_index) < max(
        consensus.applied_index, NO_INDEX if transactional is None else transactional.restored_index
    ):
        return None
    end = min(commit, log.snapshot_index)
    if transactional is not None:
        first = transactional.transactions.first_open_at(commit)
        if first is not None:
            end = min(end, Index(first.first_index - 1))
    committed_offset = log.end_offset(commit)
    if committed_offset is None:
        # The commit index is within a placeholder, which the leader has sent: a follower hears of commits step by step.
        return None
    kept_index = NO_INDEX
    if committed_offset > log.start_offset:
        kept_index = await log.reader.index_of_offset(Offset(committed_offset - 1))
    return CleaningLimits(
        end=end,
        kept_index=kept_index,
        committed_offset=committed_offset,
        deletes_to=consensus.deletes_to,
        delete_retention_ms=policy.delete_retention_ms,
        min_lag_ms=policy.min_lag_ms,
        now_ms=now_ms,
        joins=not policy.is_deleted,
        segment_bytes=policy.segment_bytes,
        map_bytes=map_bytes,
    )
