"""Up to where consumers may read partitions that other brokers lead: one request to each leader (RFC 0009, lag).

An end that no leader in office tells is not in the answer. It is unknown, and nobody may take it for 0.
"""

import asyncio
from collections.abc import Iterable, Sequence

import msgspec

from cluster.leadership import Leadership
from cluster.partition import Partition
from cluster.partition_manager import PartitionManager
from model.ids import GroupId, NodeId, Offset
from rpc.errors import RpcError
from rpc.identity import Peer
from rpc.links import Links
from rpc.methods import Method

TIMEOUT_SECONDS = 1.0
# Partitions of one request, some 45 KB of ids: a peer that asks for more is refused.
GROUPS_MAX = 1_000
_GROUPS_PER_STEP = 100
_UNKNOWN = -1


class VisibleEndsRequest(msgspec.Struct, frozen=True, array_like=True):
    """Asks for the ends of at most GROUPS_MAX partitions that the receiver leads, by their names on links."""

    groups: list[str]


class VisibleEndsReply(msgspec.Struct, frozen=True, array_like=True):
    """The offset after the last visible record of each, in the order of the request; -1: not led here in office."""

    ends: list[int]


VISIBLE_ENDS = Method(28, "visible_ends", VisibleEndsRequest, VisibleEndsReply)


class VisibleEnds:
    """Asks, and answers what others ask."""

    def __init__(self, links: Links, partitions: PartitionManager, leadership: Leadership, self_node: NodeId) -> None:
        self._links = links
        self._partitions = partitions
        self._leadership = leadership
        self._self_node = self_node
        links.register_async(VISIBLE_ENDS, self._answer)

    async def read(self, groups: Iterable[GroupId]) -> dict[GroupId, Offset]:
        """Return the visible ends that are known within about TIMEOUT_SECONDS; what is missing is unknown.

        Each is what a leader in office shows its consumers. A leader that was deposed and does not know it may tell an
        older end; it is asked only while this broker knows no newer leader.
        """
        ends: dict[GroupId, Offset] = {}
        elsewhere: dict[NodeId, list[GroupId]] = {}
        for number, group in enumerate(groups, start=1):
            if number % _GROUPS_PER_STEP == 0:
                await asyncio.sleep(0)
            end = _visible_end(self._partitions.get(group))
            if end is not None:
                ends[group] = end
                continue
            leader = self._leadership.leader_of(group)
            if leader is not None and leader.node_id != self._self_node:
                elsewhere.setdefault(leader.node_id, []).append(group)
        for told in await asyncio.gather(*(self._ask(node, asked) for node, asked in elsewhere.items())):
            ends |= told
        return ends

    async def _ask(self, node: NodeId, groups: Sequence[GroupId]) -> dict[GroupId, Offset]:
        """Return what a broker tells before the deadline; one request at a time is on its way to it."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + TIMEOUT_SECONDS
        ends: dict[GroupId, Offset] = {}
        for first in range(0, len(groups), GROUPS_MAX):
            asked, left = groups[first : first + GROUPS_MAX], deadline - loop.time()
            if left <= 0:
                break
            request = VisibleEndsRequest([self._partitions.link_names.name_of(group) for group in asked])
            try:
                reply = await self._links.send(node, VISIBLE_ENDS, request, timeout=left)
            except RpcError:
                # Down, busy, too slow, or an older version without the method: unknown all the same.
                break
            if len(reply.ends) == len(asked):
                ends.update((group, Offset(end)) for group, end in zip(asked, reply.ends, strict=True) if end >= 0)
        return ends

    async def _answer(self, _: Peer, request: VisibleEndsRequest, __: memoryview) -> VisibleEndsReply:
        if len(request.groups) > GROUPS_MAX:
            raise RpcError(
                f"visible ends of {len(request.groups)} partitions are asked for, at most {GROUPS_MAX} may be"
            )
        ends: list[int] = []
        for group in request.groups:
            end = _visible_end(self._partitions.named(group))
            ends.append(_UNKNOWN if end is None else end)
            if len(ends) % _GROUPS_PER_STEP == 0:
                await asyncio.sleep(0)
        return VisibleEndsReply(ends)


def _visible_end(partition: Partition | None) -> Offset | None:
    return partition.high_watermark if partition is not None and partition.is_in_office else None
