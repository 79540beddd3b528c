"""Which partitions are stalled (`cluster.health_counts`), which have a leader, and what is open there.

They are looked up in steps, for metrics and findings.
"""

import asyncio

from cluster.node import Node
from model.ids import GroupId
from raftka.broker.leader_memory import LeaderMemory
from raftka.broker.transaction_watch import TransactionWatch
from runtime.gate import Gate

_LOOK_SECONDS = 1.0
_PARTITIONS_PER_STEP = 100


class StallWatch:
    """Looks at every partition once a second.

    Attributes:
        transactions: What is open there, and for how long.
    """

    def __init__(self, node: Node, transactions: TransactionWatch | None = None) -> None:
        self._node = node
        self.transactions = transactions or TransactionWatch()
        self._stalled: set[GroupId] = set()
        self.leaders = LeaderMemory()
        self._gate = Gate("stall-watch")

    def start(self) -> None:
        """Begin to look."""
        self._gate.spawn(self._watch(), name="look")

    async def stop(self) -> None:
        """Look no more."""
        await self._gate.close()

    def groups(self) -> set[GroupId]:
        """Return the groups of the partitions that were stalled at the last look."""
        return self._stalled

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Look at all partitions; other tasks run after each hundred."""
        loop = asyncio.get_running_loop()
        stalled: set[GroupId] = set()
        seen: set[GroupId] = set()
        for number, partition in enumerate(self._node.partitions, start=1):
            seen.add(partition.group)
            has_leader = self._node.leadership.leader_of(partition.group) is not None
            self.leaders.is_missed(partition.group, loop.time(), has_leader=has_leader)
            if self._node.health.is_stalled(partition, loop.time()):
                stalled.add(partition.group)
            self.transactions.look_at(partition, loop.time())
            if number % _PARTITIONS_PER_STEP == 0:
                await asyncio.sleep(0)
        self._stalled = stalled
        self.leaders.keep(seen)
        self.transactions.end_look()
        self._node.health.forget_deleted()
