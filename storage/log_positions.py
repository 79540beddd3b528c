"""Where a log stands: indexes, terms and offsets in memory. Nothing here awaits or touches a file.

start_index - 1 <= flushed_index <= last_index <= pending_index
"""

from bisect import bisect_right
from collections.abc import Sequence

from model.ids import Index, Offset, Term
from storage.entry import Entry
from storage.errors import LogTruncatedError
from storage.segment_index import TermStart

# How many end offsets below the mark's floor are kept before the list is trimmed.
_MARKS_SLACK = 4096


class LogPositions:
    """The positions of one log. Public attributes are for reading; the log's own steps move them.

    Attributes:
        start_index: First entry that exists.
        start_offset: First record that exists.
        last_index: Last entry written ("dirty"), `start_index - 1` if there is none.
        pending_index: Last entry written or being written.
        pending_term: Its term, 0 if there is none.
        flushed_index: Last entry that an fsync has covered.
        next_offset: The offset after the last record written.
        unflushed_bytes: Size of the entries in (flushed_index, last_index].
        truncations: How many there were: who finds another number than before looks again.
    """

    def __init__(self, terms: list[TermStart], last_index: Index, next_offset: Offset) -> None:
        self._terms = terms
        self.start_index = Index(1)
        self.start_offset = Offset(0)
        self.last_index = last_index
        self.pending_index = last_index
        self.pending_term = self.last_term
        self.flushed_index = last_index
        self.next_offset = next_offset
        self.unflushed_bytes = 0
        self.truncations = 0
        # End offsets of the entries from _marks_base on.
        self._marks_base = last_index
        self._marks: list[Offset] = [next_offset]

    @property
    def last_term(self) -> Term:
        """Term of the last index, 0 if the log is empty."""
        return self._terms[-1].term if self._terms else Term(0)

    def term_at(self, index: Index) -> Term:
        """Return the term of an entry in [start_index - 1, last_index]; 0 at index 0.

        Raises:
            LogTruncatedError: The index is outside.
        """
        if not self.start_index - 1 <= index <= self.last_index:
            raise LogTruncatedError(f"index {index} is not in [{self.start_index - 1}, {self.last_index}]")
        at = bisect_right(self._terms, index, key=lambda start: start.first_index) - 1
        return self._terms[at].term if at >= 0 else Term(0)

    def epoch_end(self, term: Term) -> tuple[Term, Offset]:
        """Return the largest term at or below `term`, and the offset at which the next larger one begins."""
        at = bisect_right(self._terms, term, key=lambda start: start.term) - 1
        if at < 0:
            return Term(0), self.start_offset
        end = self._terms[at + 1].base_offset if at + 1 < len(self._terms) else self.next_offset
        return self._terms[at].term, end

    def term_of_offset(self, offset: Offset) -> Term:
        """Return the term in which the record at `offset` was written; past the end the last term."""
        at = bisect_right(self._terms, offset, key=lambda start: start.base_offset) - 1
        return self._terms[at].term if at >= 0 else Term(0)

    def end_offset(self, index: Index) -> Offset | None:
        """Return the offset after an entry, from memory; None if it is older than what memory holds."""
        if index == self.start_index - 1:
            return self.start_offset
        at = index - self._marks_base
        return self._marks[at] if 0 <= at < len(self._marks) else None

    def forget_marks(self, up_to: Index) -> None:
        """`end_offset` will be asked for nothing below `up_to` any more."""
        excess = min(up_to, self.last_index) - self._marks_base
        if excess > _MARKS_SLACK:
            del self._marks[:excess]
            self._marks_base = Index(self._marks_base + excess)

    # -- steps ----------------------------------------------------------------------------------------------------

    def _note_pending(self, entries: Sequence[Entry]) -> None:
        self.pending_index, self.pending_term = entries[-1].index, entries[-1].term

    def _forget_pending(self) -> None:
        self.pending_index, self.pending_term = self.last_index, self.last_term

    def _note_written(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if not self._terms or entry.term > self._terms[-1].term:
                self._terms.append(TermStart(entry.index, entry.term, entry.base_offset))
            self._marks.append(entry.end_offset)
            self.unflushed_bytes += entry.size
        self.last_index, self.next_offset = entries[-1].index, entries[-1].end_offset
        self.check()

    def _note_flushed(self, index: Index, size: int) -> None:
        self.flushed_index = index
        self.unflushed_bytes -= size
        self.check()

    def _note_truncated(self, last_index: Index, next_offset: Offset, removed_bytes: int) -> None:
        self.truncations += 1
        while self._terms and self._terms[-1].first_index > last_index:
            self._terms.pop()
        self.last_index = self.pending_index = last_index
        self.pending_term = self.last_term
        self.next_offset = next_offset
        if self.flushed_index >= last_index:
            self.flushed_index, self.unflushed_bytes = last_index, 0
        else:
            self.unflushed_bytes -= removed_bytes
        if last_index >= self._marks_base:
            del self._marks[last_index - self._marks_base + 1 :]
        else:
            self._marks_base, self._marks = last_index, [next_offset]
        self.check()

    def check(self) -> None:
        """Assert invariant I1."""
        assert self.start_index - 1 <= self.flushed_index <= self.last_index <= self.pending_index
        assert self._marks_base + len(self._marks) - 1 == self.last_index
        assert self._marks[-1] == self.next_offset
        assert (self.unflushed_bytes == 0) == (self.flushed_index == self.last_index)
