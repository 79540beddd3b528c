"""What the members of a group tell each other of log compaction, so that nobody misses a tombstone that was removed.

    leader of some groups      D of each      ->   the broker of a follower
                           <-  C of each           (the clean index of its replica)

One message per pair of brokers, for all groups that the one leads and the other follows (RFC 0022, section 4). The
node asks from time to time. The rules, and why they are enough, are in `rules/clean_indexes`.
"""

import asyncio
from collections.abc import Iterable

from model.ids import Index, NodeId
from raft.client import RaftClient
from raft.consensus import Consensus
from raft.messages import CompactionBound, CompactionBoundsReply, CompactionBoundsRequest

# As of heartbeats: what one message says of more groups would not fit into a frame's header.
_BOUNDS_MAX = 10_000


def ask_for_clean_indexes(client: RaftClient, led: Iterable[Consensus]) -> None:
    """Ask the followers of groups that are led here how far they are clean, and tell them the bound of deletes."""
    by_node: dict[NodeId, list[tuple[Consensus, CompactionBound]]] = {}
    for consensus in led:
        if not consensus.state.is_leader:
            continue
        bound = CompactionBound(consensus.link_name, consensus.term, consensus.raise_deletes_bound())
        for node_id in consensus.state.followers:
            replica = consensus.configuration.replica_on(node_id)
            is_there = client.is_up(node_id) and client.replica_of(node_id) == replica
            if is_there and consensus.state.clean_indexes.ask(node_id):
                by_node.setdefault(node_id, []).append((consensus, bound))
    for node_id, asked in by_node.items():
        for first in range(0, len(asked), _BOUNDS_MAX):
            _send(client, node_id, asked[first : first + _BOUNDS_MAX])


def _send(client: RaftClient, node_id: NodeId, asked: list[tuple[Consensus, CompactionBound]]) -> None:
    # A later leadership has others: an answer of this one says nothing to it.
    known = [consensus.state.clean_indexes for consensus, _ in asked]

    def on_done(future: asyncio.Future[CompactionBoundsReply]) -> None:
        clean = [] if future.cancelled() or future.exception() is not None else future.result().clean
        if len(clean) != len(asked):
            clean = [None] * len(asked)
        for indexes, index in zip(known, clean, strict=True):
            indexes.answered(node_id, None if index is None else Index(index))

    request = CompactionBoundsRequest([bound for _, bound in asked])
    client.compaction_bounds(node_id, request).add_done_callback(on_done)


def answer(consensus: Consensus | None, leader: NodeId, bound: CompactionBound) -> int | None:
    """Follower: take the bound of deletes, and return the clean index; None if `leader` does not lead here."""
    if consensus is None:
        return None
    state = consensus.state
    if state.term != bound.term or state.leader_id != leader:
        return None
    consensus.note_deletes_bound(Index(bound.deletes_to))
    return consensus.clean_index
