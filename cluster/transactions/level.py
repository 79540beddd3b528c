"""The level of the feature `transaction.version` (RFC 0021, section 1)."""

from typing import Protocol

from cluster.controller import Controller
from model.features import TRANSACTION_VERSION


class _HasController(Protocol):
    """A `cluster.node.Node`, which imports this package."""

    controller: Controller


def transactions_level(node: _HasController) -> int:
    """Return 0: transactional ids are refused; 1: clients add partitions; 2: brokers add them, too (KIP-890).

    It is 0 in every cluster whose brokers were not started with `unstable.feature.versions.enable`, as long as this
    version does not offer the feature otherwise.
    """
    return node.controller.features.level(TRANSACTION_VERSION)
