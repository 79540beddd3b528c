"""Transactional ids and their states, as the committed records of one partition of `__transaction_state` leave them.

Each state has the place of its record in the log. That of a Prepare names the decision: all markers of the transaction
carry it, also those that a later coordinator sends again.

The state bytes: format u8 = 1, then for each id, in the order in which they first appeared

    term i64 | index i64 | key: u32 length, bytes | value: u32 length, bytes

with the key and value of its record. So they are the same on every replica.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cluster.record_reader import UnreadableRecordError, read_part, read_sized_part
from cluster.transactions.records import (
    StoredTransaction,
    TransactionState,
    decode_record,
    encode_record,
    encoded_size,
)
from model.control_batch import Prepare
from model.key_value_batch import KeyValue
from storage.errors import CorruptLogError

FORMAT_VERSION = 1
# The state bytes of an empty table: the format.
EMPTY_BYTES = 1

# A tuple: what is looked for is compared by its identity first, and never hashed, which an enum does in Python.
_IDLE = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT, TransactionState.EMPTY)
_PLACE = struct.Struct(">qq")
_U32 = struct.Struct(">I")
# How much is encoded or decoded in a step: an id counts 1, and so do this many partitions.
_WORK_PER_STEP = 100
_PARTITIONS_PER_WORK = 20
_WHAT = "transaction state"
# The place, and the lengths of key and value.
_FRAMING_BYTES = _PLACE.size + 2 * _U32.size


class PlacedTransaction(NamedTuple):
    """A state, and the place of its record: the term and the index of the entry."""

    stored: StoredTransaction
    place: Prepare


class TransactionTable:
    """States by transactional id. Written by `apply` and `decode` only.

    Attributes:
        size_bytes: What `encode` yields, in bytes.
        record_count: How many ids there are.
        partition_count: How many partitions their transactions have together.
    """

    def __init__(self) -> None:
        self._transactions: dict[str, PlacedTransaction] = {}
        self.size_bytes = EMPTY_BYTES
        self.partition_count = 0

    @property
    def record_count(self) -> int:
        """See the class."""
        return len(self._transactions)

    def get(self, transactional_id: str) -> PlacedTransaction | None:
        """Return what was stored last; None: nothing, or it was deleted."""
        return self._transactions.get(transactional_id)

    def transactional_ids(self) -> list[str]:
        """Return all ids in the order of their appearance."""
        return list(self._transactions)

    def open_among(self, transactional_ids: Iterable[str]) -> list[str]:
        """Return those of some ids whose transaction is open or decided, in the same order."""
        known = self._transactions
        return [
            each
            for each in transactional_ids
            if (placed := known.get(each)) is not None and placed.stored.state not in _IDLE
        ]

    def size_of(self, transactional_id: str) -> int:
        """Return what an id takes of the state bytes; 0 if it is not there."""
        placed = self._transactions.get(transactional_id)
        return 0 if placed is None else record_size(transactional_id, placed.stored)

    def partitions_of(self, transactional_id: str) -> int:
        """Return how many partitions the transaction of an id has; 0 if it is not there."""
        placed = self._transactions.get(transactional_id)
        return 0 if placed is None else len(placed.stored.partitions)

    def apply(self, transactional_id: str, value: StoredTransaction | None, place: Prepare) -> None:
        """Take one committed record, which lies at `place`; None deletes."""
        before, partitions_before = self.size_of(transactional_id), self.partitions_of(transactional_id)
        if value is None:
            self._transactions.pop(transactional_id, None)
        else:
            self._transactions[transactional_id] = PlacedTransaction(value, place)
        self.size_bytes += record_size(transactional_id, value) - before
        self.partition_count += partition_count(transactional_id, value) - partitions_before

    # -- state bytes --------------------------------------------------------------------------------------------

    def encode(self) -> Iterator[bytes]:
        """Yield the state bytes, part by part. The table must not change before the end."""
        yield bytes([FORMAT_VERSION])
        parts: list[bytes] = []
        work = 0
        for transactional_id, placed in self._transactions.items():
            key, value, _ = encode_record(transactional_id, placed.stored)
            assert value is not None, "what is deleted is not in the table"
            parts += (_PLACE.pack(*placed.place), _U32.pack(len(key)), key, _U32.pack(len(value)), value)
            work += _work(placed.stored)
            if work >= _WORK_PER_STEP:
                yield b"".join(parts)
                parts.clear()
                work = 0
        yield b"".join(parts)

    def decode(self, state: bytes) -> Iterator[None]:
        """Fill this empty table with what `encode` has yielded, in steps; no bytes at all are an empty table.

        Raises:
            CorruptLogError: Not written by `encode`, or by a newer version.
        """
        if not state:
            return
        if state[0] != FORMAT_VERSION:
            raise CorruptLogError(f"transaction state of format {state[0]}, this version reads {FORMAT_VERSION}")
        position, work = 1, 0
        while position < len(state):
            packed, position = read_part(state, position, _PLACE.size, _WHAT)
            key, position = read_sized_part(state, position, _WHAT)
            value, position = read_sized_part(state, position, _WHAT)
            try:
                transactional_id, stored = decode_record(KeyValue(key, value))
            except UnreadableRecordError as error:
                raise CorruptLogError(f"transaction state cannot be read: {error}") from error
            self.apply(transactional_id, stored, Prepare(*_PLACE.unpack(packed)))
            work += 1 if stored is None else _work(stored)
            if work >= _WORK_PER_STEP:
                yield
                work = 0


def record_size(transactional_id: str, value: StoredTransaction | None) -> int:
    """Return what a record takes of the state bytes; 0 for one that deletes."""
    return 0 if value is None else _FRAMING_BYTES + encoded_size(transactional_id, value)


def partition_count(transactional_id: str, value: StoredTransaction | None) -> int:
    """Return how many partitions a record names."""
    return 0 if value is None else len(value.partitions)


def _work(value: StoredTransaction) -> int:
    return 1 + len(value.partitions) // _PARTITIONS_PER_WORK
