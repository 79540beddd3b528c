"""What happened at this broker that an operator wants to know: one call writes the log line and keeps the event.

A ring of EVENTS_MAX in memory, numbered from 1; a restart begins anew. `boot` tells one life of a broker from the next
(RFC 0016).
"""

import logging
from collections import deque
from dataclasses import dataclass
from enum import Enum
from itertools import islice

from model.ids import NodeId
from model.replica_tag import TAG, ReplicaTag
from runtime.clock import WallClock

EVENTS_MAX = 2_000
TEXT_CHARACTERS_MAX = 300
_logger = logging.getLogger("cluster")


class EventKind(Enum):
    """What an event is about; the value is what HTTP says."""

    NODE_CONNECTED = "node_connected"
    NODE_LOST = "node_lost"
    NODE_BACK = "node_back"
    NODE_STOPS = "node_stops"
    NODE_FLAPS = "node_flaps"
    LEADER = "leader"
    MOVE_BEGUN = "move_begun"
    MOVE_CANCELLED = "move_cancelled"
    MOVE_FINISHED = "move_finished"
    BROKER_JOINED = "broker_joined"
    BROKER_STATE = "broker_state"
    BROKER_RETIRED = "broker_retired"
    BROKER_REMOVED = "broker_removed"
    FEATURE_RAISED = "feature_raised"
    FEATURE_LOWERED = "feature_lowered"
    RAFT0_VOTERS = "raft0_voters"


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Attributes:
        seq: 1, 2, 3 ... within a life of the broker.
        at_ms: Wall clock, milliseconds since 1970.
        kind: What it is about.
        level: As in the log: INFO, WARNING or ERROR.
        text: The log line, at most TEXT_CHARACTERS_MAX characters.
        partition: `topic-number` or `raft0`; empty where it is about none.
        term: Of the partition's leader; 0 where it is about none.
    """

    seq: int
    at_ms: int
    kind: EventKind
    level: int
    text: str
    partition: str = ""
    term: int = 0


class Events:
    """The newest events of one broker.

    Attributes:
        node_id: The broker.
        boot: When this life of the broker began, wall clock in milliseconds.
    """

    def __init__(self, node_id: NodeId, clock: WallClock) -> None:
        self.node_id = node_id
        self._clock = clock
        self.boot = clock.now_ms()
        self._ring: deque[Event] = deque(maxlen=EVENTS_MAX)
        self._next_seq = 1

    @property
    def next_seq(self) -> int:
        """The number of the next event."""
        return self._next_seq

    def record(self, level: int, kind: EventKind, text: str, *, partition: str = "", term: int = 0) -> None:
        """Write the log line and keep the event, in the place of the oldest one if there are EVENTS_MAX."""
        if partition:
            tag = ReplicaTag(partition, self.node_id, term)
            _logger.log(level, "%s", tag.on(text), extra={TAG: tag})
        else:
            _logger.log(level, "%s", text)
        self._ring.append(
            Event(self._next_seq, self._clock.now_ms(), kind, level, text[:TEXT_CHARACTERS_MAX], partition, term)
        )
        self._next_seq += 1
        # A reader finds the events of a range by their place.
        assert self._ring[0].seq + len(self._ring) == self._next_seq

    def since(self, seq: int) -> list[Event]:
        """Return the events numbered `seq` or above that are still kept, the oldest first."""
        if not self._ring:
            return []
        return list(islice(self._ring, max(seq - self._ring[0].seq, 0), None))

    def lost(self) -> tuple[int, float | None]:
        """Return how many events had no more room, and the age of the oldest one kept in seconds; None: there is none.

        The age is by the wall clock, and never below 0.
        """
        if not self._ring:
            return 0, None
        return self._ring[0].seq - 1, max(self._clock.now_ms() - self._ring[0].at_ms, 0) / 1000
