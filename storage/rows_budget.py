"""Rows of aborted transactions that index files have, in memory for readers: one bound for all logs of a node."""

from collections import OrderedDict

from storage.aborted_rows import AbortedRows
from storage.segment import Segment


class RowsBudget:
    """Keeps the rows of those closed segments that were looked up last.

    Attributes:
        limit: Bytes, never exceeded between two calls; 0 keeps nothing.
        used: Held now.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        # The segment that was looked up longest ago comes first. A plain dict would walk over what has left its front.
        self._rows: OrderedDict[Segment, AbortedRows] = OrderedDict()

    def get(self, segment: Segment) -> AbortedRows | None:
        """Return the rows of a segment if they are here: the others give way first."""
        rows = self._rows.get(segment)
        if rows is not None:
            self._rows.move_to_end(segment)
        return rows

    def put(self, segment: Segment, rows: AbortedRows) -> None:
        """Keep the rows of a closed segment, which do not change any more. Rows above the limit are not kept."""
        self.forget(segment)
        if rows.size_bytes > self.limit:
            return
        self._rows[segment] = rows
        self.used += rows.size_bytes
        while self.used > self.limit:
            self.forget(next(iter(self._rows)))

    def forget(self, segment: Segment) -> None:
        """The segment has left its log, or is written to again."""
        rows = self._rows.pop(segment, None)
        if rows is not None:
            self.used -= rows.size_bytes
