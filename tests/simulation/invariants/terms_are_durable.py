"""RFC 0003 section 8: a replica does nothing in a term that a restart could forget."""

from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from model.ids import GroupId, Replica
from raft.effects import Effect
from raft.vote_store import PersistedVote, vote_key
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView

_ACTS = ("on_matched", "on_leader_progress", "on_truncating", "on_installing", "become_leader")


class TermsAreDurable(Invariant):
    """A replica matches, commits, shows, truncates and leads only in a term that is durable, and never comes back in an older one."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        # By group and replica: the newest term in which the replica has done anything.
        self._acted: defaultdict[tuple[GroupId, Replica], int] = defaultdict(int)
        self._removed: set[GroupId] = set()

    def on_removed(self, node_id: int, group: GroupId, *, is_in_table: bool) -> None:
        # Its term goes with it.
        self._removed.add(group)

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        acted = self._acted[view.group, view.replica]
        if view.now.term < acted:
            self.violated(view, f"it has acted in term {acted} before its restart")
        for name in _ACTS:
            setattr(view.consensus.state, name, self._watched(view, getattr(view.consensus.state, name)))

    def _watched(self, view: ReplicaView, act: Callable[..., Effect | None]) -> Callable[..., Effect | None]:
        state = view.consensus.state

        def watched(*arguments: Any, **named: Any) -> Effect | None:
            self._acted[view.group, view.replica] = state.term
            if view.group not in self._removed and self._durable_term(view) < state.term:
                self.violated(view, f"it acts in term {state.term}, durable is {self._durable_term(view)}")
            return act(*arguments, **named)

        return watched

    @staticmethod
    def _durable_term(view: ReplicaView) -> int:
        stored = view.consensus._context.kvstore._durable.get(vote_key(view.group))
        return 0 if stored is None else _term_of(stored)


@lru_cache(maxsize=1024)
def _term_of(stored: bytes) -> int:
    return msgspec.msgpack.decode(stored, type=PersistedVote).term
