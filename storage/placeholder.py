"""Placeholders: one entry that stands for several that log compaction has removed (RFC 0022, section 2)."""

from model.ids import Index, Offset, Term
from storage.entry import PLACEHOLDER, Entry, EntryKind

# Kafka's batches cover at most so many offsets, and so does a placeholder.
OFFSETS_MAX = 2**31 - 1
ENTRIES_MAX = 2**32 - 1


def placeholder(first: Index, last: Index, term: Term, base_offset: Offset, end_offset: Offset) -> Entry:
    """Return the entry that stands for [first, last], all of one term, and their offsets [base_offset, end_offset).

    At least one entry and at most ENTRIES_MAX; at most OFFSETS_MAX offsets, perhaps none.
    """
    entries, offsets = last - first + 1, end_offset - base_offset
    assert 1 <= entries <= ENTRIES_MAX
    assert 0 <= offsets <= OFFSETS_MAX
    return Entry(first, term, EntryKind.PLACEHOLDER, base_offset, offsets, PLACEHOLDER.pack(entries, 0))


def rest_of(entry: Entry, first: Index, base_offset: Offset) -> Entry:
    """Return what a placeholder says of the entries from `first` on, the first of which begins at `base_offset`."""
    assert entry.kind is EntryKind.PLACEHOLDER
    assert entry.index < first <= entry.last_index
    assert entry.base_offset <= base_offset <= entry.end_offset
    return placeholder(first, entry.last_index, entry.term, base_offset, entry.end_offset)
