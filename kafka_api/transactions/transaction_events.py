"""What goes into the machine of a transactional id, and what comes out of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from cluster.transactions.records import NO_EPOCH, NO_PRODUCER_ID, StoredTransaction, TopicPartition
from kafka_api.protocol.error_codes import ErrorCode
from model.control_batch import MarkerType, Prepare


class Identity(NamedTuple):
    """A producer as it names itself: its id and its epoch."""

    producer_id: int
    epoch: int


NO_IDENTITY = Identity(NO_PRODUCER_ID, NO_EPOCH)


class Answer(NamedTuple):
    """The answer to a request: an error or NONE, and who the producer is from now on, if the request asks for that."""

    error: ErrorCode
    identity: Identity = NO_IDENTITY


class Verified(NamedTuple):
    """Of each partition that was asked about: NONE, or TRANSACTION_ABORTABLE if it is not in the transaction."""

    errors: Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class Write:
    """A record is to be written; nothing else is written of this id until its outcome is known.

    Attributes:
        record: The new state; None deletes the id.
        answer: What the request is answered with once the record is committed; None: nobody asked.
    """

    record: StoredTransaction | None
    answer: Answer | None


class Later(Enum):
    """The request cannot be judged now; the same one is put again.

    Attributes:
        WAIT: A change of this id is under way. After 100 ms the request is answered with CONCURRENT_TRANSACTIONS.
        NEEDS_PRODUCER_ID: With a producer id that nobody has had, as `fresh_id`.
    """

    WAIT = 1
    NEEDS_PRODUCER_ID = 2


Outcome = Answer | Write | Later


class Markers(NamedTuple):
    """The markers that a decided transaction lacks.

    Attributes:
        identity: The producer's; batches of an earlier epoch are refused behind the marker.
        type: As it was decided.
        prepare: The place of the decision.
        partitions: Those in which no marker is known to be, in order.
    """

    identity: Identity
    type: MarkerType
    prepare: Prepare
    partitions: tuple[TopicPartition, ...]
