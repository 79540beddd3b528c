"""One heartbeat message per peer node for all groups, every heartbeat interval.

With one message per group, a node with a thousand groups would send two thousand messages each 150 ms; with one per
node pair the number depends on the nodes only. A group at rest takes part in every third (group_heartbeats).

    groups led here      node 2          node 3
      g1  t3          [g1 g2]   --->    [g1 g3]     one HeartbeatRequest each
      g2  t1
      g3  t8
"""

import asyncio
from collections.abc import Collection, Iterable
from itertools import compress

from model.ids import NodeId, Term
from raft.asked_heartbeats import AskedHeartbeats
from raft.client import RaftClient
from raft.consensus import Consensus
from raft.disk_reserve import DiskReserve
from raft.messages import Heartbeat, HeartbeatReply, HeartbeatRequest
from raft.options import RaftOptions
from runtime.gate import Gate

# Unanswered heartbeats to one node after which no more are sent until one ends: a stalled peer costs no memory.
_UNANSWERED_MAX = 20
# What one message says of more groups would not fit into a frame's header: 90 bytes of each at most, of 4 MiB.
_BEATS_MAX = 10_000


class HeartbeatManager:
    """Sends the heartbeats of all groups this node leads, and checks their quorums on the same tick."""

    def __init__(self, client: RaftClient, options: RaftOptions, gate: Gate, disk: DiskReserve) -> None:
        self._client = client
        self._options = options
        self._gate = gate
        self._disk = disk
        self._led: dict[Consensus, None] = {}
        self._unanswered: dict[NodeId, int] = {}
        self._asked = AskedHeartbeats(self._beat_asked)

    def start(self) -> None:
        """Begin to tick."""
        self._gate.spawn(self._run(), name="heartbeats")

    def on_leadership(self, consensus: Consensus) -> None:
        """Note whether this node leads the group."""
        if consensus.state.is_leader:
            self._led[consensus] = None
        else:
            self._led.pop(consensus, None)

    def forget(self, consensus: Consensus) -> None:
        """The group is gone from this node."""
        self._led.pop(consensus, None)
        self._asked.forget(consensus)

    def beat_soon(self, consensus: Consensus, asked: Collection[NodeId]) -> None:
        """Send some followers of one group a heartbeat before the next tick.

        All groups that ask a node in one step of the loop, or while it has not answered the last who asked, share a
        message.
        """
        self._asked.ask(consensus, asked)

    def _beat_asked(self, node_id: NodeId, groups: Collection[Consensus]) -> None:
        self._dispatch(((consensus, (node_id,)) for consensus in groups), are_asked=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        interval = self._options.heartbeat_interval
        next_tick = loop.time()
        while True:
            # A late tick is followed by the next one at once: groups at rest count them.
            next_tick = max(next_tick + interval, loop.time())
            await asyncio.sleep(next_tick - loop.time())
            led = [consensus for consensus in self._led if consensus.heartbeats.is_due()]
            for consensus in led:
                consensus.watch.check()
            self._dispatch((consensus, consensus.state.followers) for consensus in led)

    def _dispatch(self, wanted: Iterable[tuple[Consensus, Collection[NodeId]]], *, are_asked: bool = False) -> None:
        by_node: dict[NodeId, tuple[list[Consensus], list[Heartbeat]]] = {}
        for consensus, nodes in wanted:
            # In this order whoever asks; and one that was asked may be none any more.
            for node_id in consensus.state.followers:
                beat = consensus.heartbeats.beat_for(node_id) if node_id in nodes else None
                if beat is None:
                    continue
                groups, beats = by_node.setdefault(node_id, ([], []))
                groups.append(consensus)
                beats.append(beat)
        for node_id, (groups, beats) in by_node.items():
            if self._client.is_up(node_id) and self._unanswered.get(node_id, 0) < _UNANSWERED_MAX:
                groups, beats = self._of_replica(node_id, groups, beats)
                for first in range(0, len(beats), _BEATS_MAX):
                    last = first + _BEATS_MAX
                    self._send(node_id, groups[first:last], beats[first:last], are_asked=are_asked)

    def _of_replica(
        self, node_id: NodeId, groups: list[Consensus], beats: list[Heartbeat]
    ) -> tuple[list[Consensus], list[Heartbeat]]:
        """Leave out the groups that know the node by another directory: its answers would count for that one.

        L9 of RFC 0020: an answer counts only from the directory that the configuration names.
        """
        replica = self._client.replica_of(node_id)
        meant = [consensus.state.configuration.replica_on(node_id) == replica for consensus in groups]
        if all(meant):
            return groups, beats
        return list(compress(groups, meant)), list(compress(beats, meant))

    def _send(self, node_id: NodeId, groups: list[Consensus], beats: list[Heartbeat], *, are_asked: bool) -> None:
        self._unanswered[node_id] = self._unanswered.get(node_id, 0) + 1
        if are_asked:
            self._asked.on_sent(node_id)
        asked = [consensus.heartbeats.on_sent(node_id) for consensus in groups]

        def on_done(future: asyncio.Future[HeartbeatReply]) -> None:
            # Counted down twice, a stalled peer would get more than its bound of messages.
            assert self._unanswered[node_id] > 0
            self._unanswered[node_id] -= 1
            if are_asked:
                self._asked.on_ended(node_id)
            if future.cancelled() or future.exception() is not None:
                return
            self._disk.update_spare(node_id, future.result().spare_bytes)
            replies = future.result().replies
            if len(replies) != len(beats):
                return
            for consensus, beat, (follower, number), reply in zip(groups, beats, asked, replies, strict=True):
                consensus.heartbeats.on_reply(follower, Term(beat.term), number, reply)

        self._client.heartbeat(node_id, HeartbeatRequest(beats)).add_done_callback(on_done)
