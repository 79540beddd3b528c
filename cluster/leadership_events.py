"""Tells when a replica here begins to lead in office: once for each term that it has won (RFC 0016)."""

import logging
from weakref import WeakKeyDictionary

from cluster.events import EventKind, Events
from cluster.topic_table import TopicTable
from model.ids import RAFT0, GroupId, Term, topic_of
from raft.consensus import Consensus
from raft.group_manager import GroupManager


class LeadershipEvents:
    """Listens to every group of this broker."""

    def __init__(self, groups: GroupManager, events: Events, topics: TopicTable) -> None:
        self._events = events
        self._topics = topics
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
        name = self._name_of(consensus.group)
        self._events.record(
            logging.INFO, EventKind.LEADER, f"node {self._events.node_id} leads", partition=name, term=term
        )

    def _name_of(self, group: GroupId) -> str:
        if group == RAFT0:
            return "raft0"
        topic = self._topics.get_by_id(topic_of(group))
        number = group.rpartition("/")[2]
        return f"{topic.name}-{number}" if topic is not None else str(group)
