"""Bugs in log compaction (RFC 0022)."""

from collections.abc import Iterable, Iterator

import pytest

from model.ids import Index
from model.record_batch import BatchHeader, stamp
from model.record_filter import KeyedRecord
from raft.consensus import Consensus
from raft.follower_index_metadata import FollowerIndexMetadata
from raft.messages import InstallSnapshotRequest
from raft.snapshot_receiver import SnapshotReceiver
from storage.aborted_rows import aborted_row
from storage.cleaned_output import CleanedOutput
from storage.entry import Entry
from storage.log_snapshots import LogSnapshots
from storage.segment import is_control
from storage.segment_cleaning import Source, _Pass, map_key


def states_follow_from_compacted_entries(patch: pytest.MonkeyPatch) -> None:
    """A leader sends compacted entries to a follower that has no state for them."""
    patch.setattr(FollowerIndexMetadata, "lacks_state", lambda follower, first, compacted: False)


def marks_stay_where_the_state_is_ahead(patch: pytest.MonkeyPatch) -> None:
    """A follower whose state includes what its leader has compacted keeps its own mark, though its log lacks that."""

    def has_all(receiver: SnapshotReceiver, request: InstallSnapshotRequest) -> bool:
        begins_here = request.start.index <= receiver._context.state.commit_index + 1
        return 0 < request.compacted_index <= receiver._known and begins_here

    patch.setattr(SnapshotReceiver, "_has_all", has_all)


def marks_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """The mark of compaction is in memory only."""

    async def raised(snapshots: LogSnapshots, index: Index) -> None:
        snapshots.compacted_index = max(snapshots.compacted_index, index)

    patch.setattr(LogSnapshots, "raise_compacted", raised)


def passes_go_on_behind_their_end(patch: pytest.MonkeyPatch) -> None:
    """A pass whose map is full removes what was aborted behind the last entry that it has compared."""
    filtered = _Pass._filtered

    def without_end(each: _Pass, source: Source, end: Index) -> Iterator[tuple[Entry, int, bool]]:
        return filtered(each, source, Index(2**62))

    patch.setattr(_Pass, "_filtered", without_end)


def passes_remove_the_newest_record(patch: pytest.MonkeyPatch) -> None:
    """Of the records of a key the one goes that the map has, and the older ones stay."""

    def is_kept(each: _Pass, entry: Entry, header: BatchHeader, record: KeyedRecord) -> bool:
        return each._newest.get(map_key(record.key or b"")) != header.base_offset + record.offset_delta

    patch.setattr(_Pass, "_is_kept", is_kept)


def passes_stamp_another_epoch(patch: pytest.MonkeyPatch) -> None:
    """The batches that a pass keeps get a leader epoch that is not theirs: no reader compares it."""
    filtered = _Pass._filter

    def stamped(each: _Pass, entry: Entry) -> Entry | None:
        kept = filtered(each, entry)
        if kept is None:
            return None
        payload = bytearray(kept.payload)
        stamp(payload, kept.base_offset, kept.term + 1)
        return Entry(kept.index, kept.term, kept.kind, kept.base_offset, kept.record_count, payload)

    patch.setattr(_Pass, "_filter", stamped)


def rows_outlive_their_markers(patch: pytest.MonkeyPatch) -> None:
    """The rows of ABORT markers that a pass removes stay in the segment that it writes."""
    write = CleanedOutput.write

    def with_all_rows(output: CleanedOutput, entries: Iterable[tuple[Entry, int, bool]]) -> None:
        def noted() -> Iterator[tuple[Entry, int, bool]]:
            for entry, flushed, stays in entries:
                row = aborted_row(entry) if not stays and is_control(entry) else None
                if row is not None:
                    output._rows.add(row)
                yield entry, flushed, stays

        write(output, noted())

    patch.setattr(CleanedOutput, "write", with_all_rows)


def deletes_go_where_the_leader_is_clean(patch: pytest.MonkeyPatch) -> None:
    """The clean index of the leader alone bounds tombstones and markers, whatever the other members have answered."""

    def raised(consensus: Consensus) -> Index:
        consensus.note_deletes_bound(consensus.clean_index)
        return consensus.deletes_to

    patch.setattr(Consensus, "raise_deletes_bound", raised)
