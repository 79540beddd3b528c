"""Reads what consumers may see of one local replica of a partition; each read belongs to the term that it began in."""

from collections.abc import Awaitable, Sequence
from typing import NamedTuple, TypeVar

from cluster.readable_end import ReadableEnd
from cluster.transactions.aborted import CommittedBatches, read_entries, read_ranges
from model.ids import Index, Offset, Term
from raft.consensus import Consensus
from raft.errors import NotLeaderError
from storage.aborted_rows import AbortedRow
from storage.entry import Buffer, EntryKind
from storage.file_range import FileRange

T = TypeVar("T")


class TimestampHit(NamedTuple):
    """The first batch that holds a record at or after a timestamp; that record may lie below the log start."""

    batch: Buffer
    term: Term
    log_index: Index


class PartitionReader:
    """See the module; the caller checks that the replica leads and is in office.

    Args:
        consensus: The replica.
        end: Up to where it may be read.
    """

    def __init__(self, consensus: Consensus, end: ReadableEnd) -> None:
        self._consensus = consensus
        self._log = consensus.log
        self._end = end

    async def fetch(
        self, offset: Offset, max_bytes: int, *, from_files: bool, rows: list[AbortedRow] | None = None
    ) -> Sequence[Buffer | FileRange]:
        """Return whole visible batches from the one that holds `offset` on, at least one if there is any.

        With `from_files` they may be told as ranges of files. With `rows`, which are filled, at read_committed.

        Raises:
            StorageError: The log cannot be read.
            NotLeaderError: This leadership has ended meanwhile; with `rows`, or there is no last stable offset yet.
        """
        # X5 of RFC 0021: what is open now may be aborted; a read that ended behind it would show it.
        term, visible = self._consensus.term, self._end.last_read(read_committed=rows is not None)
        first = await self._in_term(term, self._log.reader.index_of_offset(offset))
        batches: list[Buffer] = []
        # Entries without records (a barrier after each election) do not count as an answer.
        while first <= visible and not batches:
            if from_files and not self._log.reader.holds(first):
                # S2: what is committed stays as it is in its file, whoever leads while it is sent. Visible alone may
                # not.
                last = self._committed(visible)
                ranges = await self._in_term(term, read_ranges(self._log, first, last, max_bytes, offset, rows))
                if ranges:
                    return ranges
            entries = await self._in_term(term, read_entries(self._log, first, max_bytes, visible, rows))
            if not entries:
                break
            # S7: what is not visible may still be replaced. A placeholder may have come meanwhile, which begins before
            # `first`, or ends behind what was visible: it stands for committed entries.
            assert first <= entries[0].last_index
            assert entries[-1].index <= visible
            batches = [entry.payload for entry in entries if entry.kind is EntryKind.DATA]
            first = Index(entries[-1].last_index + 1)
        return batches

    async def fetch_committed(self, offset: Offset, max_bytes: int, *, from_files: bool) -> CommittedBatches:
        """Return batches as `fetch`, up to the last stable offset, and which aborted transactions are in them.

        Raises:
            StorageError: The log cannot be read.
            NotLeaderError: This leadership has ended meanwhile, or there is no last stable offset yet.
        """
        rows: list[AbortedRow] = []
        batches = await self.fetch(offset, max_bytes, from_files=from_files, rows=rows)
        return CommittedBatches(batches, rows if batches else [])

    def _committed(self, visible: Index) -> Index:
        return min(visible, self._consensus.state.commit_index)

    async def _in_term(self, term: Term, read: Awaitable[T]) -> T:
        """Await a read of what was visible in `term`.

        A read may hang while the leader is deposed, its log is cut, and it is elected again: what was visible before
        says nothing of the log that it has then.

        Raises:
            NotLeaderError: The leadership of `term` has ended.
        """
        found = await read
        # Without this check records of a log that was cut since would be answered as visible in the newer term.
        if not self._consensus.is_in_office or self._consensus.term != term:
            raise NotLeaderError(f"the leadership of epoch {term} ended while the log was read")
        return found

    async def find_timestamp(self, timestamp_ms: int, *, first: Index, read_committed: bool) -> TimestampHit | None:
        """Return the first visible batch, in entry `first` or later, with a record at or after `timestamp_ms`.

        With `read_committed` it lies before the last stable offset.

        Raises:
            StorageError, NotLeaderError: As `fetch`.
        """
        term, visible = self._consensus.term, self._end.last_read(read_committed=read_committed)
        while True:
            hit = await self._in_term(term, self._log.reader.offset_of_timestamp(timestamp_ms, visible, first=first))
            if hit is None:
                return None
            _, _, index = hit
            entry = (await self._in_term(term, self._log.read(index, 1, index)))[0]
            # A pass of compaction may have put a placeholder there meanwhile. Then there is another hit, or none.
            if entry.kind is EntryKind.DATA:
                return TimestampHit(entry.payload, entry.term, index)

    async def max_timestamp(self, *, first: Index, read_committed: bool) -> int | None:
        """Return the largest timestamp of any visible batch in entry `first` or later, None if there is none.

        With `read_committed` only batches before the last stable offset count.

        Raises:
            StorageError, NotLeaderError: As `fetch`.
        """
        visible = self._end.last_read(read_committed=read_committed)
        return await self._in_term(self._consensus.term, self._log.reader.max_timestamp(visible, first=first))
