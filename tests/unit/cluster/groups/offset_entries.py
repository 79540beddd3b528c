"""Entries of `__consumer_offsets` for tests: plain commits, offsets in transactions, markers."""

from cluster.groups.records import CommittedOffset, OffsetKey, encode_record
from model.control_batch import Marker, MarkerType, Prepare, encode_marker
from model.ids import Index, Offset, Term
from model.key_value_batch import encode_key_values
from model.record_batch import NO_PRODUCER, TRANSACTIONAL_MASK, BatchProducer
from raft.replicate_item import NewEntry
from storage.entry import Entry, EntryKind


def committed(offset, metadata=""):
    return CommittedOffset(offset, -1, metadata, 0)


def commit_of(*records, producer=NO_PRODUCER, guard=None):
    """Return an entry with records, (key, value) each, that has no place yet."""
    batch = encode_key_values([encode_record(*each) for each in records], 0, producer)
    return NewEntry(EntryKind.DATA, batch, len(records), guard, producer is not NO_PRODUCER)


def txn_commit(producer_id, *records, epoch=0, guard=None):
    return commit_of(*records, producer=BatchProducer(producer_id, epoch, TRANSACTIONAL_MASK), guard=guard)


def marker_of(producer_id, first_offset, prepare, *, is_commit=True, epoch=0):
    kind = MarkerType.COMMIT if is_commit else MarkerType.ABORT
    marker = Marker(producer_id, epoch, kind, 3, first_offset, Prepare(*prepare))
    return NewEntry(EntryKind.DATA, encode_marker(marker, 0), 1, None, True, True)


def placed(new, index):
    """Return the entry at its place; records of entries are not counted in offsets: each has one."""
    return Entry(Index(index), Term(1), new.kind, Offset(index - 1), new.record_count, bytes(new.payload))


def place(number=0, group="g"):
    return OffsetKey(group, "t", number)
