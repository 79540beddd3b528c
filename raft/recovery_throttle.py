"""How fast replicas that are far behind may be brought up to date: the bounds of one node (RFC 0004, throttle).

A leader's node bounds what it sends, by `leader.replication.throttled.rate`. A follower's node bounds what all leaders
send it together, by `follower.replication.throttled.rate`: a leader asks it for credit before each chunk. Beside these,
which an operator sets, a node bounds what it sends to learners, by `replication.learner.bytes.per.second`.
"""

import asyncio
from collections.abc import Container
from typing import NamedTuple

from model.ids import NodeId
from raft.messages import RecoveryCreditReply
from raft.options import RaftOptions
from raft.token_bucket import TokenBucket


class ThrottledMembers(NamedTuple):
    """The nodes of one group that a bound holds for: `leaders` while they lead, `followers` while they lag."""

    leaders: Container[NodeId] = frozenset()
    followers: Container[NodeId] = frozenset()


class RecoveryThrottle:
    """The bounds of a node, over all its groups: of what it sends, of what it is sent, of what its learners get."""

    def __init__(self, options: RaftOptions) -> None:
        self.sending = TokenBucket(options.leader_throttled_rate)
        self.receiving = TokenBucket(options.follower_throttled_rate)
        self.teaching = TokenBucket(options.learner_rate)
        self._changed = asyncio.Event()

    def change(self, options: RaftOptions, now: float) -> None:
        """Take over the rates; whoever waits here looks at once whether it still has to."""
        before = self._rates
        self.sending.change(options.leader_throttled_rate, now)
        self.receiving.change(options.follower_throttled_rate, now)
        self.teaching.change(options.learner_rate, now)
        if self._rates != before:
            self._changed.set()
            self._changed = asyncio.Event()

    @property
    def _rates(self) -> tuple[int, ...]:
        return self.sending.rate, self.receiving.rate, self.teaching.rate

    async def pause(self, seconds: float) -> None:
        """Wait, at most until a rate changes here."""
        changed = self._changed
        try:
            async with asyncio.timeout(seconds):
                await changed.wait()
        except TimeoutError:
            pass

    def give_credit(self, size: int, now: float) -> RecoveryCreditReply:
        """Answer a leader that wants to send `size` bytes; 0: it wants to know the rate only."""
        if not self.receiving.is_limited:
            return RecoveryCreditReply(is_granted=True, wait_us=0, rate=-1)
        granted, seconds = self.receiving.reserve(size, now)
        return RecoveryCreditReply(granted, int(seconds * 1_000_000), self.receiving.rate)
