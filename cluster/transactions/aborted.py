"""Which aborted transactions lie in a range of a partition's offsets: what read_committed readers leave out (KIP-98).

A row is (producer id, first offset, marker offset). A read of [first, end) needs the rows with first offset < end and
marker offset >= first (RFC 0021, section 6).
"""

from typing import NamedTuple

from model.ids import Offset
from storage.log import Log


class AbortedTransaction(NamedTuple):
    """One producer's: its records from `first_offset` up to its next ABORT marker, at `marker_offset`, are left out."""

    producer_id: int
    first_offset: Offset
    marker_offset: Offset


async def aborted_in(log: Log, first: Offset, end: Offset) -> list[AbortedTransaction]:
    """Return the rows of a log that overlap [first, end).

    The one place where the rows that storage keeps are asked for. Segments keep none yet (index format 3), and no
    transaction can begin before they do: `transaction.version` is registered with them. Batches and rows must come from
    one view of the segments; `Partition._fetch` has that view.
    """
    return []
