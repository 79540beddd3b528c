"""Who leads which partition, as brokers tell by Metadata: what a report draws, and what a nemesis aims at."""

import asyncio
from typing import NamedTuple

from raftka.chaos.history import now_ns
from raftka.chaos.load import Topics, tp_of
from raftka.kafka.wire.client import LostError, NotSentError, WireClient
from raftka.kafka.wire.requests import Metadata, PartitionState, metadata

_SAMPLE_SECONDS = 0.5
_ANSWER_SECONDS = 1.5


class Reign(NamedTuple):
    """From when on (nanoseconds) a node was known to lead a partition in an epoch."""

    tp: str
    since_ns: int
    leader: int
    epoch: int


class LeadershipWatch:
    """Asks every broker over and over; of several answers the one with the highest epoch counts."""

    def __init__(self, client: WireClient, topics: Topics) -> None:
        self._client = client
        self._topics = topics
        self._newest: dict[str, PartitionState] = {}
        self.reigns: list[Reign] = []
        self.controller = -1

    async def run(self) -> None:
        """Watch for ever."""
        while True:
            await self.look()
            await asyncio.sleep(_SAMPLE_SECONDS)

    async def look(self) -> list[Metadata]:
        """Ask every broker once, and return what was answered."""
        asked = (self._ask(address) for address in self._client.bootstrap)
        answers = [each for each in await asyncio.gather(*asked) if each is not None]
        for answer in answers:
            self._take(answer)
        return answers

    async def _ask(self, address: tuple[str, int]) -> Metadata | None:
        try:
            return await self._client.call(address, metadata(list(self._topics.names)), _ANSWER_SECONDS)
        except (NotSentError, LostError):
            return None

    def _take(self, answer: Metadata) -> None:
        self.controller = answer.controller if answer.controller >= 0 else self.controller
        for (topic, number), state in answer.partitions.items():
            tp = tp_of(topic, number)
            known = self._newest.get(tp)
            if state.leader < 0 or (known is not None and known.epoch > state.epoch):
                continue
            if known is None or (known.leader, known.epoch) != (state.leader, state.epoch):
                self.reigns.append(Reign(tp, now_ns(), state.leader, state.epoch))
            self._newest[tp] = state

    def leader_of(self, tp: str) -> int | None:
        """Return the newest leader that is known."""
        state = self._newest.get(tp)
        return None if state is None else state.leader

    async def why_not_well(self) -> str | None:
        """Return what is not well yet; None: every broker names the same leaders, and every replica is in sync."""
        answers = await self.look()
        if silent := len(self._client.bootstrap) - len(answers):
            return f"{silent} of {len(self._client.bootstrap)} brokers do not answer"
        for topic, number in self._topics.all:
            states = [answer.partitions.get((topic, number)) for answer in answers]
            if any(state is None or state.leader < 0 for state in states):
                return f"{tp_of(topic, number)} has no leader"
            leaders = {state.leader for state in states if state is not None}
            if len(leaders) > 1:
                return f"{tp_of(topic, number)} is led by {' or '.join(map(str, sorted(leaders)))}, brokers say"
            if any(sorted(state.in_sync) != sorted(state.replicas) for state in states if state is not None):
                return f"not all replicas of {tp_of(topic, number)} are in sync"
        return None
