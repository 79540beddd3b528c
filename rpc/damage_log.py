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

    def damaged(self, node_id: NodeId, link: str, what: str, error: Exception) -> None:
        """Count it, and log it unless the last line of this peer is younger than a second.

        Args:
            node_id: The peer.
            link: Which of the two links: `link to` it, which this node dialled, or `link from` it.
            what: What is damaged: a frame, a request or a reply.
            error: Why it cannot be used.
        """
        self.counts[node_id] = self.counts.get(node_id, 0) + 1
        now = asyncio.get_running_loop().time()
        if now - self._logged_at.get(node_id, float("-inf")) >= _LOG_EVERY_SECONDS:
            self._logged_at[node_id] = now
            _logger.warning(
                "%s node %d: %s is damaged (number %d): %s", link, node_id, what, self.counts[node_id], reason_of(error)
            )
