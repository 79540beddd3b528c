"""Who leads which partition, as every broker knows it: pushed when a leader takes office or its in-sync set changes,
and all of it every 5 s.

raft0 knows placements, not leaders; a broker without a replica of a partition learns its leader only from here
(counterexample 21). The highest term wins, so late or repeated news do no harm.

Nobody may be elected after a leader that has lost its majority. So news have an end (RFC 0005 section 5): a broker
that has left office says so while it knows of no later leader, and news that nobody repeats are believed no longer.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
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
# Who has left office says so at this look: before it, elections as a rule have a winner that tells of itself.
_LOOKS_BEFORE_END = 2
# News that were not repeated for so long are not believed: four repetitions did not come.
BELIEVED_SECONDS = 20.0


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


class EndedLeadership(msgspec.Struct, frozen=True, array_like=True):
    """The sender was the leader in office of `group` in `term`, and is no more; it has heard of no later one.

    Nobody takes the office twice in one term, so this stays true.
    """

    group: str
    term: int


class EndedPush(msgspec.Struct, frozen=True, array_like=True):
    """Leaderships of the sender that have ended."""

    ended: list[EndedLeadership]


PUSH_LEADERSHIP = Method(20, "push_leadership", LeadershipPush, LeadershipAck)
PUSH_ENDED_LEADERSHIP = Method(32, "push_ended_leadership", EndedPush, LeadershipAck)


class Leader(NamedTuple):
    """The leader of the latest term that was heard of, and the in-sync set it last told."""

    term: Term
    node_id: NodeId
    in_sync: tuple[NodeId, ...]


@dataclass(slots=True)
class _News:
    """The newest that was heard of a group.

    Attributes:
        leader: See there.
        teller: Which directory of the leader's node has told of it.
        heard_at: When it was told last (loop time).
        has_ended: The leader has said that it left the office of that term, or of a later one.
    """

    leader: Leader
    teller: Replica
    heard_at: float
    has_ended: bool = False


class Leadership:
    """The table and its dissemination.

    Args:
        groups: Those of this node.
        links: To the other brokers.
        self_node: This one.
        brokers: All brokers that are there now.
        is_retired: Whether a data directory never counts again: what it led has no leader.
        news_end: Whether the cluster is at a level at which news end: all brokers know PUSH_ENDED_LEADERSHIP.
    """

    def __init__(
        self,
        groups: GroupManager,
        links: Links,
        self_node: NodeId,
        brokers: Callable[[], Iterable[NodeId]],
        is_retired: Callable[[Replica], bool],
        news_end: Callable[[], bool],
    ) -> None:
        self._groups = groups
        self._links = links
        self._self_node = self_node
        self._brokers = brokers
        self._is_retired = is_retired
        self._news_end = news_end
        self._now = asyncio.get_running_loop().time
        self._heard: dict[GroupId, _News] = {}
        # What this node led last, as far as it knows, and leads no more; how many looks ago.
        self._left: dict[GroupId, int] = {}
        self._news: dict[GroupId, Consensus] = {}
        self._push_scheduled = False
        # What was last told of each group that is led here, by its name on links.
        self._told: dict[str, LedGroup] = {}
        self._listeners: list[Callable[[], None]] = []
        self._gate = Gate("leadership")
        links.register(PUSH_LEADERSHIP, self._on_push)
        links.register(PUSH_ENDED_LEADERSHIP, self._on_ended)
        groups.add_leadership_listener(self._on_leadership)
        # A peer that comes (back) learns everything at once.
        links.add_up_listener(self._tell_all)

    def start(self) -> None:
        """Begin to repeat."""
        self._gate.spawn(self._repeat(), name="repeat")

    async def stop(self) -> None:
        """Push nothing more."""
        await self._gate.close()

    def leader_of(self, group: GroupId) -> Leader | None:
        """Return the leader in office, None while there is none as far as this node knows."""
        news = self._heard.get(group)
        local = self._groups.get(group)
        if local is not None:
            if local.is_in_office:
                return _leader_here(local)
            # Our replica has moved on to a term whose leader is not in office yet, or we have just lost the office.
            if news is None or local.term > news.leader.term or news.leader.node_id == self._self_node:
                return None
        # Its node may be back with an empty directory, and then it never tells that it has lost the office.
        if news is None or self._is_retired(news.teller):
            return None
        return news.leader if self._is_believed(news) else None

    def _is_believed(self, news: _News) -> bool:
        if not self._news_end():
            return True
        if news.has_ended or news.leader.node_id == self._self_node:
            return False
        return self._now() - news.heard_at < BELIEVED_SECONDS

    def newest_term(self, group: GroupId) -> int:
        """Return the term of the newest leader in office that this node has heard of, -1 where it has of none.

        Never that of a candidate: it may not be elected, and the leader of a lower term still serve.
        """
        news = self._heard.get(group)
        return -1 if news is None else news.leader.term

    def newest_leader(self, group: GroupId) -> NodeId | None:
        """Return who was the last in office that this node has heard of, in office still or not; None: nobody."""
        news = self._heard.get(group)
        return None if news is None else news.leader.node_id

    def forget(self, group: GroupId) -> None:
        """The partition was deleted."""
        self._heard.pop(group, None)
        self._left.pop(group, None)
        self._told.pop(self._groups.link_names.name_of(group), None)

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change; it must not block."""
        self._listeners.append(listener)

    def _on_leadership(self, consensus: Consensus) -> None:
        group = consensus.group
        news = self._heard.get(group)
        if not consensus.is_in_office:
            if news is not None and news.leader.node_id == self._self_node:
                self._left.setdefault(group, 0)
        elif news is None or news.leader.term < consensus.term:
            self._learn(group, _leader_here(consensus), consensus.state.self_replica)
            self._news[group] = consensus
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

    def _tell_all(self, peer: NodeId) -> None:
        self._push(peer, self._led_here())
        self._push_ended(peer, self._ended_here())

    def _push_ended(self, peer: NodeId, ended: list[EndedLeadership]) -> None:
        # Below the level an older broker does not know the message.
        if not self._news_end() or not self._links.is_up(peer):
            return
        for first in range(0, len(ended), _GROUPS_PER_PUSH):
            push = EndedPush(ended[first : first + _GROUPS_PER_PUSH])
            self._links.send(peer, PUSH_ENDED_LEADERSHIP, push, timeout=_PUSH_TIMEOUT)

    def _ended_here(self, looks: int | None = None) -> list[EndedLeadership]:
        """Return what ended so many looks ago; None: all that ended long enough ago to be told."""
        names = self._groups.link_names
        return [
            EndedLeadership(names.name_of(group), self._heard[group].leader.term)
            for group, since in self._left.items()
            if (since >= _LOOKS_BEFORE_END if looks is None else since == looks)
        ]

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
            self._left = {group: since + 1 for group, since in self._left.items()}
            led = self._led_here()
            if looks % _LOOKS_PER_REPEAT:
                led = [each for each in led if self._told.get(each.group) != each]
                ended = self._ended_here(_LOOKS_BEFORE_END)
            else:
                ended = self._ended_here()
            self._told.update((each.group, each) for each in led)
            for peer in self._peers():
                self._push(peer, led)
                self._push_ended(peer, ended)

    def _on_push(self, peer: Peer, push: LeadershipPush, _: memoryview) -> LeadershipAck:
        for led in push.led:
            group = self._groups.link_names.group_of(led.group)
            if group is None:
                continue
            in_sync = tuple(NodeId(node) for node in led.in_sync)
            self._learn(group, Leader(Term(led.term), peer.replica.node_id, in_sync), peer.replica)
        return LeadershipAck()

    def _on_ended(self, peer: Peer, push: EndedPush, _: memoryview) -> LeadershipAck:
        for each in push.ended:
            group = self._groups.link_names.group_of(each.group)
            news = None if group is None else self._heard.get(group)
            # Where nothing was heard of the group, nobody is believed to lead it.
            if group is not None and news is not None:
                self._end(group, news, Term(each.term), peer.replica)
        return LeadershipAck()

    def _end(self, group: GroupId, news: _News, term: Term, teller: Replica) -> None:
        """Believe in no leader of `term` or a lower one. Of a lower one because the teller was elected after it."""
        is_later = news.leader.term < term
        if not is_later and (news.has_ended or news.leader[:2] != (term, teller.node_id)):
            return
        if is_later:
            self._left.pop(group, None)
            self._heard[group] = news = _News(Leader(term, teller.node_id, ()), teller, news.heard_at)
        news.has_ended = True
        self._tell_listeners()

    def _learn(self, group: GroupId, leader: Leader, teller: Replica) -> None:
        news = self._heard.get(group)
        if news is not None and (news.leader.term > leader.term or self._is_over(news, leader)):
            return
        if news is None or news.leader != leader or not self._is_believed(news):
            self._left.pop(group, None)
            self._heard[group] = _News(leader, teller, self._now())
            self._tell_listeners()
        else:
            news.heard_at = self._now()

    @staticmethod
    def _is_over(news: _News, leader: Leader) -> bool:
        """Whether the term of `leader` has ended: the two messages may have overtaken each other on two links."""
        return news.has_ended and news.leader.term == leader.term

    def _tell_listeners(self) -> None:
        for listener in self._listeners:
            listener()


def _leader_here(consensus: Consensus) -> Leader:
    return Leader(consensus.term, consensus.state.node_id, consensus.in_sync)
