"""What readers at read_committed get of a partition: batches, and which aborted transactions they leave out (KIP-98).

A row is (producer id, first offset, marker offset). Rows are in the order of their markers, as in Kafka. Batches and
rows come from one view of the log (RFC 0021, section 6): a marker that retention removes while the log is read does not
take its row away from batches that were read before.

Reads without `rows` are at read_uncommitted and look at no rows. Reads with them pay two comparisons in a log in which
nothing was aborted.
"""

from collections.abc import Sequence
from typing import NamedTuple

from model.ids import Index, Offset
from storage.aborted_rows import AbortedRow
from storage.entry import Buffer, Entry
from storage.file_range import FileRange
from storage.log import Log


class CommittedBatches(NamedTuple):
    """Whole batches below the last stable offset, and the rows of aborted transactions that have records in them."""

    batches: Sequence[Buffer | FileRange]
    aborted: Sequence[AbortedRow]


async def read_entries(
    log: Log, first: Index, max_bytes: int, last: Index, rows: list[AbortedRow] | None
) -> list[Entry]:
    """Return entries as `Log.read`; put the rows of aborted transactions that have records in them into `rows`.

    Raises:
        StorageError: As `LogReader.read_with_aborted`.
    """
    if rows is None:
        return await log.read(first, max_bytes, last)
    entries, rows[:] = await log.reader.read_with_aborted(first, max_bytes, last)
    return entries


async def read_ranges(
    log: Log, first: Index, last: Index, max_bytes: int, offset: Offset, rows: list[AbortedRow] | None
) -> list[FileRange]:
    """Return payloads as `LogReader.verified_ranges`; `rows` as for `read_entries`, `offset` is what was asked for.

    Raises:
        StorageError: As `LogReader.ranges_with_aborted`.
    """
    if rows is None:
        return log.reader.verified_ranges(first, last, max_bytes)
    ranges, rows[:] = await log.reader.ranges_with_aborted(first, last, max_bytes, offset)
    return ranges
