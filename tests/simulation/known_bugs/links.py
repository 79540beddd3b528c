"""Bugs in what protects the bytes between two brokers (RFC 0001 section 3)."""

from collections.abc import Iterator

import pytest

import raft.service
from storage.entry import HEADER, HEADER_BYTES, Entry, EntryKind, ParsedEntry


def followers_take_entries_as_they_come(patch: pytest.MonkeyPatch) -> None:
    """A follower appends the entries of a leader without a look at their checksums."""

    def parse_entries(buffer: memoryview) -> Iterator[ParsedEntry]:
        position = 0
        while position + HEADER_BYTES <= len(buffer):
            _, length, index, term, kind, _, _, count, base_offset, flushed, _ = HEADER.unpack_from(buffer, position)
            payload = buffer[position + HEADER_BYTES : position + HEADER_BYTES + length]
            known = EntryKind(kind) if kind in set(EntryKind) else EntryKind.DATA
            yield ParsedEntry(Entry(index, term, known, base_offset, count, payload), flushed)
            position += HEADER_BYTES + length

    patch.setattr(raft.service, "parse_entries", parse_entries)
