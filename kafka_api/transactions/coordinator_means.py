"""What the transactional ids of one partition use of their broker."""

from collections.abc import Callable
from dataclasses import dataclass, field

from cluster.node import Node
from kafka_api.transactions.options import TransactionOptions
from kafka_api.transactions.transaction_counts import TransactionCounts
from runtime.gate import Gate


@dataclass(frozen=True, slots=True)
class CoordinatorMeans:
    """What a partition's ids use of their broker.

    Attributes:
        node: This broker.
        options: Those in force now.
        gate: Owns background tasks.
        counts: What the broker has done in all terms.
    """

    node: Node
    options: Callable[[], TransactionOptions]
    gate: Gate
    counts: TransactionCounts = field(default_factory=TransactionCounts)
