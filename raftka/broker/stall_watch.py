"""Which partitions are stalled: an entry of their newest leader, this broker, was not committed for ten seconds.

A leader that has lost its majority steps down after 1.5 s. Its partition stays stalled here until its entries are
committed or truncated, or another broker leads: otherwise nobody would count it.
"""

import asyncio
from typing import NamedTuple

from cluster.node import Node
from cluster.partition import Partition
from model.ids import GroupId, Index
from raftka.health.picture import STALLED_SECONDS
from runtime.gate import Gate

_LOOK_SECONDS = 1.0
_PARTITIONS_PER_STEP = 100


class _Waiting(NamedTuple):
    """The last entry of a log when it was looked at, and since when it waits."""

    last_index: Index
    since: float


class StallWatch:
    """Looks at every partition once a second."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._waiting: dict[GroupId, _Waiting] = {}
        self._stalled: set[GroupId] = set()
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
        for number, partition in enumerate(self._node.partitions, start=1):
            if self._is_stalled(partition, loop.time()):
                stalled.add(partition.group)
            if number % _PARTITIONS_PER_STEP == 0:
                await asyncio.sleep(0)
        self._stalled = stalled
        for group in [group for group in self._waiting if self._node.partitions.get(group) is None]:
            del self._waiting[group]

    def _is_stalled(self, partition: Partition, now: float) -> bool:
        group = partition.group
        indexes = partition.gauges.indexes
        is_waiting = indexes.dirty > indexes.commit and self._is_newest_leader(partition)
        if not is_waiting:
            self._waiting.pop(group, None)
            return False
        waiting = self._waiting.get(group)
        # An entry that was truncated waits no more, and one that is committed has moved on.
        if waiting is None or not indexes.commit < waiting.last_index <= indexes.dirty:
            waiting = self._waiting[group] = _Waiting(indexes.dirty, now)
        return now - waiting.since >= STALLED_SECONDS

    def _is_newest_leader(self, partition: Partition) -> bool:
        """Whether nobody else is known to have been in office since this broker was."""
        if partition.is_in_office:
            return True
        return self._node.leadership.newest_leader(partition.group) == self._node.options.node_id
