"""Why a batch of an idempotent producer is not appended. Kafka's names; RFC 0007 says when which.

Each refuses one batch before it has a place in the log. The producer state is the only one to raise them.
"""

from raft.errors import RetryableError


class ProducerRefusedError(RetryableError):
    """Base: nothing was written, and the client's own bookkeeping decides what it does next."""


class OutOfOrderSequenceError(ProducerRefusedError):
    """The batch does not follow the producer's last one: one before it is missing, or will come again.

    Attributes:
        placed_term: The term in which the producer's last batch here was placed; 0: none is known.
    """

    def __init__(self, message: str, placed_term: int = 0) -> None:
        super().__init__(message)
        self.placed_term = placed_term


class DuplicateSequenceError(ProducerRefusedError):
    """The batch is committed, but too long ago to know its offset. Clients take this for success."""


class InvalidProducerEpochError(ProducerRefusedError):
    """The producer has written with a newer epoch."""


class TransactionStateError(ProducerRefusedError):
    """The batch does not fit what its producer has open here, or too many transactions are open."""


class NotAdmittedError(ProducerRefusedError):
    """The batch would open a transaction, and nothing holds that the coordinator has said since it was asked.

    Ask the coordinator, and offer the batch again with a new guard.
    """


class MarkerRefusedError(ProducerRefusedError):
    """The marker does not end what is open: a batch got its place while it was made. Make it anew."""
