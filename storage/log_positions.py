"""Where a log stands: indexes, terms and offsets in memory. Nothing here awaits or touches a file.

start_index - 1 <= flushed_index <= dirty_index <= pending_index
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from model.ids import Index, Offset, Term
from storage.entry import Entry
from storage.errors import CorruptLogError, LogTruncatedError
from storage.log_start import LogStart
from storage.segment_index import TermStart

# How many end offsets below the mark's floor are kept before the list is trimmed.
_MARKS_SLACK = 4096


class LogPositions:
    """The positions of one log. Public attributes are for reading; the log's own steps move them.

    Attributes:
        start: Where the log starts; what lies before it cannot be read, whether it still exists or not.
        start_index: Its entry.
        start_offset: Its first offset that can be read.
        dirty_index: Last entry written, `start_index - 1` if there is none.
        pending_index: Last entry written or being written.
        pending_term: Its term; the term before the start if there is none.
        flushed_index: Last entry that an fsync has covered.
        next_offset: The offset after the last record written.
        unflushed_bytes: Size of the entries in (flushed_index, dirty_index].
        truncations: How many there were, of entries or by a swap of segments: who finds another number than before
            looks again.
    """

    def __init__(self, start: LogStart, terms: list[TermStart], dirty_index: Index, next_offset: Offset) -> None:
        # Ascending; the first one holds the first entry of the first segment, or there is none.
        self._terms = terms
        self.start = start
        self.start_index = start.index
        self.start_offset = start.offset
        self.dirty_index = dirty_index
        self.pending_index = dirty_index
        self.pending_term = self.last_term
        self.flushed_index = dirty_index
        self.next_offset = next_offset
        self.unflushed_bytes = 0
        self.truncations = 0
        # Last indexes and end offsets of the newest entries; with placeholders, indexes are left out.
        self._marked: list[Index] = [dirty_index]
        self._marks: list[Offset] = [next_offset]

    @property
    def last_term(self) -> Term:
        """Term of the last index; of a log that is empty at its start, the term before the start."""
        return self._terms[-1].term if self._terms else self.start.prev_term

    def term_at(self, index: Index) -> Term:
        """Return the term of an entry in [start_index - 1, dirty_index]; `start.prev_term` before the start.

        Raises:
            LogTruncatedError: The index is outside.
        """
        if not self.start_index - 1 <= index <= self.dirty_index:
            raise LogTruncatedError(f"index {index} is not in [{self.start_index - 1}, {self.dirty_index}]")
        if index < self.start_index:
            return self.start.prev_term
        at = bisect_right(self._terms, index, key=lambda start: start.first_index) - 1
        return self._terms[at].term

    def holds_entry_before(self, start: LogStart) -> bool:
        """Return whether this log has the entry before `start`, which is not below its own start, in the same term.

        If it has, both logs are equal up to there, and the entries behind it may stay (Raft paper section 7).
        """
        return start.prev_index <= self.dirty_index and self.term_at(start.prev_index) == start.prev_term

    def terms_within(self, first: Index, last: Index) -> list[TermStart]:
        """Return where terms begin in (first, last], also below the start as far as segments reach."""
        return [start for start in self._terms if first < start.first_index <= last]

    def epoch_end(self, term: Term) -> tuple[Term, Offset]:
        """Return the largest term at or below `term`, and the offset at which the next larger one begins.

        (0, start_offset) where that term has no entry at or behind the start.
        """
        at = bisect_right(self._terms, term, key=lambda start: start.term) - 1
        following = self._terms[at + 1] if at + 1 < len(self._terms) else None
        last = self.dirty_index if following is None else following.first_index - 1
        if at < 0 or last < self.start_index:
            return Term(0), self.start_offset
        end = self.next_offset if following is None else following.base_offset
        return self._terms[at].term, max(end, self.start_offset)

    def term_of_offset(self, offset: Offset) -> Term:
        """Return the term in which the record at `offset` was written; past the end the last term."""
        at = bisect_right(self._terms, offset, key=lambda start: start.base_offset) - 1
        return self._terms[at].term if at >= 0 else self.start.prev_term

    def end_offset(self, index: Index) -> Offset | None:
        """Return the offset after an entry, from memory; None if it is older than what memory holds.

        Also None for what lies inside a placeholder, except before the start.
        """
        if index == self.start_index - 1:
            return self.start.base_offset
        at = bisect_left(self._marked, index)
        return self._marks[at] if at < len(self._marked) and self._marked[at] == index else None

    def forget_marks(self, up_to: Index) -> None:
        """`end_offset` will be asked for nothing below `up_to` any more."""
        if up_to - self._marked[0] <= _MARKS_SLACK:
            return
        excess = bisect_left(self._marked, min(up_to, self.dirty_index))
        del self._marks[:excess], self._marked[:excess]

    # -- steps ----------------------------------------------------------------------------------------------------

    def on_pending(self, entries: Sequence[Entry]) -> None:
        """Entries are being written."""
        self.pending_index, self.pending_term = entries[-1].last_index, entries[-1].term

    def forget_pending(self) -> None:
        """They were not, and nothing of them stays."""
        self.pending_index, self.pending_term = self.dirty_index, self.last_term

    def on_written(self, entries: Sequence[Entry]) -> None:
        """Entries were written at the end."""
        for entry in entries:
            if not self._terms or entry.term > self._terms[-1].term:
                self._terms.append(TermStart(entry.index, entry.term, entry.base_offset))
            self._marked.append(entry.last_index)
            self._marks.append(entry.end_offset)
            self.unflushed_bytes += entry.size
        self.dirty_index, self.next_offset = entries[-1].last_index, entries[-1].end_offset
        self.check()

    def on_flushed(self, index: Index, size: int) -> None:
        """An fsync covered the entries up to `index`, `size` bytes that had not been covered before."""
        self.flushed_index = index
        self.unflushed_bytes -= size
        self.check()

    def on_truncated(self, dirty_index: Index, next_offset: Offset, removed_bytes: int) -> None:
        """The entries behind `dirty_index` are gone."""
        self.truncations += 1
        while self._terms and self._terms[-1].first_index > dirty_index:
            self._terms.pop()
        self.dirty_index = self.pending_index = dirty_index
        self.pending_term = self.last_term
        self.next_offset = next_offset
        if self.flushed_index >= dirty_index:
            self.flushed_index, self.unflushed_bytes = dirty_index, 0
        else:
            self.unflushed_bytes -= removed_bytes
        kept = bisect_right(self._marked, dirty_index)
        if kept:
            del self._marks[kept:], self._marked[kept:]
        else:
            self._marked, self._marks = [dirty_index], [next_offset]
        self.check()

    def on_replaced(self) -> None:
        """Other segments stand for some entries: what was read or looked up before says nothing of these."""
        self.truncations += 1

    def advance_start(self, start: LogStart) -> None:
        """Move the start; nothing below it can be read from here on. A start that is not further on changes nothing.

        Only memory moves: a restart finds the start of the newest snapshot.

        Raises:
            CorruptLogError: It does not fit the entries of this log, or lies beyond what is durable of them.
        """
        if (start.index, start.offset) <= (self.start_index, self.start_offset):
            return
        if not self.start_index <= start.index <= self.flushed_index + 1:
            raise CorruptLogError(f"a start at {start.index} is not in [{self.start_index}, {self.flushed_index + 1}]")
        # An entry that is not here may reach as far as it likes: a leader's state may come before it (RFC 0022, C5).
        is_here = start.index <= self.dirty_index
        if start.offset < self.start_offset or (is_here and start.offset > self.next_offset):
            raise CorruptLogError(f"a start at {start.offset} is not in [{self.start_offset}, {self.next_offset}]")
        known = (self.term_at(start.prev_index), self.end_offset(start.prev_index))
        if start.flaw() or known[0] != start.prev_term or known[1] not in (None, start.base_offset):
            raise CorruptLogError(f"{start} does not fit a log with term and offset {known} before it")
        self._set_start(start)
        self.check()

    def _set_start(self, start: LogStart) -> None:
        self.start, self.start_index, self.start_offset = start, start.index, start.offset

    def forget_terms(self, base_index: Index) -> None:
        """The segments before the one that begins at `base_index` are gone."""
        ended = bisect_right(self._terms, base_index, key=lambda start: start.first_index) - 1
        if ended > 0:
            del self._terms[:ended]

    def on_installed(self, start: LogStart) -> None:
        """All entries are gone; the log is empty at `start`."""
        self.truncations += 1
        self._set_start(start)
        self._terms.clear()
        self.dirty_index = self.pending_index = self.flushed_index = start.prev_index
        self.pending_term = start.prev_term
        self.next_offset = start.base_offset
        self.unflushed_bytes = 0
        self._marked, self._marks = [start.prev_index], [start.base_offset]
        self.check()

    def check(self) -> None:
        """Assert I1 and I6 of RFC 0002."""
        assert self.start_index == self.start.index >= 1
        assert self.start.base_offset <= self.start_offset == self.start.offset
        assert self.start.base_offset <= self.next_offset
        assert self.start_index - 1 <= self.flushed_index <= self.dirty_index <= self.pending_index
        assert self._marked[-1] == self.dirty_index
        assert self._marks[-1] == self.next_offset
        assert (self.unflushed_bytes == 0) == (self.flushed_index == self.dirty_index)
