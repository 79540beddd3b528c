"""Bugs where a log is opened after a crash, and where its checksums are looked at (RFC 0002 section 7)."""

import crc32c
import pytest

import raft.replica_opening
import storage.entry
import storage.log_reader
import storage.segment
import storage.segment_loader
import storage.snapshot_file
from storage.log_recovery import LogRecovery


def tail_is_trusted_after_a_kill(patch: pytest.MonkeyPatch) -> None:
    """What a killed process left in the page cache is taken for durable."""
    patch.setattr(LogRecovery, "_rewrite_tail", lambda recovery, kept, mark: None)


def torn_tail_is_accepted(patch: pytest.MonkeyPatch) -> None:
    """Recovery takes an entry whose header is whole, without looking at the checksum of its payload."""
    scan = storage.segment.scan

    def scan_headers(view, *arguments):
        # Unchecked for one entry at a time: between two of them others may run.
        entries = scan(view, *arguments)
        while True:
            with pytest.MonkeyPatch.context() as inner:
                inner.setattr(storage.entry, "_check_payload", lambda *entry: None)
                found = next(entries, None)
            if found is None:
                return
            yield found

    patch.setattr(storage.segment_loader, "scan", scan_headers)


def checksums_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    """No reader compares a payload with its checksum: not recovery, not a fetch, not the leader that sends it on."""
    patch.setattr(storage.entry, "_check_payload", lambda index, kind, payload, crc: None)


def fetch_does_not_check_what_it_reads(patch: pytest.MonkeyPatch) -> None:
    """A read from disk takes a payload without looking at its checksum."""
    read_run = storage.segment.read_run

    def read(*arguments):
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(storage.entry, "_check_payload", lambda *entry: None)
            return read_run(*arguments)

    patch.setattr(storage.log_reader, "read_run", read)


def damage_below_the_mark_is_cut_like_a_torn_tail(patch: pytest.MonkeyPatch) -> None:
    """Durable entries that are damaged are cut in silence, with everything behind them."""
    patch.setattr(LogRecovery, "_flaw", staticmethod(lambda loader, named, start, damage: None))


def damage_leaves_no_floor_for_votes(patch: pytest.MonkeyPatch) -> None:
    """A replica that has lost entries to damage does not note how far its log had reached, and votes without them."""

    async def raise_floor(kvstore, group, lost_end):
        return lost_end

    patch.setattr(raft.replica_opening, "raise_floor", raise_floor)


def last_entry_is_dropped_at_the_open(patch: pytest.MonkeyPatch) -> None:
    """Recovery loses the last entry of the log: it takes the end of the file for the middle of an entry."""
    scan = storage.segment.scan

    def scan_but_the_last(view, *arguments):
        before = None
        for found in scan(view, *arguments):
            if before is not None:
                yield before
            before = found
        if before is not None and before[1].entry.kind is not storage.entry.EntryKind.DATA:
            yield before

    patch.setattr(storage.segment_loader, "scan", scan_but_the_last)


def snapshot_checksums_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    """A start takes the table in a snapshot without comparing the file with its checksum."""
    decode = storage.snapshot_file.decode_snapshot

    def decode_any(content: bytes, path: str):
        return decode(crc32c.crc32c(content[4:]).to_bytes(4, "big") + content[4:], path)

    patch.setattr(storage.snapshot_file, "decode_snapshot", decode_any)
