"""Raft thesis 4.2.1, RFC 0019 section 3: a learner votes once it holds what is committed, or almost."""

from collections import deque
from collections.abc import Awaitable, Callable

from model.ids import GroupId, Replica
from raft.group_configuration import GroupConfiguration
from raft.replica_state import Role
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView, Standing


class LearnersAreCaughtUp(Invariant):
    """A leader lets learners vote that have fsynced what was committed an election timeout ago."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._views: dict[tuple[GroupId, Replica], ReplicaView] = {}
        # Of each leader in office: when it had committed how much, by its clock.
        self._commits: dict[tuple[GroupId, Replica], deque[tuple[float, int]]] = {}
        # Groups of topics that are deleted: nobody looks at what their replicas hold any more (seed 100013).
        self._removed: set[GroupId] = set()

    def on_removed(self, node_id: int, group: GroupId, *, is_in_table: bool) -> None:
        self._removed.add(group)

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        self._views[view.group, view.replica] = view
        self._commits[view.group, view.replica] = deque()
        reconfiguration = view.consensus.reconfiguration
        reconfiguration._append = self._watched(view, reconfiguration._append)  # type: ignore[method-assign]

    def on_look(self, now: float, view: ReplicaView) -> None:
        commits = self._commits[view.group, view.replica]
        if view.now.role is not Role.LEADER:
            commits.clear()
            return
        commits.append((now, view.now.commit))
        oldest = now - view.consensus._context.options.election_timeout
        while len(commits) > 1 and commits[1][0] <= oldest:
            commits.popleft()

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        if view.now.role is not Role.LEADER:
            self._commits[view.group, view.replica].clear()

    def _watched(
        self, view: ReplicaView, append: Callable[[GroupConfiguration], Awaitable[None]]
    ) -> Callable[[GroupConfiguration], Awaitable[None]]:
        async def appended(configuration: GroupConfiguration) -> None:
            if configuration.is_joint and not view.configuration.is_joint:
                self._judge(view, configuration)
            await append(configuration)

        return appended

    def _judge(self, view: ReplicaView, configuration: GroupConfiguration) -> None:
        context = view.consensus._context
        oldest = context.now() - context.options.election_timeout
        due = max((commit for at, commit in self._commits[view.group, view.replica] if at <= oldest), default=0)
        old, new = (frozenset(voters) for voters in configuration.voter_sets)
        for learner in new - old:
            other = self._views.get((view.group, learner))
            if view.group not in self._removed and (other is None or other.now.flushed < due):
                self.violated(view, f"it lets {learner} vote, {due} was committed long ago, and it is {other}")
            self.history.counts["learners promoted"] += 1
