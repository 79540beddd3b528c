"""Where raft0's voters are: a placement like any other (RFC 0019 section 7). Written by `controller_tables` only.

Nothing here comes from raft0's own configuration in the log: that may be truncated, and differs between brokers that
have applied as much.
"""

from collections.abc import Callable
from typing import NamedTuple

from cluster.commands import PlacementRecord
from cluster.errors import NoReassignmentError, UnknownBrokerError
from cluster.placement import Move, Placement, Replicas
from cluster.raft0_candidates import Candidates
from cluster.topic_table import placements
from model.ids import Replica
from raft.group_configuration import NO_REVISION, Revision
from raft.membership_steps import Target


class Raft0Placement(NamedTuple):
    """raft0 once it was moved: who votes while no move is finished, and the placement."""

    voters: Replicas
    placement: Placement


class Raft0Table:
    """raft0's voters.

    Attributes:
        founders: With these raft0's log begins, on every broker; empty: only state bytes are read.
        voters: Who votes; while raft0 is being moved, those before.
        placement: None: raft0 was never moved.
    """

    def __init__(self, founders: Replicas = ()) -> None:
        self.founders = founders
        self.voters = founders
        self.placement: Placement | None = None
        self._listeners: list[Callable[[], None]] = []

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change; it must not block."""
        self._listeners.append(listener)

    @property
    def move(self) -> Move | None:
        """The move that is under way."""
        return None if self.placement is None else self.placement.move

    @property
    def saved(self) -> Raft0Placement | None:
        """What is kept of it; None: raft0 was never moved."""
        return None if self.placement is None else Raft0Placement(self.voters, self.placement)

    def apply_alter(self, record: PlacementRecord, candidates: Candidates, revision: Revision) -> None:
        """Let raft0 move to other voters.

        Raises:
            UnknownBrokerError: A voter is not admitted, or its directory is retired.
            NoReassignmentError: There is nothing to cancel.
        """
        (target,) = (None,) if record.target is None else placements([record.target])
        known = {each.replica for each in candidates.admitted if each.replica.directory_id not in candidates.retired}
        for each in target or ():
            if each not in known:
                raise UnknownBrokerError(f"broker {each.node_id} cannot vote in raft0: it is not admitted as named")
        placement = self.placement or Placement(created_on=self.founders)
        self.placement = placement.moved_to(self.voters, target, revision)
        self.tell()

    def apply_finish(self, revision: Revision) -> None:
        """Let raft0 have the voters that it was moved to.

        Raises:
            NoReassignmentError: raft0 is not being moved by that revision.
        """
        if self.placement is None:
            raise NoReassignmentError("raft0 was never moved")
        self.placement, self.voters = self.placement.finish(revision)
        self.tell()

    def replace(self, saved: Raft0Placement | None) -> None:
        """Let it be what a snapshot says, and tell nobody: `tell`, once the other tables are of the same moment."""
        self.voters, self.placement = (self.founders, None) if saved is None else saved

    def clear(self) -> None:
        """Begin from nothing, and tell nobody."""
        self.voters, self.placement = self.founders, None

    def tell(self) -> None:
        """Call the listeners."""
        for listener in self._listeners:
            listener()


def raft0_target(table: Raft0Table, candidates: Candidates) -> Target | None:
    """Return what raft0 is led to: its wanted voters, and every other admitted broker as a learner for good.

    None: nobody has asked for anything, or no wanted voter can ever be back.
    """
    placement, move = table.placement, table.move
    asked = NO_REVISION if placement is None else placement.finished if move is None else move.revision
    # Each command that changes one of the two has an index of its own: no two targets share a revision.
    revision = max(asked, candidates.changed)
    wanted = table.voters if move is None else move.target
    voters = tuple(voter for voter in wanted if voter.directory_id not in candidates.retired)
    if revision == NO_REVISION or not voters:
        return None
    voting = {voter.node_id for voter in voters}
    learners: tuple[Replica, ...] = tuple(
        each.replica
        for each in candidates.admitted
        if each.replica.node_id not in voting and each.replica.directory_id not in candidates.retired
    )
    return Target(voters, revision, candidates.retired, learners)
