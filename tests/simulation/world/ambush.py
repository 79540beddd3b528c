"""Faults that wait for their moment: when a leader has written what is not committed yet.

Most writes are committed within milliseconds: a fault at any time hardly ever meets one on its way.
"""

from collections.abc import Callable

from model.ids import GroupId
from storage.entry import EntryKind
from tests.simulation.world.cluster import SimCluster

_SECONDS_MAX = 6.0
# What clients wait for.
_CLIENTS = (EntryKind.DATA, EntryKind.COMMAND)


def wait_for_uncommitted(cluster: SimCluster, group: GroupId, strike: Callable[[int], None]) -> None:
    """Call `strike` with the leader of `group` in the instant at which its newest entry is a client's and not committed.

    What the leader has sent in this instant has not arrived. After some seconds without such an instant nothing is done.
    """
    world = cluster.world
    deadline = world.time + _SECONDS_MAX

    def look() -> None:
        leader = cluster.leader_of(group)
        consensus = None if leader is None else cluster.consensus(leader, group)
        is_moment = False
        if leader is not None and consensus is not None and consensus.log.dirty_index > consensus.state.commit_index:
            newest = cluster.observer.view_of(leader, group).at(consensus.log.dirty_index)
            is_moment = newest is not None and newest.kind in _CLIENTS
        if is_moment or world.time > deadline:
            # Not the list that is being gone through.
            world.scheduler.observers = [each for each in world.scheduler.observers if each is not look]
        if is_moment:
            world.after(0.0, strike, leader)

    world.scheduler.observers = [*world.scheduler.observers, look]
