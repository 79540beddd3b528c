"""The settled part of the producer state: what committed entries say of each producer, with its file format.

    producer id -> epoch, the last five batches (first and last sequence, offset, index, term), records known before;
                   of a transactional one: the newest decision that its markers name, their coordinator's epoch

The table is bounded: of more than `producers_max` the one that has been silent longest is forgotten, and who has been
silent for `expiration_ms` is forgotten when somebody else writes, a hundred at a time. Who has a transaction open is
never forgotten, and who has ended one not for an hour: the newest decision on it must be known for as long as a late
copy of the marker may come.

State bytes: format version u8, then msgpack of `_Saved`. They lie in checksummed files only. Format 1 is what versions
without transactions write, and so does this one until a marker or a transactional batch is in the log. Format 2 adds
the transactions that are open, and to transactional producers the last fields of `_SavedProducer`.
"""

import itertools
import logging
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from cluster.producer_batch import SEQUENCE_MASK, BatchSequence, distance
from cluster.transactions.open_transactions import Transaction
from model.control_batch import NO_PREPARE, Prepare
from model.ids import Index, Offset
from storage.errors import CorruptLogError
from storage.snapshot_file import STATE_BYTES_MAX

_logger = logging.getLogger("cluster")

# A client has at most five requests in flight (max.in.flight.requests.per.connection), so it can ask for no more.
BATCHES_KEPT = 5

FORMAT_WITHOUT_TRANSACTIONS = 1
FORMAT_VERSION = 2

# Half of the sequence numbers: with more, "long ago" and "far ahead" would be the same number.
_KNOWN_MAX = 2**30

_NO_PRODUCER_ID = -1
_NO_COORDINATOR = -1

# A producer's part of the state bytes with the largest numbers there are: 19 bytes, 47 for each batch, 36 for what its
# markers say, and 43 for its open transaction.
_PRODUCER_BYTES_MAX = 334
_HEADER_BYTES_MAX = 16

# How long a producer with a marker is kept, unless there are too many.
_MARKED_KEPT_MS = 3600 * 1000

# About half a millisecond's work.
_PRODUCERS_PER_STEP = 50
_SILENT_PER_STEP = 100


@dataclass(slots=True, kw_only=True)
class ProducerOptions:
    """Bounds of each partition's producer state. One object for all of a node: what changes here holds for all.

    Attributes:
        expiration_ms: A producer that has committed nothing for so long, in time that this process has lived, may be
            forgotten; one whose transactions have ended is kept for an hour at least, and those behind it with it.
        producers_max: Producers remembered: as many as a snapshot can hold, whatever their numbers are.
    """

    expiration_ms: int = 24 * 3600 * 1000
    producers_max: int = 20_000

    def __post_init__(self) -> None:
        if not self.producers_max > 0 or self.state_bytes_max > STATE_BYTES_MAX:
            raise ValueError(f"producers_max={self.producers_max}: a snapshot holds {STATE_BYTES_MAX} bytes")

    @property
    def open_max(self) -> int:
        """How many may have a transaction open: half of them, so that the retries of all others are still known."""
        return (self.producers_max + 1) // 2

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


class PlacedMark(NamedTuple):
    """What an entry without sequence numbers says of its producer, with its place: a marker, or offsets of a group.

    `prepare` and `coordinator_epoch` are a marker's: the decision, and the term of who has made it.
    """

    producer_id: int
    epoch: int
    log_index: int
    term: int
    timestamp: int
    prepare: Prepare = NO_PREPARE
    coordinator_epoch: int = _NO_COORDINATOR

    @property
    def is_marker(self) -> bool:
        """Whether it ends a transaction."""
        return self.coordinator_epoch != _NO_COORDINATOR


class Producer:
    """One producer's unbroken run of batches in its current epoch; there is none yet behind a marker with a new epoch.

    Attributes:
        epoch: The newest one that a batch or a marker has had.
        batches: The newest five at most, oldest first.
        known_before: Records of the run before those.
        used_ms: When something of it was committed last.
        timestamp: The largest of its newest entry, in milliseconds.
        prepare: The newest decision that a marker of it names.
        coordinator_epoch: Of its newest marker.
    """

    __slots__ = (
        "_encoded",
        "batches",
        "coordinator_epoch",
        "epoch",
        "known_before",
        "prepare",
        "timestamp",
        "used_ms",
    )

    def __init__(self, epoch: int, used_ms: int) -> None:
        self.epoch = epoch
        self.batches: list[PlacedBatch] = []
        self.known_before = 0
        self.used_ms = used_ms
        self.timestamp = 0
        self.prepare = NO_PREPARE
        self.coordinator_epoch = _NO_COORDINATOR
        # Of many producers few write between two snapshots: the others are not encoded again.
        self._encoded: bytes | None = None

    def add(self, batch: PlacedBatch) -> None:
        """Take the next batch. One that does not follow begins a new run; of more than five the oldest is counted."""
        self._encoded = None
        sequence = batch.sequence
        if (
            sequence.epoch != self.epoch
            or not self.batches
            or not sequence.is_next_after(self.batches[-1].sequence.last)
        ):
            self.epoch, self.batches, self.known_before = sequence.epoch, [], 0
        self.timestamp = batch.timestamp
        self.batches.append(batch)
        if len(self.batches) > BATCHES_KEPT:
            oldest = self.batches.pop(0)
            self.known_before = min(self.known_before + oldest.sequence.record_count, _KNOWN_MAX)

    def mark(self, mark: PlacedMark) -> None:
        """Take an entry without sequence numbers: a later epoch begins a new run."""
        self._encoded = None
        if mark.epoch != self.epoch:
            self.epoch, self.batches, self.known_before = mark.epoch, [], 0
        self.timestamp = mark.timestamp
        if mark.coordinator_epoch != _NO_COORDINATOR:
            self.prepare = max(self.prepare, mark.prepare)
            self.coordinator_epoch = mark.coordinator_epoch

    @property
    def has_marker(self) -> bool:
        """Whether a transaction of it has ended."""
        return self.coordinator_epoch != _NO_COORDINATOR

    @property
    def is_plain(self) -> bool:
        """Whether format 1 of the state bytes can hold it: no marker and nothing without sequence numbers was here."""
        return bool(self.batches) and not self.has_marker

    def encode(self, producer_id: int) -> bytes:
        """Return its part of the state bytes."""
        if self._encoded is None:
            batches = [(each.sequence.first, each.sequence.last, *each[1:]) for each in self.batches]
            saved = [producer_id, self.epoch, self.known_before, batches]
            if not self.is_plain:
                saved += [*self.prepare, self.coordinator_epoch, self.timestamp]
            self._encoded = _encoder.encode(saved)
        return self._encoded

    def has_had(self, batch: BatchSequence) -> bool:
        """Whether all records of `batch` were committed before the oldest batch that is kept."""
        if not self.batches:
            return False
        oldest = self.batches[0].sequence
        back = distance(batch.last, (oldest.first - 1) & SEQUENCE_MASK)
        return batch.epoch == oldest.epoch and back + batch.record_count <= self.known_before


class _SavedProducer(msgspec.Struct, frozen=True, array_like=True):
    producer_id: int
    epoch: int
    known_before: int
    # Each: first sequence, last sequence, base offset, index, term, timestamp.
    batches: list[tuple[int, int, int, int, int, int]]
    # From here on only in format 2, and of a transactional producer.
    prepare_term: int = NO_PREPARE.term
    prepare_index: int = NO_PREPARE.index
    coordinator_epoch: int = _NO_COORDINATOR
    timestamp: int | None = None


class _Saved(msgspec.Struct, frozen=True, array_like=True):
    forgotten: int
    # Each a _SavedProducer: decoded in steps.
    producers: list[msgspec.Raw]
    # Only in format 2. Each: producer id, epoch, first index, first offset, timestamp; in the order of the log.
    transactions: list[tuple[int, int, int, int, int]] = []


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[_Saved] = msgspec.msgpack.Decoder(_Saved)
_producer_decoder: msgspec.msgpack.Decoder[_SavedProducer] = msgspec.msgpack.Decoder(_SavedProducer)

# Of two or three elements, `_Saved`; and the shortest form of an array's length, which is that of the encoder.
_SAVED_HEADERS = {FORMAT_WITHOUT_TRANSACTIONS: b"\x92", FORMAT_VERSION: b"\x93"}
_ARRAY_HEADERS = ((15, 0x90, 1), (2**16 - 1, 0xDC << 16, 3), (2**32 - 1, 0xDD << 32, 5))


class ProducerTable:
    """Producers by id, those first that have been silent longest.

    Attributes:
        evicted: How many were forgotten because there were too many, not because they were silent for too long.
    """

    def __init__(self, options: ProducerOptions) -> None:
        self.evicted = 0
        self._options = options
        # A plain dict would walk over what was taken from its front.
        self._producers: OrderedDict[int, Producer] = OrderedDict()
        # Those that were to be forgotten and had something open. They come back with their next entry.
        self._set_aside: dict[int, Producer] = {}
        # The largest producer id that was ever forgotten. Ids are handed out in rising order, so an unknown producer
        # with a larger one has never written here.
        self._forgotten = _NO_PRODUCER_ID

    def __len__(self) -> int:
        return len(self._producers) + len(self._set_aside)

    def __iter__(self) -> Iterator[int]:
        return itertools.chain(self._producers, self._set_aside)

    def get(self, producer_id: int) -> Producer | None:
        """Return what is known of a producer."""
        return self._producers.get(producer_id) or self._set_aside.get(producer_id)

    def may_have_forgotten(self, producer_id: int) -> bool:
        """Whether a producer that is not in the table may have been."""
        return producer_id <= self._forgotten

    def settle(self, placed: PlacedBatch | PlacedMark, now_ms: int) -> None:
        """Take a committed entry: the log is right, whatever was known of the producer."""
        named = placed.sequence if isinstance(placed, PlacedBatch) else placed
        producer_id = named.producer_id
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._set_aside.pop(producer_id, None) or Producer(named.epoch, now_ms)
            self._producers[producer_id] = producer
        else:
            # The order is that of the last writes.
            self._producers.move_to_end(producer_id)
        if isinstance(placed, PlacedBatch):
            producer.add(placed)
        else:
            producer.mark(placed)
        producer.used_ms = now_ms

    def expire(self, now_ms: int, is_open: Callable[[int], bool]) -> None:
        """Forget who has been silent for too long, or longest while there are too many.

        Who has a transaction open stays until its next entry, which may end it, or `take_back`. So a producer is looked
        at once for each of its entries, however often this is called.

        Args:
            is_open: Whether a producer has a transaction open, or one whose marker is not committed.
        """
        looked_at = 0
        while self._producers:
            producer_id = next(iter(self._producers))
            producer = self._producers[producer_id]
            is_silent = producer.used_ms + self._kept_ms(producer) <= now_ms
            if len(self) <= self._options.producers_max and (not is_silent or looked_at >= _SILENT_PER_STEP):
                break
            looked_at += 1
            del self._producers[producer_id]
            if is_open(producer_id):
                self._set_aside[producer_id] = producer
                continue
            if not is_silent:
                self._count_eviction()
            self._forgotten = max(self._forgotten, producer_id)

    def _kept_ms(self, producer: Producer) -> int:
        expiration_ms = self._options.expiration_ms
        return max(expiration_ms, _MARKED_KEPT_MS) if producer.has_marker else expiration_ms

    def take_back(self, now_ms: int) -> None:
        """What is open has changed without an entry, by a truncation: those that stayed for it count as just heard."""
        for producer in self._set_aside.values():
            producer.used_ms = now_ms
        self._producers.update(self._set_aside)
        self._set_aside.clear()

    def _count_eviction(self) -> None:
        if not self.evicted:
            _logger.warning(
                "a partition has more than %d idempotent producers: the one that has been silent longest is forgotten,"
                " and a retry of its last batches may be written twice; let clients live longer than one batch",
                self._options.producers_max,
            )
        self.evicted += 1

    def encode(self, transactions: Sequence[Transaction] = ()) -> Iterator[bytes]:
        """Yield the table as state bytes: the same on all replicas, but for who was forgotten by whom.

        When a producer was last heard is left out: it is a matter of this process's clock, and begins anew at `decode`.
        The table must not change before the end.

        Args:
            transactions: What is open as of what was settled last, in the order of the log.
        """
        producers = itertools.chain(self._producers.items(), self._set_aside.items())
        is_plain = not transactions and all(producer.is_plain for _, producer in producers)
        version = FORMAT_WITHOUT_TRANSACTIONS if is_plain else FORMAT_VERSION
        yield b"".join(
            [
                bytes([version]),
                _SAVED_HEADERS[version],
                _encoder.encode(self._forgotten),
                _array_header(len(self)),
            ]
        )
        producers = itertools.chain(self._producers.items(), self._set_aside.items())
        while some := list(itertools.islice(producers, _PRODUCERS_PER_STEP)):
            yield b"".join([producer.encode(producer_id) for producer_id, producer in some])
        if not is_plain:
            yield _encoder.encode(
                [
                    (each.producer_id, each.epoch, each.first_index, each.first_offset, each.timestamp)
                    for each in transactions
                ]
            )

    def decode(self, state: bytes, now_ms: int) -> Generator[None, None, list[Transaction]]:
        """Fill this empty table with what `encode` has yielded, in steps; no bytes at all are an empty table.

        Returns, at its end, what is open.

        Raises:
            CorruptLogError: Not written by `encode`, or by a newer version.
        """
        if not state:
            return []
        if state[0] not in _SAVED_HEADERS:
            raise CorruptLogError(f"producer state of format {state[0]}, this version reads up to {FORMAT_VERSION}")
        try:
            saved = _decoder.decode(memoryview(state)[1:])
            self._forgotten = saved.forgotten
            for number, raw in enumerate(saved.producers, start=1):
                producer_id, producer = _decode_producer(raw, now_ms)
                self._producers[producer_id] = producer
                if number % _PRODUCERS_PER_STEP == 0:
                    yield
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise CorruptLogError(f"producer state cannot be read: {error}") from error
        return _decode_transactions(saved.transactions)


def _array_header(length: int) -> bytes:
    _, mark, size = next(form for form in _ARRAY_HEADERS if length <= form[0])
    return (mark | length).to_bytes(size, "big")


def _decode_producer(raw: msgspec.Raw, now_ms: int) -> tuple[int, Producer]:
    saved = _producer_decoder.decode(raw)
    is_plain = saved.timestamp is None
    if not is_plain <= len(saved.batches) <= BATCHES_KEPT:
        raise CorruptLogError(f"producer {saved.producer_id} has {len(saved.batches)} batches in its state")
    producer = Producer(saved.epoch, now_ms)
    producer.batches = [
        PlacedBatch(BatchSequence(saved.producer_id, saved.epoch, first, last), *place)
        for first, last, *place in saved.batches
    ]
    producer.known_before = saved.known_before
    producer.prepare = Prepare(saved.prepare_term, saved.prepare_index)
    producer.coordinator_epoch = saved.coordinator_epoch
    producer.timestamp = producer.batches[-1].timestamp if saved.timestamp is None else saved.timestamp
    return saved.producer_id, producer


def _decode_transactions(saved: list[tuple[int, int, int, int, int]]) -> list[Transaction]:
    found = [
        Transaction(producer_id, epoch, Index(index), Offset(offset), timestamp)
        for producer_id, epoch, index, offset, timestamp in saved
    ]
    indexes = [each.first_index for each in found]
    if indexes != sorted(set(indexes)) or len({each.producer_id for each in found}) != len(found):
        raise CorruptLogError("the open transactions of a producer state are not in the order of a log")
    return found
