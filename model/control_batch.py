"""Transaction markers: the control batches by which a broker ends a producer's transaction in a partition (RFC 0021).

    batch    attributes: transactional and control | producer id and epoch | base sequence -1 | one record
    key      version i16 = 0 | type i16: 0 ABORT, 1 COMMIT
    value    version i16 = 0 | coordinator epoch i32
    header   "raftka": version u8 = 1 | first offset i64 | prepare term i64 | prepare index i64

Clients read the producer's id and epoch and the type, and skip the record. The record's header is for brokers: where
the transaction begins in this partition, and the place of the decision in the coordinator's log.

Source: Apache Kafka's EndTransactionMarker and ControlRecordType (KIP-98).
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from model.key_value_batch import KeyValue, encode_key_values, read_key_values
from model.record_batch import CONTROL_MASK, TRANSACTIONAL_MASK, BatchProducer, Buffer, read_header
from model.record_codec import CorruptRecordsError

_HEADER_NAME = b"raftka"
_HEADER_VERSION = 1
# Of key and value.
_KAFKA_VERSION = 0
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_HEADER = struct.Struct(">Bqqq")


class MarkerType(IntEnum):
    """What becomes of the transaction; the numbers of Kafka's control records."""

    ABORT = 0
    COMMIT = 1


class Prepare(NamedTuple):
    """The place of the record by which a transaction was decided; compared as a pair, an earlier term first.

    `NO_PREPARE` stands for a marker that an administrator asked for.
    """

    term: int
    index: int  # type: ignore[assignment]  # It hides a method of tuples that nobody calls.


NO_PREPARE = Prepare(0, 0)


class Marker(NamedTuple):
    """One marker.

    Attributes:
        producer_id: Whose transaction ends.
        epoch: The producer's from now on: batches of an earlier one are refused.
        type: COMMIT or ABORT.
        coordinator_epoch: For clients and tools only.
        first_offset: Of the first record of the transaction in this partition.
        prepare: The decision.
    """

    producer_id: int
    epoch: int
    type: MarkerType
    coordinator_epoch: int
    first_offset: int
    prepare: Prepare

    @property
    def is_abort(self) -> bool:
        """Readers at read_committed leave the transaction out."""
        return self.type is MarkerType.ABORT


def encode_marker(marker: Marker, timestamp_ms: int) -> bytearray:
    """Return the batch of one marker; offset and leader epoch are not stamped yet."""
    record = KeyValue(
        _KEY.pack(_KAFKA_VERSION, marker.type),
        _VALUE.pack(_KAFKA_VERSION, marker.coordinator_epoch),
        ((_HEADER_NAME, _HEADER.pack(_HEADER_VERSION, marker.first_offset, *marker.prepare)),),
    )
    producer = BatchProducer(marker.producer_id, marker.epoch, TRANSACTIONAL_MASK | CONTROL_MASK)
    return encode_key_values([record], timestamp_ms, producer)


def decode_marker(batch: Buffer) -> Marker:
    """Return the marker in a control batch.

    Raises:
        CorruptRecordsError: It is none that `encode_marker` has made, or of a newer version.
    """
    header = read_header(batch)
    if not (header.is_control and header.is_transactional):
        raise CorruptRecordsError("a marker is a transactional control batch")
    records = list(read_key_values(batch))
    if len(records) != 1:
        raise CorruptRecordsError(f"a control batch with {len(records)} records, a marker has one")
    record = records[0]
    try:
        key_version, number = _KEY.unpack(record.key)
        value_version, coordinator_epoch = _VALUE.unpack(record.value or b"")
        version, first_offset, term, index = _HEADER.unpack(dict(record.headers)[_HEADER_NAME])
        kind = MarkerType(number)
    except (struct.error, ValueError, KeyError) as error:
        raise CorruptRecordsError(f"a marker cannot be read: {error!r}") from error
    if (key_version, value_version, version) != (_KAFKA_VERSION, _KAFKA_VERSION, _HEADER_VERSION):
        raise CorruptRecordsError(f"a marker of versions {key_version}, {value_version}, {version}: a newer one")
    prepare = Prepare(term, index)
    return Marker(header.producer_id, header.producer_epoch, kind, coordinator_epoch, first_offset, prepare)
