"""Warnings that do not repeat with every retry."""

import logging

from rpc.errors import RefusalCode

_logger = logging.getLogger("rpc")

# Strangers choose the node ids they claim: what they can make us remember and print is bounded.
_MAX_REMEMBERED = 256


class RefusalLog:
    """Logs a refused handshake once per reason and peer, until a link with that peer works again."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, RefusalCode], None] = {}

    def refused(self, peer: str, refusal: RefusalCode, message: str) -> None:
        """Log it, unless it was said before."""
        key = (peer, refusal)
        if key in self._said or len(self._said) >= _MAX_REMEMBERED:
            return
        self._said[key] = None
        _logger.warning("handshake with %s refused: %s", peer, message)

    def works(self, peer: str) -> None:
        """Forget what was said of a peer: a link with it works."""
        for key in [key for key in self._said if key[0] == peer]:
            del self._said[key]
