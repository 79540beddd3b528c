"""Tells which other brokers are lost and back, by this broker's outgoing links alone (RFC 0016).

A broker that says farewell stops on purpose. Losses that follow one another fast are counted, with one line a minute.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from cluster.events import EventKind, Events
from model.counted import counted
from model.ids import NodeId
from rpc.identity import Peer
from rpc.links import Links
from rpc.methods import Method

_FLAP_SECONDS = 10.0
_FLAPS_SECONDS = 60.0
_FAREWELL_SECONDS = 1.0


class Farewell(msgspec.Struct, frozen=True, array_like=True):
    """The sender hands over what it leads, and stops."""


class FarewellAck(msgspec.Struct, frozen=True, array_like=True):
    """Taken."""


FAREWELL = Method(27, "farewell", Farewell, FarewellAck)


@dataclass(slots=True)
class _Watched:
    """One other broker. What is said of it alternates: lost, back, lost, back."""

    is_up: bool = True
    is_said_up: bool = True
    is_stopping: bool = False
    # The link that was lost was made before the cluster was founded, and is made again by that.
    is_founding: bool = False
    lost_at: float = 0.0
    back_said_at: float = float("-inf")
    flaps: int = 0
    pending_loss: asyncio.TimerHandle | None = None
    pending_flaps: asyncio.TimerHandle | None = None

    def timers(self) -> list[asyncio.TimerHandle]:
        return [timer for timer in (self.pending_loss, self.pending_flaps) if timer is not None]


class NodeWatch:
    """One per broker, from `start` to `stop`."""

    def __init__(self, links: Links, events: Events) -> None:
        self._links = links
        self._events = events
        self._nodes: dict[NodeId, _Watched] = {}
        self._is_stopped = False

    def start(self) -> None:
        """Listen to the links, and answer farewells."""
        self._links.register(FAREWELL, self._on_farewell)
        self._links.add_up_listener(self._on_up)
        self._links.add_lost_listener(self._on_lost)

    async def stop(self) -> None:
        """Say nothing any more."""
        self._is_stopped = True
        for node in self._nodes.values():
            for timer in node.timers():
                timer.cancel()

    def say_farewell(self) -> None:
        """Tell the other brokers that this one stops on purpose; nobody waits for their answers."""
        for node_id, node in self._nodes.items():
            if node.is_up:
                done = self._links.send(node_id, FAREWELL, Farewell(), timeout=_FAREWELL_SECONDS)
                done.add_done_callback(lambda future: future.cancelled() or future.exception())

    def _on_farewell(self, peer: Peer, request: Farewell, payload: memoryview) -> FarewellAck:
        node = self._nodes.get(peer.replica.node_id)
        if node is not None and node.is_up:
            node.is_stopping = True
        return FarewellAck()

    def _on_up(self, node_id: NodeId) -> None:
        node = self._nodes.get(node_id)
        if node is None:
            self._nodes[node_id] = _Watched()
            self._say(logging.INFO, EventKind.NODE_CONNECTED, f"node {node_id} is connected")
            return
        if node.is_up:
            # Its address has changed: the link was made anew, which is no loss.
            return
        node.is_up, node.is_stopping = True, False
        if node.pending_loss is not None:
            node.pending_loss.cancel()
            node.pending_loss = None
        if node.is_said_up:
            if not node.is_founding:
                self._count_flap(node_id, node)
            return
        now = self._now()
        node.is_said_up, node.back_said_at = True, now
        self._say(logging.WARNING, EventKind.NODE_BACK, f"node {node_id} back after {now - node.lost_at:.1f} s")

    def _on_lost(self, peer: Peer) -> None:
        node_id = peer.replica.node_id
        node = self._nodes[node_id]
        # A link is lost once for each time that it was up.
        assert node.is_up
        assert node.is_said_up
        node.is_up, node.lost_at, node.is_founding = False, self._now(), not peer.is_founded
        is_soon = node.lost_at - node.back_said_at < _FLAP_SECONDS
        if (is_soon or node.is_founding) and not node.is_stopping:
            # Told if it lasts. If not, it is counted.
            node.pending_loss = self._later(_FLAP_SECONDS, lambda: self._say_lost(node_id, node))
        else:
            self._say_lost(node_id, node)

    def _say_lost(self, node_id: NodeId, node: _Watched) -> None:
        # Lost and back alternate.
        assert node.is_said_up
        assert not node.is_up
        node.pending_loss, node.is_said_up = None, False
        if node.is_stopping:
            self._say(logging.INFO, EventKind.NODE_STOPS, f"node {node_id} stops")
        else:
            self._say(logging.WARNING, EventKind.NODE_LOST, f"node {node_id} lost")

    def _count_flap(self, node_id: NodeId, node: _Watched) -> None:
        node.flaps += 1
        node.back_said_at = self._now()
        if node.pending_flaps is None:
            node.pending_flaps = self._later(_FLAPS_SECONDS, lambda: self._say_flaps(node_id, node))

    def _say_flaps(self, node_id: NodeId, node: _Watched) -> None:
        count, node.flaps, node.pending_flaps = node.flaps, 0, None
        text = f"node {node_id} lost and back {counted(count, 'time')} within {_FLAPS_SECONDS:.0f} s"
        self._say(logging.WARNING, EventKind.NODE_FLAPS, text)

    def _say(self, level: int, kind: EventKind, text: str) -> None:
        if not self._is_stopped:
            self._events.record(level, kind, text)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    @staticmethod
    def _later(seconds: float, step: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, step)
