"""The audit of transactions over lists: they depend on each other over all keys, so one task judges all of them."""

from collections.abc import Sequence

from raftka.check.errors import HistoryError
from raftka.check.lists.history import read_list_history
from raftka.check.lists.model import check_lists
from raftka.check.verdict import Verdict
from raftka.pipeline.audit.cluster import Cluster
from raftka.pipeline.audit.parts import HistoryFile


def audit_lists(files: Sequence[HistoryFile], cluster: Cluster) -> Verdict:
    """Return the verdict of `check_lists` on the history of these files.

    Args:
        files: One history; all workers see them.
        cluster: What does the work.

    Raises:
        HistoryError: It cannot be judged.
        OSError: A file cannot be read.
    """
    [found] = cluster.map(_judge, [list(files)])
    if isinstance(found, Exception):
        raise found
    return found


def _judge(files: Sequence[HistoryFile]) -> Verdict | HistoryError | OSError:
    """Return the verdict, or why there is none: what a task raises, Spark would repeat."""
    try:
        return check_lists(read_list_history([each.path for each in files], names=[each.name for each in files]))
    except (HistoryError, OSError) as error:
        return error
