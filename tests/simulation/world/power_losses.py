"""What a power loss can have taken of what consumers have seen: all else binds whoever leads later."""

from collections.abc import Iterable

from model.ids import GroupId, Replica
from tests.simulation.clients.history import History
from tests.simulation.world.replica_view import Ghost, ReplicaView


class PowerLosses:
    """Knows which machines have been without power, and so hold only what they had fsynced."""

    def __init__(self, history: History) -> None:
        self._history = history
        # By replica and group, of replicas that have not come back since: up to where their disk is sure to hold them.
        self._fsynced: dict[tuple[Replica, GroupId], int] = {}
        # By group and chain: the replicas that have held an entry when they lost power and had not fsynced it, or when
        # they lost their disk.
        self._taken: dict[GroupId, dict[bytes, set[Replica]]] = {}

    def opened(self, view: ReplicaView) -> None:
        """What a replica holds is known again."""
        self._fsynced.pop((view.replica, view.group), None)

    def lost(self, view: ReplicaView, replicas: Iterable[ReplicaView], *, with_disk: bool = False) -> list[Ghost]:
        """Take what was shown and is now held by no majority out of the history; `replicas` are all of the group.

        `with_disk`: what was fsynced is gone, too.
        """
        group = view.group
        # One that has not come back since the last time has fsynced nothing new.
        key = view.replica, group
        fsynced = 0 if with_disk else self._fsynced.get(key, view.now.flushed)
        self._fsynced[key] = fsynced
        taken = self._taken.setdefault(group, {})
        for ghost in view.entries[fsynced:]:
            taken.setdefault(ghost.chain, set()).add(view.replica)
        shown = self._history.visible_in(group)
        binding = self._binding(replicas, group, shown)
        released = [ghost for index, ghost in shown.items() if index > binding]
        for ghost in released:
            del shown[ghost.index]
        return released

    def shown_late(self, view: ReplicaView, first: int, replicas: Iterable[ReplicaView]) -> list[Ghost]:
        """Return what a leader shows from `first` on although no majority holds it, because a power loss was quicker.

        The answer that a follower has written an entry was true when it was sent, and arrives after the follower's
        machine has lost it. Its leader cannot know, and what it shows then binds nobody.
        """
        taken = self._taken.get(view.group)
        first = max(first, len(self._history.committed_in(view.group)) + 1)
        if not taken or first > view.now.visible:
            return []
        held = [(each, self._held(each)) for each in replicas]
        found = []
        for ghost in view.entries[first - 1 : view.now.visible]:
            lost = taken.get(ghost.chain, set())
            holders = {
                each.replica for each, last in held if last >= ghost.index and each.chain_at(ghost.index) == ghost.chain
            }
            is_majority = self._history.is_majority
            if not is_majority(view.group, holders) and is_majority(view.group, holders | lost):
                found.append(ghost)
        return found

    def _binding(self, replicas: Iterable[ReplicaView], group: GroupId, shown: dict[int, Ghost]) -> int:
        """Return up to which index what was shown still binds: it is committed, or a majority holds it.

        What is shown before it is committed is of its leader's own term: what is older waits for the barrier. A
        majority that holds an entry of its leader's term elects nobody without it, as in the paper's section 5.4.3.
        """
        committed = len(self._history.committed_in(group))
        held = [(view, self._held(view)) for view in replicas]
        for index in range(max(shown, default=0), committed, -1):
            chain = shown[index].chain if index in shown else None
            holders = {view.replica for view, last in held if last >= index and view.chain_at(index) == chain}
            if self._history.is_majority(group, holders):
                return index
        return committed

    def _held(self, view: ReplicaView) -> int:
        last = len(view.entries)
        return min(last, self._fsynced.get((view.replica, view.group), last))
