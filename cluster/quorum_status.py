"""Where raft0, its voters and its learners stand, as its leader knows it; any broker may ask."""

import asyncio

import msgspec

from cluster.controller import Controller
from cluster.errors import ControllerUnavailableError
from model.ids import Replica
from raft.follower_index_metadata import FollowerIndexMetadata
from rpc.errors import RpcError
from rpc.identity import Peer
from rpc.links import Links
from rpc.methods import Method
from runtime.clock import WallClock

_TIMEOUT = 2.0
_NEVER = -1


class QuorumRequest(msgspec.Struct, frozen=True, array_like=True):
    """Asks the leader of raft0."""


class VoterStatus(msgspec.Struct, frozen=True, array_like=True):
    """A voter or a learner; when it last answered, and last held all that was committed: leader's clock, ms, or -1."""

    node_id: int
    directory_id: str
    last_index: int
    answered_ms: int
    caught_up_ms: int


class QuorumStatus(msgspec.Struct, frozen=True, array_like=True):
    """raft0 at its leader; `leader` is -1 where the receiver does not lead it. Older versions tell no learners."""

    leader: int
    term: int
    commit_index: int
    voters: list[VoterStatus]
    learners: list[VoterStatus] = []


DESCRIBE_QUORUM = Method(23, "describe_quorum", QuorumRequest, QuorumStatus)

_NOT_THE_LEADER = QuorumStatus(-1, 0, 0, [])


class QuorumStatusReader:
    """Answers where this node leads raft0, and asks who does elsewhere."""

    def __init__(self, controller: Controller, links: Links, clock: WallClock) -> None:
        self._controller = controller
        self._links = links
        self._clock = clock
        links.register(DESCRIBE_QUORUM, self._answer)

    async def read(self) -> QuorumStatus:
        """Return the leader's view.

        Raises:
            ControllerUnavailableError: raft0 has no leader, or it does not answer.
        """
        here = self._here()
        leader = self._controller.leader_id
        if here is not None:
            return here
        if leader is None:
            raise ControllerUnavailableError("raft0 has no leader")
        try:
            status = await self._links.send(leader, DESCRIBE_QUORUM, QuorumRequest(), timeout=_TIMEOUT)
        except RpcError as error:
            raise ControllerUnavailableError(f"node {leader}, which leads raft0: {error}") from error
        if status.leader < 0:
            raise ControllerUnavailableError(f"node {leader} leads raft0 no more")
        return status

    def _answer(self, _: Peer, __: QuorumRequest, ___: memoryview) -> QuorumStatus:
        return self._here() or _NOT_THE_LEADER

    def _here(self) -> QuorumStatus | None:
        consensus = self._controller.consensus
        state = consensus.state
        if not state.is_in_office:
            return None
        now, now_ms = asyncio.get_running_loop().time(), self._clock.now_ms()

        def wall_ms(at: float) -> int:
            return _NEVER if at < 0 else now_ms - int((now - at) * 1000)

        def status_of(replica: Replica) -> VoterStatus:
            follower: FollowerIndexMetadata | None = state.followers.get(replica.node_id)
            if follower is None:
                last_index, answered_ms, caught_up_ms = int(consensus.log.dirty_index), now_ms, now_ms
            else:
                last_index = int(follower.match_index)
                answered_ms, caught_up_ms = wall_ms(follower.last_reply_at), wall_ms(follower.caught_up_at)
            return VoterStatus(replica.node_id, replica.directory_id, last_index, answered_ms, caught_up_ms)

        configuration = state.configuration
        members = sorted(configuration.replicas)
        voters = [status_of(replica) for replica in members if configuration.is_voter(replica)]
        learners = [status_of(replica) for replica in members if not configuration.is_voter(replica)]
        return QuorumStatus(state.node_id, state.term, state.commit_index, voters, learners)
