"""Events about what all brokers share: the level of a feature changes, raft0 gets other voters (RFC 0016).

Every broker records what its tables say. What it applies while it starts is old, and no event.
"""

import logging
from collections.abc import Callable

from cluster.events import EventKind, Events
from cluster.feature_table import FeatureTable
from cluster.placement import Replicas
from cluster.raft0_table import Raft0Table
from model.ids import RAFT0


class ControllerEvents:
    """Compares the tables with what they were.

    Args:
        features: The levels in force.
        raft0: raft0's voters.
        events: Of this node.
        is_current: Whether the tables are as new as the registration of this process.
    """

    def __init__(
        self, features: FeatureTable, raft0: Raft0Table, events: Events, is_current: Callable[[], bool]
    ) -> None:
        self._features = features
        self._raft0 = raft0
        self._events = events
        self._is_current = is_current
        self._levels = features.all()
        self._voters, self._target = raft0.voters, self._wanted()
        features.add_listener(self._look_at_features)
        raft0.add_listener(self._look_at_raft0)

    def _look_at_features(self) -> None:
        before, self._levels = self._levels, self._features.all()
        if not self._is_current():
            return
        for name, level in self._levels.items():
            former = before.get(name, 0)
            if level != former:
                text = f"{name} is used at level {level}, and was at level {former}"
                kind = EventKind.FEATURE_RAISED if level > former else EventKind.FEATURE_LOWERED
                self._events.record(logging.INFO, kind, text)

    def _wanted(self) -> Replicas:
        return self._raft0.voters if self._raft0.move is None else self._raft0.move.target

    def _look_at_raft0(self) -> None:
        voters, target = self._voters, self._target
        self._voters, self._target = self._raft0.voters, self._wanted()
        if not self._is_current():
            return
        if self._voters != voters:
            self._tell(f"has the voters {_nodes(self._voters)}, and had {_nodes(voters)}")
        elif self._target != target:
            self._tell(f"is to get the voters {_nodes(self._target)}, and has {_nodes(self._voters)}")

    def _tell(self, text: str) -> None:
        self._events.record(logging.INFO, EventKind.RAFT0_VOTERS, text, partition=RAFT0)


def _nodes(replicas: Replicas) -> str:
    return ",".join(str(replica.node_id) for replica in replicas)
