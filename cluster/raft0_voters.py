"""raft0's leader decides who votes in raft0, and every broker lets its replica go there (RFC 0019 section 7).

The leader compares its tables with the rule `wanted_voters` each second, and proposes a move of raft0 if they differ.
A voter that is down is not replaced: whoever is to go must be decommissioned, or its directory retired. A broker that
is to vote, and is lost before it does, gives way. Voters become fewer only if a majority of those that stay is ready.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence

from cluster.commands import AlterPlacements, PlacementRecord, ReplicaRecord
from cluster.controller import Controller
from cluster.errors import ClusterError
from cluster.move_places import has_majority
from cluster.placement import Replicas
from cluster.raft0_candidates import Candidate, Candidates, raft0_candidates
from cluster.raft0_table import raft0_target
from model.features import MEMBERSHIP, PLACEMENTS_LEVEL
from model.ids import RAFT0, NodeId, Replica
from runtime.gate import Gate

_logger = logging.getLogger("cluster")

VOTERS_MAX = 5
_INTERVAL = 1.0
_TIMEOUT = 5.0
# A learner that is to vote has held everything that was committed within so many seconds.
_CAUGHT_UP_WITHIN = 2.0
# One that is on its way to vote, and does not any more, keeps its place for so many seconds.
_PATIENCE = 5.0


def voter_count(brokers: int) -> int:
    """Return how many voters raft0 has among so many brokers: at most 5, and odd above 2."""
    count = min(VOTERS_MAX, brokers)
    return count if count <= 2 or count % 2 else count - 1


def wanted_voters(
    voters: Replicas,
    candidates: Sequence[Candidate],
    leader: NodeId,
    is_ready: Callable[[Replica], bool],
    on_their_way: Replicas = (),
) -> Replicas:
    """Return who shall vote in raft0, in ascending order of node id.

    Voters stay as long as they qualify, down or not. If they are too many, the leader stays, and those that are ready
    stay before others. One that does not qualify gives way to a ready learner, and stays until there is one; one that
    is not admitted any more leaves at once. Nobody else leaves if there would be fewer voters, and no majority of them
    ready: raft0 would wait for those, and no other voter could be chosen meanwhile.

    Args:
        voters: Those that vote.
        candidates: All admitted brokers whose directory is not retired.
        leader: Who leads raft0.
        is_ready: Whether a replica has caught up and its link is up.
        on_their_way: Who was chosen to vote before, and does not yet: these come before other learners.
    """
    qualifying = {each.replica for each in candidates if each.qualifies}
    leaving = {each.replica for each in candidates if not each.qualifies}
    count = voter_count(len(qualifying))

    def rank(voter: Replica) -> tuple[bool, bool, NodeId]:
        return voter.node_id != leader, not is_ready(voter), voter.node_id

    kept = sorted((voter for voter in voters if voter in qualifying), key=rank)[:count]
    missing = count - len(kept)
    ready = (each for each in qualifying if each not in voters and is_ready(each))
    fresh = sorted(ready, key=lambda each: (each not in on_their_way, each))[:missing]
    held = sorted(voter for voter in voters if voter in leaving)[: missing - len(fresh)]
    found = len(kept) + len(fresh) + len(held)
    if found % 2 == 0 and 2 < found < count:
        # Four voters bear no more losses than three: one that is to go leaves, or one that is ready waits for another.
        held, fresh = (held[:-1], fresh) if held else (held, fresh[:-1])
    # Nobody who qualifies is ready: whoever votes goes on.
    chosen = tuple(sorted((*kept, *fresh, *held))) or tuple(v for v in voters if v in leaving) or voters
    return _unless_too_few(chosen, voters, candidates, is_ready)


def _unless_too_few(
    chosen: Replicas, voters: Replicas, candidates: Sequence[Candidate], is_ready: Callable[[Replica], bool]
) -> Replicas:
    """Return the chosen voters; or, if they are fewer and no majority of them is ready, those that vote already."""
    admitted = {each.replica for each in candidates}
    staying = tuple(sorted(voter for voter in voters if voter in admitted))
    is_shrunk = len(chosen) < len(staying)
    return staying if is_shrunk and not has_majority(chosen, set(filter(is_ready, chosen))) else chosen


def wanted_amid_move(
    voting: Collection[Replica],
    target: Replicas,
    candidates: Sequence[Candidate],
    leader: NodeId,
    is_ready: Callable[[Replica], bool],
    lost: Collection[Replica],
    origin: Replicas = (),
) -> Replicas:
    """Return who shall vote in raft0 while it moves: the target, unless somebody in it does not qualify or is lost.

    Before its configuration is joint, a target waits for all that are in it. One that is lost before it votes would be
    waited for without end, and no other voter could be replaced meanwhile. A target with fewer voters than before waits
    for a majority of them, so it is raised if learners are ready that could vote as well.

    Args:
        voting: Who votes by raft0's newest configuration; in a joint one those of both sets.
        target: Who is to vote.
        candidates, leader, is_ready: As `wanted_voters` takes them.
        lost: Who was not ready for a while. Of those that vote already this says nothing.
        origin: Who voted before the move.
    """
    qualifying = {each.replica for each in candidates if each.qualifies}
    given_up = {each for each in target if each in lost and each not in voting}
    if not given_up and qualifying.issuperset(target):
        if len(target) < len(origin):
            grown = wanted_voters(target, candidates, leader, is_ready)
            if frozenset(grown) > frozenset(target):
                return grown
        # It comes to its end before anything else is wanted.
        return target
    present = target if set(voting).issuperset(target) else tuple(sorted(voting))

    def stays(replica: Replica) -> bool:
        # Who is on its way keeps its place for a while: any other one would begin anew.
        return replica not in given_up and (replica in target or is_ready(replica))

    chosen = wanted_voters(present, candidates, leader, stays, target)
    return _unless_too_few(chosen, present, candidates, is_ready)


class Raft0Voters:
    """See the module.

    Args:
        controller: raft0 here.
        is_alive: Whether the link to a broker works; of this one always.
    """

    def __init__(self, controller: Controller, is_alive: Callable[[NodeId], bool]) -> None:
        self._controller = controller
        self._table = controller.raft0
        self._is_alive = is_alive
        self._gate = Gate("raft0-voters")
        # Who is on its way to vote, and when it was ready last, or its place was given to it (loop time).
        self._ready_at: dict[Replica, float] = {}

    def start(self) -> None:
        """Begin to look; the tables may say already where raft0 is."""
        self._table.add_listener(self._aim)
        # A broker that joins learns raft0 at once.
        self._controller.members.add_listener(self._aim)
        self._aim()
        self._gate.spawn(self._run(), name="look")

    async def stop(self) -> None:
        """Propose nothing more."""
        await self._gate.close()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_INTERVAL)
            self._aim()
            try:
                await self._decide()
            except ClusterError as error:
                # The next look tries again, here or at the next leader.
                _logger.info("raft0 has not got other voters: %s", error)

    def _candidates(self) -> Candidates:
        return raft0_candidates(self._controller.members)

    def _aim(self) -> None:
        consensus, target = self._controller.consensus, raft0_target(self._table, self._candidates())
        if target is not None and consensus.reconfiguration.target != target:
            consensus.reconfigure(target)

    async def _decide(self) -> None:
        """Leader: propose other voters, if the rule wants others than the tables.

        Raises:
            ClusterError: It is not known to be proposed.
        """
        controller = self._controller
        if not controller.is_in_office or controller.features.level(MEMBERSHIP) < PLACEMENTS_LEVEL:
            # What was seen in a former office says nothing of this time.
            self._ready_at.clear()
            return
        if self._wanted() is None:
            return
        deadline = asyncio.get_running_loop().time() + _TIMEOUT
        async with controller.admission:
            await controller.confirm_office(deadline)
            # A former proposal that nobody waits for any more may lie in the log.
            await controller.settle(deadline)
            wanted = self._wanted()
            if wanted is None:
                return
            _logger.info("raft0 is to have the voters %s", [int(voter.node_id) for voter in wanted])
            target = [ReplicaRecord(voter.node_id, voter.directory_id) for voter in wanted]
            await controller.propose(AlterPlacements([PlacementRecord(RAFT0, 0, target)]), deadline)

    def _wanted(self) -> Replicas | None:
        """Return who shall vote; None: whoever votes, or soon will."""
        found, move = self._candidates(), self._table.move
        candidates = [each for each in found.admitted if each.replica.directory_id not in found.retired]
        state = self._controller.consensus.state
        if move is None:
            # What was seen of a former target says nothing of the next one.
            self._ready_at = {}
            present = self._table.voters
            wanted = wanted_voters(present, candidates, state.node_id, self._is_ready)
        else:
            present = move.target
            voting = {voter for voters in state.configuration.voter_sets for voter in voters}
            lost = self._lost(move.target)
            wanted = wanted_amid_move(
                voting, present, candidates, state.node_id, self._is_ready, lost, origin=move.origin
            )
        return None if frozenset(wanted) == frozenset(present) else wanted

    def _lost(self, target: Replicas) -> set[Replica]:
        """Return who of a target was not ready for _PATIENCE seconds, as far as this leader has looked."""
        now = asyncio.get_running_loop().time()
        self._ready_at = {each: now if self._is_ready(each) else self._ready_at.get(each, now) for each in target}
        return {each for each, at in self._ready_at.items() if now - at >= _PATIENCE}

    def _is_ready(self, replica: Replica) -> bool:
        state = self._controller.consensus.state
        if replica == state.self_replica:
            return True
        follower = state.followers.get(replica.node_id)
        if follower is None or state.configuration.replica_on(replica.node_id) != replica:
            return False
        recently = asyncio.get_running_loop().time() - _CAUGHT_UP_WITHIN
        has_caught_up = follower.caught_up_at >= recently and not follower.needs_recovery
        return has_caught_up and self._is_alive(replica.node_id)
