"""What a record batch says about its producer, and the arithmetic of sequence numbers.

A producer numbers its records per partition from 0; after 2^31 - 1 comes 0 again (KIP-98). A batch says the sequence
number of its first record; the last one follows from the number of its records.
"""

from typing import NamedTuple

from model.record_batch import (
    CONTROL_MASK,
    HEADER_BYTES,
    TRANSACTIONAL_MASK,
    Buffer,
    unpack_attributes,
    unpack_max_timestamp,
    unpack_producer_id,
    unpack_sequence,
)

SEQUENCE_MASK = 2**31 - 1
_NOT_NUMBERED = -1


class BatchSequence(NamedTuple):
    """The producer's side of one batch; both sequence numbers inclusive.

    A batch that a broker writes for a producer, such as a marker, has no sequence numbers: `is_numbered` is False.
    """

    producer_id: int
    epoch: int
    first: int
    last: int

    @property
    def is_numbered(self) -> bool:
        """Whether the records have sequence numbers."""
        return self.first != _NOT_NUMBERED

    @property
    def record_count(self) -> int:
        """Records from first to last, across the wrap."""
        return distance(self.first, self.last) + 1

    def is_next_after(self, last_sequence: int) -> bool:
        """Whether this batch comes right after the record with `last_sequence`."""
        return self.first == (last_sequence + 1) & SEQUENCE_MASK


def distance(first: int, last: int) -> int:
    """Return how many steps lead from sequence number `first` forward to `last`: 0 to 2^31 - 1."""
    return (last - first) & SEQUENCE_MASK


def read_sequence(batch: Buffer) -> BatchSequence | None:
    """Return what `batch` says of its producer; None without one, which costs a look at 8 bytes."""
    if len(batch) < HEADER_BYTES or unpack_producer_id(batch)[0] < 0:
        return None
    last_offset_delta, producer_id, epoch, first = unpack_sequence(batch)
    if first == _NOT_NUMBERED:
        return BatchSequence(producer_id, epoch, _NOT_NUMBERED, _NOT_NUMBERED)
    return BatchSequence(producer_id, epoch, first & SEQUENCE_MASK, (first + last_offset_delta) & SEQUENCE_MASK)


def is_transactional(batch: Buffer) -> bool:
    """Whether a batch that `read_sequence` has read is part of a transaction, or its marker."""
    return bool(unpack_attributes(batch)[0] & TRANSACTIONAL_MASK)


def is_marker(batch: Buffer) -> bool:
    """Whether a batch that `read_sequence` has read ends a transaction."""
    return bool(unpack_attributes(batch)[0] & CONTROL_MASK)


def read_timestamp(batch: Buffer) -> int:
    """Return the largest timestamp of a batch that `read_sequence` has read, in milliseconds."""
    timestamp: int = unpack_max_timestamp(batch)[0]
    return timestamp
