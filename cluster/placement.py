"""Where the replicas of a partition are, once somebody has moved it (RFC 0019 section 6). Pure.

A partition that nobody has ever moved has no `Placement`: its replicas are those of its creation.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cluster.errors import NoReassignmentError
from model.ids import Replica
from raft.group_configuration import NO_REVISION, Revision

Replicas = tuple[Replica, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """A partition is on its way to other replicas.

    Attributes:
        origin: Its replicas before.
        target: Its replicas when the move is finished; the origin if somebody has cancelled it.
        revision: The command that asked for this target.
        former: Replicas of targets that were given up on the way. They may vote by now, so they stay until the end.
    """

    origin: Replicas
    target: Replicas
    revision: Revision
    former: Replicas = ()

    @property
    def replicas(self) -> Replicas:
        """All that hold the partition on the way, each once."""
        return _each_once(self.origin, self.target, self.former)

    @property
    def is_cancelled(self) -> bool:
        """Whether the partition goes back to where it was."""
        return self.target == self.origin


@dataclass(frozen=True, slots=True)
class Placement:
    """A partition that was moved at least once, or is being moved.

    Attributes:
        created_on: Its replicas when it was created. The logs of all its replicas begin with these as the voters.
        finished: The revision of the last move that was finished.
        move: The one that is under way.
    """

    created_on: Replicas
    finished: Revision = NO_REVISION
    move: Move | None = None

    def moved_to(self, now: Replicas, target: Replicas | None, revision: Revision) -> "Placement":
        """Return the placement after a command that asks for a target; None: back to the origin.

        Args:
            now: Where the partition is as long as the move is not finished.
            target: Where it shall be.
            revision: Of the command.

        Raises:
            NoReassignmentError: There is nothing to cancel.
        """
        # A later command has a later revision: replicas compare them.
        assert revision > self.finished
        move = self.move
        if move is None:
            if target is None:
                raise NoReassignmentError("the partition is not being moved: there is nothing to cancel")
            return replace(self, move=Move(now, target, revision))
        assert revision > move.revision
        wanted = move.origin if target is None else target
        kept = frozenset((*move.origin, *wanted))
        former = tuple(each for each in _each_once(move.former, move.target) if each not in kept)
        return replace(self, move=Move(move.origin, wanted, revision, former))

    def finish(self, revision: Revision) -> tuple["Placement", Replicas]:
        """Return the placement after the move of that revision, and the replicas that the partition has from then on.

        Raises:
            NoReassignmentError: The partition is not being moved by that revision.
        """
        if self.move is None or self.move.revision != revision:
            raise NoReassignmentError(f"the partition is not being moved by revision {revision[0]}.{revision[1]}")
        return Placement(self.created_on, revision), self.move.target


def _each_once(*parts: Iterable[Replica]) -> Replicas:
    return tuple(dict.fromkeys(replica for part in parts for replica in part))
