"""Which configuration a leader appends next, on the way from one set of voters to another.

Source: Raft thesis 4.1 (a configuration is in force once it is in the log), 4.2.1 (learners first), 4.3 (joint
consensus). RFC 0019 section 3.

    V                        simple
    V without what is gone   a retired directory leaves first: joint, then simple
    V, learners L            what the target has and V has not
    (V, T)                   joint, once the learners have caught up
    T                        simple

Whoever is to learn for good is a learner in each of them, unless its node votes there.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from model.ids import DirectoryId, Replica
from raft.group_configuration import GroupConfiguration, Revision

# For what a group waits that no replica can bring any further. `raftka doctor` says the same.
FORCE = "a decision that loses records: this version has no command for it, and decides nothing by itself"


@dataclass(frozen=True, slots=True)
class Target:
    """What is wanted.

    Attributes:
        voters: All voters, at least one, each on a node of its own.
        revision: The request that wants it.
        retired: Directories that will never be back: a replica in one of them never counts again (L9 of RFC 0020).
        learners: Who learns for good, each on a node of its own: they get all entries and count nowhere.
    """

    voters: tuple[Replica, ...]
    revision: Revision
    retired: frozenset[DirectoryId] = frozenset()
    learners: tuple[Replica, ...] = ()

    def __post_init__(self) -> None:
        members = (*self.voters, *self.learners)
        assert len({member.node_id for member in members}) == len(members), "two replicas are wanted on one node"
        assert not any(member.directory_id in self.retired for member in members), "a retired directory is wanted"


@dataclass(frozen=True, slots=True)
class Append:
    """Append this configuration; when it is committed, ask again."""

    configuration: GroupConfiguration


@dataclass(frozen=True, slots=True)
class WaitFor:
    """Nothing can be appended yet; `reason` says for what the group waits."""

    reason: str


@dataclass(frozen=True, slots=True)
class Reached:
    """Voters, learners and revision of the target are in force, and nothing else is."""


Step = Append | WaitFor | Reached


def next_step(
    current: GroupConfiguration,
    target: Target,
    is_caught_up: Callable[[Replica], bool],
    is_answering: Callable[[Replica], bool],
) -> Step:
    """Return the next step of a leader in office whose configuration `current` is committed.

    Args:
        current: In force, and the newest in the log.
        target: What is wanted; a later revision than that of `current`, or the same.
        is_caught_up: Whether a learner has flushed what was committed within the last election timeout.
        is_answering: Whether a replica has answered within the last election timeout; of the leader itself always.
    """
    assert target.revision >= current.revision
    if current.is_joint:
        return Append(_left_joint(current, target))
    (voters,) = current.voter_sets
    kept = tuple(voter for voter in voters if voter.directory_id not in target.retired)
    if len(kept) < len(voters):
        if not kept:
            return WaitFor(f"all voters are in retired directories, so the group waits for {FORCE}")
        return Append(GroupConfiguration((voters, kept), _learners(current, target, voters), target.revision))
    if _same(voters, target.voters):
        learners = _learners(current, target, voters)
        if not _same(current.learners, learners) or current.revision != target.revision:
            return Append(GroupConfiguration((voters,), learners, target.revision))
        return Reached()
    missing = tuple(replica for replica in target.voters if replica not in voters)
    crossed = [replica for replica in missing if any(replica.node_id == voter.node_id for voter in voters)]
    if crossed:
        # The same node with another directory: the old one has to be retired before.
        return WaitFor(f"node {crossed[0].node_id} still votes with another directory")
    learners = _learners(current, target, voters, missing)
    if not _same(current.learners, learners) or current.revision != target.revision:
        return Append(GroupConfiguration((voters,), learners, target.revision))
    behind = [replica.node_id for replica in missing if not is_caught_up(replica)]
    if behind:
        return WaitFor(f"nodes {sorted(behind)} catch up")
    answering = sum(map(is_answering, target.voters))
    if answering < len(target.voters) // 2 + 1:
        return WaitFor(f"{answering} of the {len(target.voters)} new voters answer")
    learners = _learners(current, target, (*voters, *target.voters))
    return Append(GroupConfiguration((voters, target.voters), learners, target.revision))


def _left_joint(current: GroupConfiguration, target: Target) -> GroupConfiguration:
    """Return the simple configuration that ends a committed joint one: either of its sets may be it.

    A majority of each set has committed the joint configuration, so a majority of the one that stays knows of it.
    """
    old, new = current.voter_sets
    goes_back = _same(old, target.voters) and not any(voter.directory_id in target.retired for voter in old)
    voters = old if goes_back else new
    return GroupConfiguration((voters,), _learners(current, target, voters), target.revision)


def _learners(
    current: GroupConfiguration, target: Target, voters: Collection[Replica], missing: Collection[Replica] = ()
) -> tuple[Replica, ...]:
    """Return who learns beside `voters`: those that are `missing`, and whom the target lets learn for good.

    A learner of the target that votes later is one as well, so that it never lacks entries on the way. A directory
    never takes the place of another one of its node in one step: the leader would take what the old one had confirmed
    for what the new one has.
    """
    found = dict.fromkeys(missing)
    found.update(dict.fromkeys(each for each in target.voters if each in current.learners))
    found.update(dict.fromkeys(target.learners))
    voting = {voter.node_id for voter in voters}
    return tuple(
        each for each in found if each.node_id not in voting and current.replica_on(each.node_id) in (None, each)
    )


def _same(one: Collection[Replica], other: Collection[Replica]) -> bool:
    return frozenset(one) == frozenset(other)
