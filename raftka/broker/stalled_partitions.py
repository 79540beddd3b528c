"""Which partitions that this broker leads commit nothing though there is something to commit.

A leader steps down if no majority answers it. It stays if a majority answers and does not make its entries durable, for
example because two disks hang: then only the commit index tells.
"""

import asyncio
from typing import NamedTuple

from cluster.partition import Partition
from cluster.partition_manager import PartitionManager
from model.ids import GroupId, Index, Term
from raftka.health.picture import STALLED_SECONDS
from runtime.gate import Gate

_LOOK_SECONDS = 1.0
# Other tasks run after so many partitions.
_PARTITIONS_PER_STEP = 100


class _Waiting(NamedTuple):
    """Entries above `commit` wait since `since` (loop time), and `commit` has not moved in this term meanwhile."""

    term: Term
    commit: Index
    since: float


class StalledPartitions:
    """Looks once a second; `start` begins, `stop` ends it."""

    def __init__(self, partitions: PartitionManager) -> None:
        self._partitions = partitions
        self._waiting: dict[GroupId, _Waiting] = {}
        self._gate = Gate("stalled-partitions")

    def start(self) -> None:
        """Begin to look."""
        self._gate.spawn(self._run(), name="look")

    async def stop(self) -> None:
        """Look no more."""
        await self._gate.close()

    def groups(self) -> set[GroupId]:
        """Return the groups whose newest entries are not committed for STALLED_SECONDS, nor any others meanwhile."""
        oldest = asyncio.get_running_loop().time() - STALLED_SECONDS
        return {group for group, waiting in self._waiting.items() if waiting.since <= oldest}

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Compare the positions of each partition that is led here with those of the last look."""
        waiting = {}
        for count, partition in enumerate(self._partitions, 1):
            found = self._waiting_since(partition)
            if found is not None:
                waiting[partition.group] = found
            if count % _PARTITIONS_PER_STEP == 0:
                await asyncio.sleep(0)
        self._waiting = waiting

    def _waiting_since(self, partition: Partition) -> _Waiting | None:
        indexes = partition.gauges.indexes
        if not partition.is_in_office or indexes.dirty <= indexes.commit:
            return None
        known = self._waiting.get(partition.group)
        if known is not None and (known.term, known.commit) == (partition.leader_epoch, indexes.commit):
            return known
        return _Waiting(partition.leader_epoch, indexes.commit, asyncio.get_running_loop().time())
