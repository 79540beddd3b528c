"""Moves of leaderships: any broker may be asked, and asks the leader of the partition to hand over.

A move that is only checked is a method of its own. A broker of an earlier version does not know it, and refuses; a new
field of the request it would overlook, and hand over.
"""

import asyncio

import msgspec

from cluster.errors import LeadershipNotMovedError
from cluster.forwarding import Forwarded, Forwarder, NoReplyError
from cluster.leadership import Leadership
from model.ids import GroupId, NodeId
from raft.errors import RaftError
from raft.group_manager import GroupManager
from rpc.identity import Peer
from rpc.links import Links
from rpc.methods import Method

_LOOK_INTERVAL = 0.01


class MoveRequest(msgspec.Struct, frozen=True, array_like=True):
    """The receiver leads `group`, by its name on links, and shall let `target` lead."""

    group: str
    target: int


class MoveReply(msgspec.Struct, frozen=True, array_like=True):
    """`refusal` says why the leadership was not moved; empty: the target was elected."""

    refusal: str


MOVE_LEADERSHIP = Method(22, "move_leadership", MoveRequest, MoveReply)
CHECK_LEADERSHIP_MOVE = Method(31, "check_leadership_move", MoveRequest, MoveReply)


class LeadershipMoves:
    """See the module."""

    def __init__(self, groups: GroupManager, leadership: Leadership, links: Links, self_node: NodeId) -> None:
        self._groups = groups
        self._leadership = leadership
        self._forwarder = Forwarder(links, self_node)
        self._self_node = self_node
        links.register_async(MOVE_LEADERSHIP, self._answer)
        links.register_async(CHECK_LEADERSHIP_MOVE, self._answer_check)

    async def move(self, group: GroupId, target: NodeId, deadline: float) -> None:
        """Let `target` lead `group`; return when this broker knows it as the leader in office, or at the deadline.

        Raises:
            LeadershipNotMovedError: Nobody is known to lead, or the leader did not hand over to the target. Where it
                has not answered before `deadline` (loop time), the target may lead all the same.
        """
        move = Forwarded(MOVE_LEADERSHIP, self._request(group, target), self._move_here)
        await self._ask_leader(group, move, deadline)
        await self._until_known(group, target, deadline)

    async def check(self, group: GroupId, target: NodeId, deadline: float) -> None:
        """Ask the leader of `group` whether it would begin to hand over to `target` now; nothing changes.

        Raises:
            LeadershipNotMovedError: Nobody is known to lead, or the leader would not, or has not answered before
                `deadline` (loop time).
        """
        check = Forwarded(CHECK_LEADERSHIP_MOVE, self._request(group, target), self._check_here)
        await self._ask_leader(group, check, deadline)

    def _request(self, group: GroupId, target: NodeId) -> MoveRequest:
        return MoveRequest(self._groups.link_names.name_of(group), target)

    async def _ask_leader(self, group: GroupId, move: Forwarded[MoveRequest, MoveReply], deadline: float) -> None:
        leader = self._leadership.leader_of(group)
        if leader is None:
            raise LeadershipNotMovedError("nobody leads the partition now")
        left = deadline - asyncio.get_running_loop().time()
        try:
            reply = await self._forwarder.forward(leader.node_id, move, left)
        except NoReplyError as error:
            why = f"no answer from node {error.node_id}, which leads: {error.cause}"
            raise LeadershipNotMovedError(why) from error
        if reply.refusal:
            raise LeadershipNotMovedError(reply.refusal)

    async def _answer(self, _: Peer, request: MoveRequest, __: memoryview) -> MoveReply:
        return await self._move_here(request)

    async def _answer_check(self, _: Peer, request: MoveRequest, __: memoryview) -> MoveReply:
        return await self._check_here(request)

    async def _check_here(self, request: MoveRequest) -> MoveReply:
        consensus = self._groups.named(request.group)
        if consensus is None:
            return self._without_replica(request)
        try:
            consensus.transfer.check(NodeId(request.target))
        except RaftError as error:
            return MoveReply(str(error))
        return MoveReply("")

    def _without_replica(self, request: MoveRequest) -> MoveReply:
        return MoveReply(f"node {self._self_node} has no replica of {request.group}")

    async def _move_here(self, request: MoveRequest) -> MoveReply:
        consensus = self._groups.named(request.group)
        if consensus is None:
            return self._without_replica(request)
        target = NodeId(request.target)
        try:
            leader = await consensus.transfer.run(target)
        except RaftError as error:
            return MoveReply(str(error))
        return MoveReply("" if leader == target else f"node {leader} was elected, not {target}")

    async def _until_known(self, group: GroupId, target: NodeId, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < deadline:
            leader = self._leadership.leader_of(group)
            if leader is not None and leader.node_id == target:
                return
            await asyncio.sleep(_LOOK_INTERVAL)
