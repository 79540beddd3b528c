"""Where a log is to begin by its retention."""

from cluster.retention_rule import RetentionPolicy, expired_segments
from model.ids import Index
from storage.log import Log
from storage.log_start import LogStart


def retention_start(log: Log, commit: Index, now_ms: int, policy: RetentionPolicy) -> LogStart | None:
    """Return the start behind the last segment that is not kept; None where that is no later one."""
    segments = log.segments_for_retention()
    count = expired_segments(segments, commit, now_ms, policy)
    if count == 0:
        return None
    index = Index(segments[count - 1].last_index + 1)
    if index <= log.start_index:
        return None
    base_offset = segments[count].base_offset if count < len(segments) else log.next_offset
    return LogStart(index, base_offset, base_offset, log.term_at(Index(index - 1)))
