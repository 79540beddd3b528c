"""What arrived otherwise than it was sent, by peer: counted, and logged without a flood."""

import asyncio
import logging

from model.error_text import reason_of
from model.ids import NodeId

_logger = logging.getLogger("rpc")

_LOG_EVERY_SECONDS = 1.0


class DamageLog:
    """Only peers that have proved who they are can make it speak.

    Attributes:
        counts: Damaged frames and damaged requests from each peer.
    """

    def __init__(self) -> None:
        self.counts: dict[NodeId, int] = {}
        self._logged_at: dict[NodeId, float] = {}

    def damaged(self, node_id: NodeId, what: str, error: Exception) -> None:
        """Count it, and log it unless the last line of this peer is younger than a second."""
        self.counts[node_id] = self.counts.get(node_id, 0) + 1
        now = asyncio.get_running_loop().time()
        if now - self._logged_at.get(node_id, float("-inf")) >= _LOG_EVERY_SECONDS:
            self._logged_at[node_id] = now
            _logger.warning(
                "%s node %d is damaged (number %d): %s", what, node_id, self.counts[node_id], reason_of(error)
            )
