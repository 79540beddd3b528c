"""What a partition's log has held before log compaction: each record as it was committed, and what supersedes it.

Invariants of compaction compare with it what passes have left (RFC 0022). It remembers the batches of all committed
entries, and looks into them no earlier than a pass has.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from model.record_batch import read_header
from model.record_codec import unpack_records
from model.record_filter import KeyedRecord, keyed_records
from storage.entry import Entry, EntryKind
from tests.simulation.world.replica_view import Ghost

# No pass may remove an entry for being superseded.
NEVER = 2**63 - 1


class OriginalRecord(NamedTuple):
    """Where a record was: in which entry, and at which place among the records of its batch."""

    index: int
    place: int


class OriginalBatch:
    """The records of one batch that is no marker, and was not aborted.

    Attributes:
        records: In their order.
        superseded_by: Of each record the entry with the next record of its key that counts; NEVER without any.
        older: Of each record the one before it with its key, if any.
    """

    __slots__ = ("base_offset", "older", "records", "superseded_by")

    def __init__(self, base_offset: int, records: list[KeyedRecord], index: int) -> None:
        self.base_offset = base_offset
        self.records = records
        # What has no key is older than the policy, and goes.
        self.superseded_by = [index if record.key is None else NEVER for record in records]
        self.older: list[OriginalRecord | None] = [None] * len(records)


class OriginalLog:
    """Of one group. `committed` is what the group has committed, and grows."""

    def __init__(self, committed: list[Ghost]) -> None:
        self.committed = committed
        self._payloads: dict[int, bytes] = {}
        # By index, as far as `follow` has come.
        self._batches: list[OriginalBatch | None] = []
        self._goes_at: list[int] = []
        self._newest: dict[bytes, OriginalRecord] = {}
        # The entries of transactions that are not ended, by producer; those that were aborted, and by which marker.
        self._open: dict[int, list[int]] = {}
        self._aborted: set[int] = set()
        self._aborted_by: dict[int, list[int]] = {}

    def add(self, new: Sequence[Ghost], payloads: Mapping[int, bytes]) -> None:
        """Entries nobody had committed before are committed; `payloads` are those of the data among them, by index."""
        self._payloads.update(payloads)
        for ghost in new:
            if ghost.marker is not None:
                ended = self._open.pop(ghost.marker.producer_id, [])
                if ghost.marker.is_abort:
                    self._aborted.update(ended)
                    self._aborted_by[ghost.index] = ended
            elif ghost.is_transactional and ghost.producer is not None:
                self._open.setdefault(ghost.producer[0], []).append(ghost.index)

    def at(self, index: int) -> Ghost | None:
        """Return the committed entry at an index, None if nothing is committed there."""
        return self.committed[index - 1] if 1 <= index <= len(self.committed) else None

    def payload(self, index: int) -> bytes | None:
        """Return the batch of an entry; None if it has none, or if nobody could read it when it was committed."""
        return self._payloads.get(index)

    def batch(self, index: int) -> OriginalBatch | None:
        """Return the records of an entry; None if it has none that count, or `follow` has not come so far."""
        return self._batches[index - 1] if index <= len(self._batches) else None

    def aborted_by(self, index: int) -> Sequence[int]:
        """Return the entries that the marker at an index has aborted."""
        return self._aborted_by.get(index, ())

    def kept(self, entry: Entry) -> frozenset[int] | None:
        """Return the offset deltas of the records that a pass has left of an entry; None: all.

        Raises:
            CorruptRecordsError: They cannot be read.
        """
        if entry.kind is EntryKind.PLACEHOLDER:
            return frozenset()
        if entry.kind is not EntryKind.DATA or self._is_whole(entry):
            return None
        header = read_header(entry.payload)
        if header.is_control:
            return None
        return frozenset(each.offset_delta for each in keyed_records(header, unpack_records(entry.payload)))

    def _is_whole(self, entry: Entry) -> bool:
        payload = self._payloads.get(entry.index)
        # A view would be compared byte by byte.
        return payload is None or bytes(entry.payload) == payload

    def follow(self, end: int) -> None:
        """Find out what supersedes what, up to `end`: no further than to the first transaction that is not ended."""
        first_open = min((entries[0] for entries in self._open.values()), default=NEVER)
        for index in range(len(self._batches) + 1, min(end, first_open - 1, len(self.committed)) + 1):
            ghost, batch, goes_at = self.committed[index - 1], None, NEVER
            if ghost.kind is EntryKind.BARRIER or index in self._aborted:
                goes_at = index
            elif ghost.kind is EntryKind.DATA and ghost.marker is None and index in self._payloads:
                payload = self._payloads[index]
                header = read_header(payload)
                batch = OriginalBatch(ghost.base_offset, keyed_records(header, unpack_records(payload)), index)
            self._batches.append(batch)
            self._goes_at.append(goes_at)
            if batch is not None:
                self._supersede(index, batch)

    def _supersede(self, index: int, batch: OriginalBatch) -> None:
        newest = self._newest
        for place, record in enumerate(batch.records):
            if record.key is None:
                continue
            older = batch.older[place] = newest.get(record.key)
            newest[record.key] = OriginalRecord(index, place)
            if older is not None:
                found = self._batches[older.index - 1]
                assert found is not None
                found.superseded_by[older.place] = index
                self._goes_at[older.index - 1] = max(found.superseded_by)
        self._goes_at[index - 1] = max(batch.superseded_by)

    def unexcused(self, first: int, last: int, end: int) -> list[int]:
        """Return the entries of [first, last] that hold more than what a pass to `end` may remove as superseded.

        What was aborted, has no key, or is a barrier counts as superseded by itself.
        """
        goes_at = self._goes_at[first - 1 : last]
        found = [first + at for at, each in enumerate(goes_at) if each > end] if max(goes_at, default=0) > end else []
        return [*found, *range(max(first, len(self._goes_at) + 1), last + 1)]

    def removed_deletes(self, index: int, kept: frozenset[int], end: int) -> list[OriginalRecord]:
        """Return the tombstones of an entry that are gone, and that no record up to `end` supersedes."""
        batch = self.batch(index)
        if batch is None:
            return []
        return [
            OriginalRecord(index, place)
            for place, record in enumerate(batch.records)
            if record.deletes and record.offset_delta not in kept and batch.superseded_by[place] > end
        ]

    def older(self, record: OriginalRecord) -> OriginalRecord | None:
        """Return the record of the same key before a record."""
        batch = self.batch(record.index)
        return None if batch is None else batch.older[record.place]

    def delta(self, record: OriginalRecord) -> int:
        """Return the offset delta of a record in its batch."""
        batch = self.batch(record.index)
        assert batch is not None
        return batch.records[record.place].offset_delta
