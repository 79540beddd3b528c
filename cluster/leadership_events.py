"""Tells when a replica here begins to lead in office: once for each term that it has won (RFC 0016)."""

import logging
from weakref import WeakKeyDictionary

from cluster.events import EventKind, Events
from model.ids import Term
from raft.consensus import Consensus
from raft.group_manager import GroupManager


class LeadershipEvents:
    """Listens to every group of this broker."""

    def __init__(self, groups: GroupManager, events: Events) -> None:
        self._events = events
        # The term in which each replica led last; a replica that is gone takes its term with it.
        self._told: WeakKeyDictionary[Consensus, Term] = WeakKeyDictionary()
        groups.add_leadership_listener(self._on_leadership)

    def _on_leadership(self, consensus: Consensus) -> None:
        # Elected and not in office yet: it may lose its term without having served anybody.
        if not consensus.is_in_office:
            return
        term, told = consensus.term, self._told.get(consensus, Term(0))
        if term == told:
            return
        assert term > told
        self._told[consensus] = term
        text = f"node {self._events.node_id} leads"
        self._events.record(logging.INFO, EventKind.LEADER, text, partition=consensus.name, term=term)
