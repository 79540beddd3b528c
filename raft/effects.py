"""What follows from a change of a replica's state, as values.

A transition of `ReplicaState` changes the state and returns its effect. It calls nobody. Whoever made the transition
gives the effect to `Consensus.settle` in the same step, before any await, so no other fiber sees the state without it.
A test refuses a transition whose result is dropped (tests/tidy/test_effects.py).
"""

from dataclasses import dataclass

from model.ids import Index, NodeId


@dataclass(frozen=True, slots=True)
class Moved:
    """Commit or visible has moved, on a leader or a follower; these are the new positions."""

    commit: Index
    visible: Index


@dataclass(frozen=True, slots=True)
class Progressed:
    """Leader: the copies were counted anew, and neither commit nor visible moved. Answers may be due all the same."""


@dataclass(frozen=True, slots=True)
class Elected:
    """The replica leads its term. The next entry that it appends is the barrier."""


@dataclass(frozen=True, slots=True)
class LeadershipLost:
    """The replica led until now; everything that waits for this leadership ends with `reason`."""

    reason: str


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """Another replica, or nobody that is known, leads the term. This replica did not lead."""


@dataclass(frozen=True, slots=True)
class Answered:
    """Leader: a follower has answered a request of this term, with success or not."""


@dataclass(frozen=True, slots=True)
class RecoveryWanted:
    """Leader: this follower lacks entries that only a recovery brings, and none is under way."""

    node_id: NodeId


Effect = Moved | Progressed | Elected | LeadershipLost | LeaderChanged | Answered | RecoveryWanted

# These say nothing but that they happened: one of each is enough.
PROGRESSED = Progressed()
ANSWERED = Answered()
LEADER_CHANGED = LeaderChanged()
