"""Who leads which partition, as every broker knows it: pushed when a leader takes office or its in-sync set changes,
and all of it every 5 s.

raft0 knows placements, not leaders; a broker without a replica of a partition learns its leader only from here
(counterexample 21). The highest term wins, so late or repeated news do no harm.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from model.ids import GroupId, NodeId, Replica, Term
from raft.consensus import Consensus
from raft.group_manager import GroupManager
from rpc.identity import Peer
from rpc.links import Links
from rpc.methods import Method
from runtime.gate import Gate

# In-sync sets are looked at this often, and every so many looks everything is told again.
_LOOK_INTERVAL = 0.5
_LOOKS_PER_REPEAT = 10
_PUSH_TIMEOUT = 3.0
# Groups per message: a node that leads thousands sends several small frames instead of one that holds others up.
_GROUPS_PER_PUSH = 2000


class LedGroup(msgspec.Struct, frozen=True, array_like=True):
    """The sender is the leader in office of `group` in `term`; `in_sync` are the replicas in sync as of now.

    `group` is the group's name on links (`raft/link_names.py`).
    """

    group: str
    term: int
    in_sync: list[int]


class LeadershipPush(msgspec.Struct, frozen=True, array_like=True):
    """News of the sender's leaderships."""

    led: list[LedGroup]


class LeadershipAck(msgspec.Struct, frozen=True, array_like=True):
    """Taken."""


PUSH_LEADERSHIP = Method(20, "push_leadership", LeadershipPush, LeadershipAck)


class Leader(NamedTuple):
    """The leader of the latest term that was heard of, and the in-sync set it last told."""

    term: Term
    node_id: NodeId
    in_sync: tuple[NodeId, ...]


class Leadership:
    """The table and its dissemination.

    Args:
        groups: Those of this node.
        links: To the other brokers.
        self_node: This one.
        brokers: All brokers that are there now.
        is_retired: Whether a data directory never counts again: what it led has no leader.
    """

    def __init__(
        self,
        groups: GroupManager,
        links: Links,
        self_node: NodeId,
        brokers: Callable[[], Iterable[NodeId]],
        is_retired: Callable[[Replica], bool],
    ) -> None:
        self._groups = groups
        self._links = links
        self._self_node = self_node
        self._brokers = brokers
        self._is_retired = is_retired
        self._leaders: dict[GroupId, Leader] = {}
        # Which directory of the leader's node has told of it.
        self._tellers: dict[GroupId, Replica] = {}
        self._news: dict[GroupId, Consensus] = {}
        self._push_scheduled = False
        # What was last told of each group that is led here, by its name on links.
        self._told: dict[str, LedGroup] = {}
        self._listeners: list[Callable[[], None]] = []
        self._gate = Gate("leadership")
        links.register(PUSH_LEADERSHIP, self._on_push)
        groups.add_leadership_listener(self._on_leadership)
        # A peer that comes (back) learns everything at once.
        links.add_up_listener(lambda node: self._push(node, self._led_here()))

    def start(self) -> None:
        """Begin to repeat."""
        self._gate.spawn(self._repeat(), name="repeat")

    async def stop(self) -> None:
        """Push nothing more."""
        await self._gate.close()

    def leader_of(self, group: GroupId) -> Leader | None:
        """Return the leader in office, None while there is none as far as this node knows."""
        leader = self._leaders.get(group)
        local = self._groups.get(group)
        if local is not None:
            if local.is_in_office:
                return _leader_here(local)
            # Our replica has moved on to a term whose leader is not in office yet, or we have just lost the office.
            if leader is None or local.term > leader.term or leader.node_id == self._self_node:
                return None
        teller = self._tellers.get(group)
        # Its node may be back with an empty directory, and then it never tells that it has lost the office.
        return None if teller is not None and self._is_retired(teller) else leader

    def newest_term(self, group: GroupId) -> int:
        """Return the term of the newest leader in office that this node has heard of, -1 where it has of none.

        Never that of a candidate: it may not be elected, and the leader of a lower term still serve.
        """
        leader = self._leaders.get(group)
        return -1 if leader is None else leader.term

    def newest_leader(self, group: GroupId) -> NodeId | None:
        """Return who was the last in office that this node has heard of, in office still or not; None: nobody."""
        leader = self._leaders.get(group)
        return None if leader is None else leader.node_id

    def forget(self, group: GroupId) -> None:
        """The partition was deleted."""
        self._leaders.pop(group, None)
        self._tellers.pop(group, None)
        self._told.pop(self._groups.link_names.name_of(group), None)

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change; it must not block."""
        self._listeners.append(listener)

    def _on_leadership(self, consensus: Consensus) -> None:
        if consensus.is_in_office:
            known = self._leaders.get(consensus.group)
            if known is None or known.term < consensus.term:
                self._learn(consensus.group, _leader_here(consensus), consensus.state.self_replica)
                self._news[consensus.group] = consensus
                self._schedule_push()

    def _schedule_push(self) -> None:
        # Elections come in crowds (a broker died): one message per peer tells of all that took office together.
        if not self._push_scheduled:
            self._push_scheduled = True
            asyncio.get_running_loop().call_soon(self._push_news)

    def _push_news(self) -> None:
        self._push_scheduled = False
        news, self._news = self._news, {}
        led = [self._led(consensus) for consensus in news.values() if consensus.is_in_office]
        for peer in self._peers():
            self._push(peer, led)

    def _peers(self) -> list[NodeId]:
        return [node for node in self._brokers() if node != self._self_node]

    def _push(self, peer: NodeId, led: list[LedGroup]) -> None:
        if not self._links.is_up(peer):
            return
        for first in range(0, len(led), _GROUPS_PER_PUSH):
            push = LeadershipPush(led[first : first + _GROUPS_PER_PUSH])
            # A push that is lost is repeated within 5 s at the latest; there is nothing to do about its failure.
            self._links.send(peer, PUSH_LEADERSHIP, push, timeout=_PUSH_TIMEOUT)

    def _led_here(self) -> list[LedGroup]:
        return [self._led(consensus) for consensus in self._groups if consensus.is_in_office]

    def _led(self, consensus: Consensus) -> LedGroup:
        name = self._groups.link_names.name_of(consensus.group)
        return LedGroup(name, consensus.term, list(consensus.in_sync))

    async def _repeat(self) -> None:
        looks = 0
        while True:
            await asyncio.sleep(_LOOK_INTERVAL)
            looks += 1
            led = self._led_here()
            if looks % _LOOKS_PER_REPEAT:
                led = [each for each in led if self._told.get(each.group) != each]
            self._told.update((each.group, each) for each in led)
            for peer in self._peers():
                self._push(peer, led)

    def _on_push(self, peer: Peer, push: LeadershipPush, _: memoryview) -> LeadershipAck:
        for led in push.led:
            group = self._groups.link_names.group_of(led.group)
            if group is None:
                continue
            in_sync = tuple(NodeId(node) for node in led.in_sync)
            self._learn(group, Leader(Term(led.term), peer.replica.node_id, in_sync), peer.replica)
        return LeadershipAck()

    def _learn(self, group: GroupId, leader: Leader, teller: Replica) -> None:
        known = self._leaders.get(group)
        if known is None or known.term < leader.term or (known.term == leader.term and known != leader):
            self._leaders[group], self._tellers[group] = leader, teller
            for listener in self._listeners:
                listener()


def _leader_here(consensus: Consensus) -> Leader:
    return Leader(consensus.term, consensus.state.node_id, consensus.in_sync)
