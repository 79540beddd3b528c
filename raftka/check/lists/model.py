"""Judges histories of transactions over lists."""

from collections.abc import Callable

from raftka.check.lists.history import ListHistory
from raftka.check.lists.index import ListIndex
from raftka.check.lists.order import check_order
from raftka.check.lists.reads import check_places, check_sources, check_steps, check_wholeness
from raftka.check.verdict import Report, Verdict

CHECKS: tuple[Callable[[ListIndex, Report], None], ...] = (
    check_sources,
    check_places,
    check_steps,
    check_wholeness,
    check_order,
)


def check_lists(history: ListHistory) -> Verdict:
    """Return the verdict on a history of lists.

    Args:
        history: All of it: what is left out is taken for lost.

    Raises:
        HistoryError: It cannot be judged.
    """
    history.check()
    index, report = ListIndex(history), Report()
    for number, check in enumerate(CHECKS):
        report.begin(number)
        check(index, report)
    rows = range(len(history.transactions))
    committed = sum(map(index.is_committed, rows))
    report.measures = {
        "transactions": len(rows),
        "committed": committed,
        "unsure": sum(history.transactions[row].type == "info" and not index.is_committed(row) for row in rows),
        "appended": sum(len(each.appends) for each in history.transactions),
        "read": sum(len(read.recs) for each in history.transactions for read in each.reads),
    }
    return report.verdict("append", history.operations)
