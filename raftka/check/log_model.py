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
from raftka.check.log_wholeness import Wholeness
from raftka.check.verdict import Report, Verdict

_CHECKS = (
    check_values,
    check_losses,
    check_deletions,
    check_sessions,
    check_realtime,
    check_epochs,
    check_overclaims,
)


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
    index = LogIndex(history, acks_all, flush_seconds)
    Wholeness.of(history, index.ends).check(history.partitions)
    return judged(index).verdict("log", history.operations)


def judged(index: LogIndex) -> Report:
    """Return the report on a history, or on a piece of it that has all of some partitions.

    Raises:
        HistoryError: Offsets are too large.
    """
    report = Report()
    for number, check in enumerate(_CHECKS):
        report.begin(number)
        check(index, report)
    measure(index, report)
    return report
