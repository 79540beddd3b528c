"""Why a batch of an idempotent producer is not appended. Kafka's names; RFC 0007 says when which.

Each refuses one batch before it has a place in the log. The producer state is the only one to raise them.
"""

from raft.errors import RetryableError


class ProducerRefusedError(RetryableError):
    """Base: nothing was written, and the client's own bookkeeping decides what it does next."""


class OutOfOrderSequenceError(ProducerRefusedError):
    """The batch does not follow the producer's last one: one before it is missing, or will come again."""


class DuplicateSequenceError(ProducerRefusedError):
    """The batch is committed, but too long ago to know its offset. Clients take this for success."""


class InvalidProducerEpochError(ProducerRefusedError):
    """The producer has written with a newer epoch."""
