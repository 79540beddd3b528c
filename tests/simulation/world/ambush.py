"""Faults that wait for their moment: when a leader has written what is not committed yet.

Most writes are committed within milliseconds: a fault at any time hardly ever meets one on its way.
"""

from collections.abc import Callable

from model.ids import GroupId
from raft.consensus import Consensus
from storage.entry import EntryKind
from tests.simulation.world.cluster import SimCluster

_SECONDS_MAX = 6.0
# What clients wait for.
_CLIENTS = (EntryKind.DATA, EntryKind.COMMAND)


def wait_for_uncommitted(cluster: SimCluster, group: GroupId, strike: Callable[[int], None]) -> None:
    """Call `strike` with the leader of `group` in the instant at which its newest entry is a client's and not committed.

    What the leader has sent in this instant has not arrived. After some seconds without such an instant nothing is done.
    """

    def is_moment(leader: int, consensus: Consensus) -> bool:
        if consensus.log.dirty_index <= consensus.state.commit_index:
            return False
        newest = cluster.observer.view_of(leader, group).at(consensus.log.dirty_index)
        return newest is not None and newest.kind in _CLIENTS

    wait_for_leader(cluster, group, is_moment, strike)


def wait_for_leader(
    cluster: SimCluster,
    group: GroupId,
    is_moment: Callable[[int, Consensus], bool],
    strike: Callable[[int], None],
    seconds: float = _SECONDS_MAX,
) -> None:
    """Call `strike` with the leader of `group` in the instant in which `is_moment` holds of it, and of its replica.

    What `is_moment` reads changes only while the process of that leader runs. After `seconds` without such an instant
    nothing is done.
    """
    world = cluster.world
    deadline = world.time + seconds
    # As of the last look: the brokers in office, and which lives there were.
    in_office: set[int] = set()
    turns = -1

    def is_as_before() -> bool:
        """Whether no broker has run since that was in office then, or is now: a thousand times a virtual second."""
        if cluster.turns != turns:
            return False
        for node_id in cluster.ran:
            consensus = cluster.consensus(node_id, group)
            if node_id in in_office or (consensus is not None and consensus.is_in_office):
                return False
        return True

    def look() -> None:
        nonlocal in_office, turns
        is_now = False
        leader: int | None = None
        if not is_as_before():
            turns, offices = cluster.turns, cluster.offices(group)
            in_office = {node_id for _, node_id in offices}
            leader = max(offices, default=(0, None))[1]
            consensus = None if leader is None else cluster.consensus(leader, group)
            is_now = leader is not None and consensus is not None and is_moment(leader, consensus)
        if is_now or world.time > deadline:
            # Not the list that is being gone through.
            world.scheduler.observers = [each for each in world.scheduler.observers if each is not look]
        if is_now:
            world.after(0.0, strike, leader)

    world.scheduler.observers = [*world.scheduler.observers, look]
