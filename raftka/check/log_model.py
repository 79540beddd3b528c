"""Judges the history of partitions as logs: which anomalies there are, and which of them a level allows."""

from raftka.check.levels import Level
from raftka.check.log_columns import LogHistory
from raftka.check.log_deletions import check_deletions
from raftka.check.log_epochs import check_epochs
from raftka.check.log_index import FLUSH_SECONDS, LogIndex
from raftka.check.log_losses import check_losses
from raftka.check.log_measures import measure
from raftka.check.log_overclaims import check_overclaims
from raftka.check.log_realtime import check_realtime
from raftka.check.log_sessions import check_sessions
from raftka.check.log_values import check_values
from raftka.check.verdict import Report, Verdict


def check_log(
    history: LogHistory, acks_all: Level = Level.QUORUM_ACK, *, flush_seconds: float = FLUSH_SECONDS
) -> Verdict:
    """Return the verdict on a log history.

    Args:
        history: All of it: what is left out is taken for lost.
        acks_all: The level that acks=all has on the topics it was made on.
        flush_seconds: For how long after its answer a record may lack its fsync, below quorum_ack.

    Raises:
        HistoryError: It cannot be judged.
    """
    index, report = LogIndex(history, acks_all, flush_seconds), Report()
    check_values(index, report)
    check_losses(index, report)
    check_deletions(index, report)
    check_sessions(index, report)
    check_realtime(index, report)
    check_epochs(index, report)
    check_overclaims(index, report)
    measure(index, report)
    return report.verdict("log", history.operations)
