"""What a connection has refused of idempotent producers for now: what they had sent behind it shares its fate.

A producer has several batches of a partition on their way. Where the first one meets a leader that is not in office yet
and the next one meets it in office, the next one does not follow what the log has. To answer
OUT_OF_ORDER_SEQUENCE_NUMBER would be true, and harmful: librdkafka takes it for a gap, goes on in a new epoch, and
sends again under new numbers what other partitions may have (RFC 0007).

The same holds for the first batch that a producer sends to a new leader. What comes before it may have been refused by
the old leader, over another connection. librdkafka has a thread for each broker, and the new leader's thread may send
on before the old leader's has put the refused batch back.
"""

from dataclasses import dataclass

from cluster.producer_batch import SEQUENCE_MASK, BatchSequence, distance
from cluster.topic_changes import TOPIC_NAME_MAX
from kafka_api.protocol.error_codes import ErrorCode

# The topic's name or id and the number of the partition.
PartitionName = tuple[str, str, int]

# What clients answer by sending the same batch again. An unknown topic is among it: the table of topics may learn of it
# between two batches that are on their way.
FOR_NOW = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
_IN_THE_LOG = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
# Clients have five batches of a partition on their way at most.
_BEHIND_MAX = 16
# Partitions and producers of one connection, some 500 bytes each; who was refused longest ago is forgotten first.
_REFUSED_MAX = 128
# Up to here a sequence number is ahead, beyond it is behind.
_HALF = SEQUENCE_MASK // 2


@dataclass(slots=True)
class _Refused:
    sequence: BatchSequence
    code: ErrorCode
    # First sequence numbers of those behind it that were told the same.
    told: tuple[int, ...] = ()

    def code_behind(self, batch: BatchSequence) -> ErrorCode:
        """Return what a batch that is out of order is answered with."""
        is_behind = _is_ahead(batch, self.sequence)
        if not is_behind or batch.first in self.told or len(self.told) >= _BEHIND_MAX:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        self.told += (batch.first,)
        return self.code


class RefusedBatches:
    """One connection's, in the order of its requests; a partition is named as its requests name it."""

    def __init__(self) -> None:
        self._refused: dict[tuple[PartitionName, int], _Refused] = {}

    def answered(
        self, partition: PartitionName, batch: BatchSequence, code: ErrorCode, *, is_new_here: bool = False
    ) -> ErrorCode:
        """Note what a batch is about to be answered with; return what to answer instead, which mostly is the same.

        Only OUT_OF_ORDER_SEQUENCE_NUMBER is ever replaced, and once per batch: a producer that never sends the earlier
        one again learns that it is missing. It is replaced by what an earlier batch of this producer was refused with.
        If there is none and `is_new_here`, which says that this leader has placed no batch of the producer yet, it is
        replaced by NOT_LEADER_OR_FOLLOWER.
        """
        if code in FOR_NOW:
            self._note(partition, batch, code)
        elif self._refused:
            key = (partition, batch.producer_id)
            refused = self._refused.get(key)
            if refused is not None and refused.sequence.epoch == batch.epoch:
                is_new_here = False
                if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                    return refused.code_behind(batch)
                if code in _IN_THE_LOG and not _is_ahead(refused.sequence, batch):
                    # So everything before it is there as well. The answer to one that was sent before may be late.
                    del self._refused[key]
        if is_new_here and code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            self._note(partition, batch, code)
        return code

    def _note(self, partition: PartitionName, batch: BatchSequence, code: ErrorCode) -> None:
        key = (partition, batch.producer_id)
        refused = self._refused.get(key)
        if refused is not None and refused.sequence.epoch == batch.epoch and _is_ahead(batch, refused.sequence):
            refused.told = ()
            return
        if len(partition[0]) > TOPIC_NAME_MAX:
            # It is never a topic's, and names of strangers may be of any length.
            return
        self._refused.pop(key, None)
        if len(self._refused) >= _REFUSED_MAX:
            del self._refused[next(iter(self._refused))]
        self._refused[key] = _Refused(batch, code)


def _is_ahead(batch: BatchSequence, other: BatchSequence) -> bool:
    """Whether `batch` has larger sequence numbers than `other`, across the wrap."""
    return 0 < distance(other.first, batch.first) <= _HALF
