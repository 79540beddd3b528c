"""Heartbeats that readers ask for: all groups that ask the same node share one message at a time.

    groups ask   g1 g2      g3 g4 g3        g1
                 |          |               |
    to node 2    -> g1 g2 ---> answer       -> g3 g4 g1 ---> answer
                            g3 g4 g1 wait for the answer; then one message carries them all

So the number of messages depends on the round-trip time, not on the number of partitions or of requests. A group that
waits is in no message yet, so nothing that is under way can confirm its readers: a round counts only answers to
requests that were sent after its readers came (linearizable_barrier).

A node that is slow to answer holds nobody up for long: after some milliseconds the next message goes all the same.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from model.ids import NodeId
from raft.consensus import Consensus

# How long a message that is not answered keeps others waiting: many round trips of a healthy network.
SHARE_SECONDS = 0.005


@dataclass(slots=True, eq=False)
class _Lane:
    """One node: the groups that wait for the next message to it, in order, and the messages under way."""

    waiting: dict[Consensus, None] = field(default_factory=dict)
    under_way: int = 0
    # Loop time until which what is under way keeps others waiting, and whether a look is due then.
    held_until: float = 0.0
    is_timed: bool = False


class AskedHeartbeats:
    """Who waits for which node; `send` takes a node and the groups of its next message, and reports each message."""

    def __init__(self, send: Callable[[NodeId, Collection[Consensus]], None]) -> None:
        self._send = send
        self._lanes: dict[NodeId, _Lane] = {}
        self._is_due = False

    def ask(self, consensus: Consensus, nodes: Collection[NodeId]) -> None:
        """Let a group take part in the next message to each of these nodes; it does so once, however often it asks."""
        for node_id in nodes:
            self._lanes.setdefault(node_id, _Lane()).waiting[consensus] = None
        self._look_soon()

    def forget(self, consensus: Consensus) -> None:
        """The group is gone from this node."""
        for lane in self._lanes.values():
            lane.waiting.pop(consensus, None)

    def on_sent(self, node_id: NodeId) -> None:
        """A message for those who asked is on its way; `on_ended` follows."""
        lane = self._lanes[node_id]
        lane.under_way += 1
        lane.held_until = asyncio.get_running_loop().time() + SHARE_SECONDS

    def on_ended(self, node_id: NodeId) -> None:
        """Such a message was answered, or never will be."""
        lane = self._lanes[node_id]
        # Counted down twice, a node would be sent a message for every asker again.
        assert lane.under_way > 0
        lane.under_way -= 1
        if lane.waiting:
            # Not at once: rounds that this answer has ended may have readers for the next ones.
            self._look_soon()

    def _look_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        """Send what waits for a node with nothing under way; all that was asked in one step of the loop goes along."""
        self._is_due = False
        loop = asyncio.get_running_loop()
        for node_id, lane in self._lanes.items():
            if not lane.waiting:
                continue
            if lane.under_way and loop.time() < lane.held_until:
                if not lane.is_timed:
                    lane.is_timed = True
                    loop.call_at(lane.held_until, self._look_at_held, lane)
                continue
            groups, lane.waiting = lane.waiting, {}
            self._send(node_id, groups)

    def _look_at_held(self, lane: _Lane) -> None:
        lane.is_timed = False
        self._look()
