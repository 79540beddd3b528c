"""Records as workloads send and read them: plain values, or values and tombstones of a bounded set of keys.

A history names each record by its `val`, which is unique. The name of a record with a key begins with the key, and
tells whether it is a tombstone. A tombstone has no value, so a header has its number. So a record that comes back with
another key, with a value where there was none, or without one, has a name that nobody has sent: a phantom.
"""

import random
from collections.abc import Callable
from typing import NamedTuple

from raftka.chaos.load import padded, stripped
from raftka.kafka.wire.record_batches import Headers

_HEADER = "number"
_BUSY_SHARE = 0.5
# Of a value, of a tombstone.
_PUT, _DELETED = "=", "-"


class OutgoingRecord(NamedTuple):
    """What a producer sends.

    Attributes:
        name: The `val` of its line.
        value: None: it is a tombstone.
        key: None: it has no key.
        headers: Its headers.
    """

    name: str
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()

    @property
    def fields(self) -> dict[str, object]:
        """What its line in the history says of it."""
        fields: dict[str, object] = {"val": self.name}
        if self.key is not None:
            fields |= {"key": self.key.decode(), "tombstone": self.value is None}
        return fields


# Makes the record of a producer, given by its process, and of a number of that producer's.
RecordMaker = Callable[[int, int], OutgoingRecord]


def plain_record(producer: int, number: int) -> OutgoingRecord:
    """Return a record without a key."""
    value = f"{producer}.{number}"
    return OutgoingRecord(value, padded(value))


class KeyedRecordMaker:
    """Makes records of a bounded set of keys; some of them are tombstones.

    Half of the records go to few keys, the others to many: those rest long enough for their tombstones to become old.

    Args:
        rng: Decides.
        busy: How many keys half of the records go to.
        keys: How many keys there are.
        deleted: Which part of the records are tombstones, from 0 to 1.
        size: Of a value, in bytes.
    """

    def __init__(self, rng: random.Random, busy: int, keys: int, deleted: float, size: int) -> None:
        self._rng = rng
        self._busy = busy
        self._keys = keys
        self._deleted = deleted
        self._size = size

    def __call__(self, producer: int, number: int) -> OutgoingRecord:
        """Return the record of a producer's number."""
        key = f"k{self._rng.randrange(self._busy if self._rng.random() < _BUSY_SHARE else self._keys)}"
        word = f"{producer}.{number}"
        if self._rng.random() < self._deleted:
            return OutgoingRecord(key + _DELETED + word, None, key.encode(), ((_HEADER, word.encode()),))
        return OutgoingRecord(key + _PUT + word, word.encode().ljust(self._size), key.encode())


def name_of(key: bytes | None, value: bytes | None, headers: Headers) -> str:
    """Return the name of a record that was read; `value` None: it is a tombstone."""
    if key is None:
        return stripped(value or b"")
    text = key.decode(errors="replace")
    if value is not None:
        return text + _PUT + stripped(value)
    return text + _DELETED + stripped(dict(headers).get(_HEADER) or b"")
