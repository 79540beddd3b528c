"""The level of the feature `transaction.version` (RFC 0021, section 1)."""

from typing import Protocol

from cluster.controller import Controller
from model.features import TRANSACTION_VERSION


class _HasController(Protocol):
    """A `cluster.node.Node`, which imports this package."""

    controller: Controller


def transactions_level(node: _HasController) -> int:
    """Return 0: transactional ids are refused; 1: clients add partitions; 2: brokers add them, too (KIP-890).

    It is 0 in a cluster that a version without transactions has founded, until an administrator raises it. It is what
    this broker has applied of raft0: others may be ahead (`kafka_api.transactions.certain_level`).
    """
    return node.controller.features.level(TRANSACTION_VERSION)
