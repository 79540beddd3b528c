"""Bugs in what a broker tells of others and of elections (RFC 0016)."""

import asyncio
import logging

import pytest

from cluster.events import EventKind
from cluster.leadership_events import LeadershipEvents
from cluster.node_watch import NodeWatch
from raft.consensus import Consensus
from rpc.identity import Peer
from rpc.links import Links


def losses_of_both_directions_are_told(patch: pytest.MonkeyPatch) -> None:
    """A broker tells of another one as lost when either link between them is lost, its own or the other's."""

    def link_is_lost(links: Links, peer: Peer, role: object) -> None:
        for listener in links._reset_listeners:
            listener(peer.replica.node_id)
        for lost_listener in links._lost_listeners:
            lost_listener(peer)

    def on_lost(watch: NodeWatch, peer: Peer) -> None:
        node = watch._nodes.get(peer.replica.node_id)
        if node is not None:
            node.is_up = node.is_said_up = False
            node.lost_at = asyncio.get_running_loop().time()
            watch._say(logging.WARNING, EventKind.NODE_LOST, f"node {peer.replica.node_id} lost")

    patch.setattr(Links, "_link_is_lost", link_is_lost)
    patch.setattr(NodeWatch, "_on_lost", on_lost)


def elections_are_told_before_office(patch: pytest.MonkeyPatch) -> None:
    """The event of an election is written when it is won: its term may be lost without an office."""

    def on_leadership(events: LeadershipEvents, consensus: Consensus) -> None:
        if consensus.state.is_leader and events._told.get(consensus) != consensus.term:
            events._told[consensus] = consensus.term
            _tell(events, consensus)

    patch.setattr(LeadershipEvents, "_on_leadership", on_leadership)


def offices_are_told_by_whoever_hears_of_them(patch: pytest.MonkeyPatch) -> None:
    """The event of an election is written by each replica that learns of it, not by the one that has won."""
    on_own = LeadershipEvents._on_leadership

    def on_leadership(events: LeadershipEvents, consensus: Consensus) -> None:
        on_own(events, consensus)
        if consensus.leader_id is not None and events._told.get(consensus) != consensus.term:
            events._told[consensus] = consensus.term
            _tell(events, consensus)

    patch.setattr(LeadershipEvents, "_on_leadership", on_leadership)


def _tell(events: LeadershipEvents, consensus: Consensus) -> None:
    text = f"node {events._events.node_id} leads"
    events._events.record(logging.INFO, EventKind.LEADER, text, partition=consensus.name, term=consensus.term)
