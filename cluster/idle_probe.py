"""Asks over links that are silent, so that a broker that stands still is lost for all others too (RFC 0016 section 5).

A link finds out that its other end is gone only by requests that are not answered. A follower sends none to another
follower, for minutes.
"""

import asyncio

from cluster.visible_ends import VISIBLE_ENDS, VisibleEndsReply, VisibleEndsRequest
from model.ids import NodeId
from rpc.errors import RpcTimeoutError
from rpc.link import OutgoingLink
from rpc.links import Links

# A broker whose loop stands still for less is not lost. With an interval of 0.5 s a frozen one is lost within 2.85 s.
PROBE_SECONDS = 2.0
# It has no content and no effect; every version answers it, if only by an error.
_NOTHING = VisibleEndsRequest([])


class IdleProbe:
    """One per broker, from `start` to `stop`. At most one of its requests is on its way to each other broker."""

    def __init__(self, links: Links, interval: float) -> None:
        """Prepare; `interval` in seconds, above 0: no link sends more than one request in it."""
        assert interval > 0
        self._links = links
        self._interval = interval
        self._asked: set[NodeId] = set()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look at the links, once in each interval."""
        self._timer = asyncio.get_running_loop().call_later(self._interval, self._look)

    async def stop(self) -> None:
        """Ask nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._interval, self._look)
        # Half of it: the answer to the last request came a little after the last look, and this look must not wait for
        # the next one.
        since = loop.time() - self._interval / 2
        for link in self._links.outgoing():
            received = link.last_received
            # Where bytes wait to be sent, the link is slow or its other end takes nothing: the answers that are due
            # decide (`LinkOptions.silence_limit`), and a request would wait behind those bytes.
            if received is not None and received <= since and not link.unsent_bytes and link.node_id not in self._asked:
                self._ask(link, loop.time())

    def _ask(self, link: OutgoingLink, at: float) -> None:
        self._asked.add(link.node_id)
        asked = self._links.send(link.node_id, VISIBLE_ENDS, _NOTHING, timeout=PROBE_SECONDS)
        asked.add_done_callback(lambda answer: self._on_answer(link, at, answer))

    def _on_answer(self, link: OutgoingLink, at: float, answer: asyncio.Future[VisibleEndsReply]) -> None:
        self._asked.discard(link.node_id)
        # Any answer is a sign of life, a refusal too; so are bytes of answers to other requests.
        if not answer.cancelled() and isinstance(answer.exception(), RpcTimeoutError):
            link.abort_if_silent_since(at)
