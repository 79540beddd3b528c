"""Batches of idempotent producers for tests: headers only, the state looks at nothing else."""

import struct

from model.control_batch import Marker, MarkerType, Prepare, encode_marker
from model.ids import Index, Offset, Term
from model.record_batch import TRANSACTIONAL_MASK
from raft.replicate_item import NewEntry
from storage.entry import Entry, EntryKind

TIMESTAMP = 1_700_000_000_123


def header(producer_id: int, epoch: int, first: int, count: int, attributes: int = 0) -> bytearray:
    """Return the 61 bytes of a batch header with these fields."""
    return bytearray(
        struct.pack(
            ">qiibIhiqqqhii", 0, 49, 0, 2, 0, attributes, count - 1, 0, TIMESTAMP, producer_id, epoch, first, count
        )
    )


def new_batch(producer_id: int, first: int, count: int = 1, epoch: int = 0) -> NewEntry:
    """Return a batch that has no place yet."""
    return NewEntry(EntryKind.DATA, header(producer_id, epoch, first, count), count)


def transactional(producer_id: int, first: int, count: int = 1, epoch: int = 0, guard: int | None = None) -> NewEntry:
    """Return a batch of a transaction that has no place yet."""
    return NewEntry(EntryKind.DATA, header(producer_id, epoch, first, count, TRANSACTIONAL_MASK), count, guard, True)


def marker(
    producer_id: int, first_offset: int, epoch: int = 0, prepare: tuple[int, int] = (1, 1), *, is_commit: bool = True
) -> NewEntry:
    """Return a marker that has no place yet."""
    kind = MarkerType.COMMIT if is_commit else MarkerType.ABORT
    said = Marker(producer_id, epoch, kind, 3, first_offset, Prepare(*prepare))
    return NewEntry(EntryKind.DATA, encode_marker(said, TIMESTAMP), 1, None, True, True)


def placed(new: NewEntry, index: int, base_offset: int, term: int = 1) -> Entry:
    """Return the entry of a batch at its place."""
    return Entry(Index(index), Term(term), new.kind, Offset(base_offset), new.record_count, bytes(new.payload))
