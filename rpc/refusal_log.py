"""Refused handshakes: warnings that do not repeat with every retry, and the newest refusal of each peer."""

import asyncio
import logging

from model.ids import NodeId
from rpc.errors import HandshakeRefusedError, RefusalCode

_logger = logging.getLogger("rpc")

# Strangers choose the node ids they claim: what they can make us remember and print is bounded.
_MAX_REMEMBERED = 256


class RefusalLog:
    """Logs a refused handshake once per reason and peer, until a link with that peer works again.

    Attributes:
        peers: Whose newest refusals are remembered: the nodes that are dialled.
        newest: The newest refusal between this node and a peer, since a link between them last worked. Which node an
            inbound handshake was for, only its dialer says: it has not proved it.
        times: When each of these came; loop time.
    """

    def __init__(self) -> None:
        self._said: dict[tuple[str, RefusalCode], None] = {}
        self.peers: frozenset[NodeId] = frozenset()
        self.newest: dict[NodeId, HandshakeRefusedError] = {}
        self.times: dict[NodeId, float] = {}

    def refused(self, peer: str, node_id: NodeId | None, error: HandshakeRefusedError) -> None:
        """Log it, unless it was said before; remember it as the newest of `node_id`."""
        if node_id is not None and node_id in self.peers:
            self.newest[node_id] = error
            self.times[node_id] = asyncio.get_running_loop().time()
        key = (peer, error.refusal)
        if key in self._said or len(self._said) >= _MAX_REMEMBERED:
            return
        self._said[key] = None
        _logger.warning("handshake with %s refused: %s", peer, error.message)

    def works(self, peer: str, node_id: NodeId) -> None:
        """Forget what was said of a peer: a link with it works."""
        self.newest.pop(node_id, None)
        self.times.pop(node_id, None)
        for key in [key for key in self._said if key[0] == peer]:
            del self._said[key]
