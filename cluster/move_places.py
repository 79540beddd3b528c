"""Which moves can go on, and how many of them take a place among those that go on at a time (RFC 0020 section 4).

A move that waits for a broker that is down must not keep others from their turn. It takes no place while it waits. One
that has not got further for an hour although all brokers answer, because a disk is full for instance, takes none
either, until it gets further again. The brokers that hold a partition know when that was (`move_status`): its
configuration has changed, or a new replica has got records.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping

from cluster.members_table import MembersTable
from cluster.placement import Replicas
from cluster.topic_table import Topic
from model.ids import DirectoryId, GroupId, NodeId, Replica
from raft.group_configuration import Revision

PLACE_SECONDS = 3600.0

# A partition, and the command that it moves by: another target is another move.
MoveKey = tuple[GroupId, Revision]


def can_go_on(voters: Replicas, target: Replicas, members: MembersTable, is_alive: Callable[[NodeId], bool]) -> bool:
    """Whether a group can be led from its voters to a target, as far as raft0's leader sees.

    A majority of each works, and so does every replica that is added: the group waits until all of these have its log.

    Args:
        voters: As raft0's table has them: while the group moves, those before.
        target: Where it is to be.
        members: The brokers; a retired directory does not work, though its node may.
        is_alive: Whether a broker works.
    """
    working = {each for each in (*voters, *target) if members.is_present(each) and is_alive(each.node_id)}
    added = {each for each in target if each not in voters}
    return added <= working and has_majority(voters, working) and has_majority(target, working)


def can_move(topic: Topic, number: int, retired: Collection[DirectoryId]) -> bool:
    """Whether the voters that are left may still agree on others: retired directories never answer."""
    voters = topic.replicas[number]
    return has_majority(voters, [voter for voter in voters if voter.directory_id not in retired])


def has_majority(replicas: Replicas, working: Collection[Replica]) -> bool:
    """Whether more than half of the replicas are among those that work."""
    return 2 * sum(each in working for each in replicas) > len(replicas)


class MovePlaces:
    """Counts the moves that take a place; it knows when each of them got further last.

    Attributes:
        expires_at: When the next move gives its place up, on the caller's clock, in seconds.
        idle_since: When that move got further last, as far as is known, of which it was the longest ago; inf: nothing
            moves.
    """

    def __init__(self) -> None:
        self.expires_at = math.inf
        # When each move got further last, as far as is known. That it was seen first counts as well.
        self._got_further: dict[MoveKey, float] = {}

    @property
    def idle_since(self) -> float:
        """See the class."""
        return min(self._got_further.values(), default=math.inf)

    def taken(
        self,
        moving: Iterable[tuple[Topic, int]],
        members: MembersTable,
        is_alive: Callable[[NodeId], bool],
        now: float,
    ) -> int:
        """Return how many moves take a place.

        Args:
            moving: All partitions that are being moved, as topic and number.
            members, is_alive: As `can_go_on` takes them.
            now: Of a clock that never goes back, in seconds.
        """
        known, self._got_further, ends = self._got_further, {}, []
        for topic, number in moving:
            move = topic.move_of(number)
            if move is None:
                continue
            key = topic.group(number), move.revision
            self._got_further[key] = known.get(key, now)
            end = self._got_further[key] + PLACE_SECONDS
            if now < end and can_go_on(topic.replicas[number], move.target, members, is_alive):
                ends.append(end)
        self.expires_at = min(ends, default=math.inf)
        return len(ends)

    def note_idle(self, idle: Mapping[MoveKey, float], now: float) -> None:
        """Take what brokers tell of moves that are known here.

        Args:
            idle: For how many seconds a move has not got further, as far as its brokers know.
            now: As in `taken`.
        """
        for key, seconds in idle.items():
            if key in self._got_further:
                self._got_further[key] = max(self._got_further[key], now - seconds)
