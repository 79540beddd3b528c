"""Judges the history of partitions as logs: which anomalies there are, and which of them a level allows."""

from collections.abc import Callable, Collection

from raftka.check.levels import Level
from raftka.check.log.columns import LogHistory
from raftka.check.log.deletions import check_deletions
from raftka.check.log.epochs import check_epochs
from raftka.check.log.index import FLUSH_SECONDS, LogIndex
from raftka.check.log.losses import check_losses
from raftka.check.log.measures import measure
from raftka.check.log.overclaims import check_overclaims
from raftka.check.log.realtime import check_latests, check_polls, check_processes, check_sends
from raftka.check.log.resurrections import check_resurrections
from raftka.check.log.sessions import (
    check_across,
    check_after_seeks,
    check_beyond,
    check_high_watermarks,
    check_within,
)
from raftka.check.log.values import check_acks, check_duplicates, check_offsets, check_sources
from raftka.check.log.wholeness import Wholeness
from raftka.check.transactions.circular import check_circular
from raftka.check.transactions.inputs import check_inputs
from raftka.check.transactions.reads import check_reads
from raftka.check.transactions.stable_offsets import check_stable_offsets
from raftka.check.verdict import Report, Verdict

Check = Callable[[LogIndex, Report], None]
CHECKS: tuple[Check, ...] = (
    check_sources,
    check_offsets,
    check_acks,
    check_duplicates,
    check_losses,
    check_deletions,
    check_within,
    check_across,
    check_after_seeks,
    check_high_watermarks,
    check_beyond,
    check_sends,
    check_processes,
    check_polls,
    check_latests,
    check_epochs,
    check_overclaims,
    check_reads,
    check_circular,
    check_inputs,
    check_stable_offsets,
    check_resurrections,
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
    report = judged(index)
    measure(index, report)
    return report.verdict("log", history.operations)


def judged(index: LogIndex, checks: Collection[Check] = CHECKS) -> Report:
    """Return the report on a history, or on a piece of it that has all that these checks look at.

    Raises:
        HistoryError: Offsets are too large.
    """
    report = Report()
    for number, check in enumerate(CHECKS):
        if check in checks:
            report.begin(number)
            check(index, report)
    return report
