"""The settled part of the producer state: what committed entries say of each producer, with its file format.

    producer id -> epoch, the last five batches (first and last sequence, offset, index, term), records known before

The table is bounded: of more than `producers_max` the one that has been silent longest is forgotten, and who has been
silent for `expiration_ms` is forgotten when somebody else writes.

State bytes: format version u8 = 1, then msgpack of `_Saved`. They lie in checksummed files only.
"""

import itertools
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from cluster.producer_batch import SEQUENCE_MASK, BatchSequence, distance
from storage.errors import CorruptLogError
from storage.snapshot_file import STATE_BYTES_MAX

_logger = logging.getLogger("cluster")

# A client has at most five requests in flight (max.in.flight.requests.per.connection), so it can ask for no more.
BATCHES_KEPT = 5

FORMAT_VERSION = 1

# Half of the sequence numbers: with more, "long ago" and "far ahead" would be the same number.
_KNOWN_MAX = 2**30

_NO_PRODUCER_ID = -1

# A producer's part of the state bytes with the largest numbers there are: 19 bytes and 47 for each batch.
_PRODUCER_BYTES_MAX = 256
_HEADER_BYTES_MAX = 16

# About half a millisecond's work.
_PRODUCERS_PER_STEP = 50


@dataclass(slots=True, kw_only=True)
class ProducerOptions:
    """Bounds of each partition's producer state. One object for all of a node: what changes here holds for all.

    Attributes:
        expiration_ms: A producer that has committed nothing for so long, in time that this process has lived, may be
            forgotten.
        producers_max: Producers remembered: as many as a snapshot can hold, whatever their numbers are.
    """

    expiration_ms: int = 24 * 3600 * 1000
    producers_max: int = 2000

    def __post_init__(self) -> None:
        if not self.producers_max > 0 or self.state_bytes_max > STATE_BYTES_MAX:
            raise ValueError(f"producers_max={self.producers_max}: a snapshot holds {STATE_BYTES_MAX} bytes")

    @property
    def state_bytes_max(self) -> int:
        """The most that the encoded table can have."""
        return _HEADER_BYTES_MAX + self.producers_max * _PRODUCER_BYTES_MAX


class PlacedBatch(NamedTuple):
    """A batch with its place in the log: offset of the first record, index and term of the entry, largest timestamp."""

    sequence: BatchSequence
    base_offset: int
    log_index: int
    term: int
    timestamp: int


class Producer:
    """One producer's unbroken run of batches in its current epoch."""

    __slots__ = ("_encoded", "batches", "known_before", "used_ms")

    def __init__(self, batches: list[PlacedBatch], known_before: int, used_ms: int) -> None:
        self.batches = batches
        self.known_before = known_before
        self.used_ms = used_ms
        # Of many producers few write between two snapshots: the others are not encoded again.
        self._encoded: bytes | None = None

    @property
    def last(self) -> BatchSequence:
        """The newest batch."""
        return self.batches[-1].sequence

    def add(self, batch: PlacedBatch) -> None:
        """Take the next batch of the run; the oldest of more than five is only counted from now on."""
        self._encoded = None
        self.batches.append(batch)
        if len(self.batches) > BATCHES_KEPT:
            oldest = self.batches.pop(0)
            self.known_before = min(self.known_before + oldest.sequence.record_count, _KNOWN_MAX)

    def encode(self) -> bytes:
        """Return its part of the state bytes."""
        if self._encoded is None:
            sequence = self.last
            batches = [(each.sequence.first, each.sequence.last, *each[1:]) for each in self.batches]
            saved = _SavedProducer(sequence.producer_id, sequence.epoch, self.known_before, batches)
            self._encoded = _encoder.encode(saved)
        return self._encoded

    def has_had(self, batch: BatchSequence) -> bool:
        """Whether all records of `batch` were committed before the oldest batch that is kept."""
        oldest = self.batches[0].sequence
        back = distance(batch.last, (oldest.first - 1) & SEQUENCE_MASK)
        return batch.epoch == oldest.epoch and back + batch.record_count <= self.known_before


class _SavedProducer(msgspec.Struct, frozen=True, array_like=True):
    producer_id: int
    epoch: int
    known_before: int
    # Each: first sequence, last sequence, base offset, index, term, timestamp.
    batches: list[tuple[int, int, int, int, int, int]]


class _Saved(msgspec.Struct, frozen=True, array_like=True):
    forgotten: int
    # Each a _SavedProducer: decoded in steps.
    producers: list[msgspec.Raw]


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[_Saved] = msgspec.msgpack.Decoder(_Saved)
_producer_decoder: msgspec.msgpack.Decoder[_SavedProducer] = msgspec.msgpack.Decoder(_SavedProducer)

# Of two elements, `_Saved`; and the shortest form of an array's length, which is that of the encoder.
_SAVED_HEADER = b"\x92"
_ARRAY_HEADERS = ((15, 0x90, 1), (2**16 - 1, 0xDC << 16, 3), (2**32 - 1, 0xDD << 32, 5))


class ProducerTable:
    """Producers by id, those first that have been silent longest.

    Attributes:
        evicted: How many were forgotten because there were too many, not because they were silent for too long.
    """

    def __init__(self, options: ProducerOptions) -> None:
        self.evicted = 0
        self._options = options
        self._producers: dict[int, Producer] = {}
        # The largest producer id that was ever forgotten. Ids are handed out in rising order, so an unknown producer
        # with a larger one has never written here.
        self._forgotten = _NO_PRODUCER_ID

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[int]:
        return iter(self._producers)

    def get(self, producer_id: int) -> Producer | None:
        """Return what is known of a producer."""
        return self._producers.get(producer_id)

    def newest_batch(self, producer_id: int) -> PlacedBatch:
        """Return the last batch of a producer that is in the table."""
        return self._producers[producer_id].batches[-1]

    def may_have_forgotten(self, producer_id: int) -> bool:
        """Whether a producer that is not in the table may have been."""
        return producer_id <= self._forgotten

    def settle(self, batch: PlacedBatch, now_ms: int) -> None:
        """Take a committed batch: the log is right, whatever was known of the producer."""
        sequence = batch.sequence
        # Taken out and put in again: the table's order is that of the last writes.
        producer = self._producers.pop(sequence.producer_id, None)
        if producer is None or sequence.epoch != producer.last.epoch or not sequence.is_next_after(producer.last.last):
            producer = Producer([batch], 0, now_ms)
        else:
            producer.add(batch)
            producer.used_ms = now_ms
        self._producers[sequence.producer_id] = producer

    def expire(self, now_ms: int) -> None:
        """Forget who has been silent for too long, or longest while there are too many."""
        oldest_kept = now_ms - self._options.expiration_ms
        while self._producers:
            producer_id = next(iter(self._producers))
            if self._producers[producer_id].used_ms > oldest_kept:
                if len(self) <= self._options.producers_max:
                    break
                self._count_eviction()
            del self._producers[producer_id]
            self._forgotten = max(self._forgotten, producer_id)

    def _count_eviction(self) -> None:
        if not self.evicted:
            _logger.warning(
                "a partition has more than %d idempotent producers: the one that has been silent longest is forgotten,"
                " and a retry of its last batches may be written twice; let clients live longer than one batch",
                self._options.producers_max,
            )
        self.evicted += 1

    def encode(self) -> Iterator[bytes]:
        """Yield the table as state bytes: the same on all replicas, but for who was forgotten by whom.

        When a producer was last heard is left out: it is a matter of this process's clock, and begins anew at `decode`.
        The table must not change before the end.
        """
        yield bytes([FORMAT_VERSION]) + _SAVED_HEADER + _encoder.encode(self._forgotten) + _array_header(len(self))
        producers = iter(self._producers.values())
        while some := list(itertools.islice(producers, _PRODUCERS_PER_STEP)):
            yield b"".join([producer.encode() for producer in some])

    def decode(self, state: bytes, now_ms: int) -> Iterator[None]:
        """Fill this empty table with what `encode` has yielded, in steps; no bytes at all are an empty table.

        Raises:
            CorruptLogError: Not written by `encode`, or by a newer version.
        """
        if not state:
            return
        if state[0] != FORMAT_VERSION:
            raise CorruptLogError(f"producer state of format {state[0]}, this version reads {FORMAT_VERSION}")
        try:
            saved = _decoder.decode(memoryview(state)[1:])
            self._forgotten = saved.forgotten
            for number, raw in enumerate(saved.producers, start=1):
                producer = _decode_producer(raw, now_ms)
                self._producers[producer.last.producer_id] = producer
                if number % _PRODUCERS_PER_STEP == 0:
                    yield
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise CorruptLogError(f"producer state cannot be read: {error}") from error


def _array_header(length: int) -> bytes:
    _, mark, size = next(form for form in _ARRAY_HEADERS if length <= form[0])
    return (mark | length).to_bytes(size, "big")


def _decode_producer(raw: msgspec.Raw, now_ms: int) -> Producer:
    saved = _producer_decoder.decode(raw)
    if not 1 <= len(saved.batches) <= BATCHES_KEPT:
        raise CorruptLogError(f"producer {saved.producer_id} has {len(saved.batches)} batches in its state")
    batches = [
        PlacedBatch(BatchSequence(saved.producer_id, saved.epoch, first, last), *place)
        for first, last, *place in saved.batches
    ]
    return Producer(batches, saved.known_before, now_ms)
