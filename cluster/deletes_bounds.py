"""Asks how far the members of compacted groups are clean, and tells them the bound of deletes (RFC 0022, section 4)."""

import asyncio
from collections.abc import Callable, Iterable

from raft.client import RaftClient
from raft.compaction_bounds import ask_for_clean_indexes
from raft.consensus import Consensus
from runtime.gate import Gate

_INTERVAL_SECONDS = 10.0


class DeletesBounds:
    """One ticker per node; leaders ask.

    Args:
        client: Asks the other brokers.
        compacted: Returns this node's replicas of compacted partitions.
    """

    def __init__(self, client: RaftClient, compacted: Callable[[], Iterable[Consensus]]) -> None:
        self._client = client
        self._compacted = compacted
        self._gate = Gate("bounds of deletes")

    def start(self) -> None:
        """Ask every 10 s."""
        self._gate.spawn(self._run(), name="bounds of deletes")

    async def stop(self) -> None:
        """Ask no more."""
        await self._gate.close()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_INTERVAL_SECONDS)
            ask_for_clean_indexes(self._client, self._compacted())
