"""Lets the leaders of this node's groups delete what has outlived its retention (RFC 0008).

A partition keeps what its topic says; raft0 as many bytes of commands as the node says, because its snapshots hold
what they have led to.
"""

import asyncio
import logging
from collections.abc import Callable

from cluster.controller import Controller
from cluster.partition_manager import PartitionManager
from raft.errors import RaftError
from runtime.clock import WallClock
from runtime.gate import Gate
from storage.errors import StorageError

_logger = logging.getLogger("cluster")
_PROPOSAL_TIMEOUT = 10.0


class Retention:
    """One ticker per node. Only a leader in office proposes; every replica deletes when the proposal is committed."""

    def __init__(
        self,
        controller: Controller,
        controller_bytes: int,
        partitions: PartitionManager,
        wall_clock: WallClock,
        interval: Callable[[], float],
    ) -> None:
        self._controller = controller
        self._controller_bytes = controller_bytes
        self._partitions = partitions
        self._wall_clock = wall_clock
        self._interval = interval
        self._is_changed = asyncio.Event()
        self._gate = Gate("retention")

    def start(self) -> None:
        """Look every `interval()` seconds."""
        self._gate.spawn(self._run(), name="retention")

    async def stop(self) -> None:
        """Propose nothing more."""
        await self._gate.close()

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._interval()):
                    await self._is_changed.wait()
                self._is_changed.clear()
            except TimeoutError:
                await self.look()

    def on_interval(self) -> None:
        """The interval may have changed: it begins anew."""
        self._is_changed.set()

    async def look(self) -> None:
        """Look at raft0 and at every partition once, one after the other."""
        deadline = asyncio.get_running_loop().time() + self._interval()
        await self._look_at_raft0(deadline)
        for partition in self._partitions:
            if not partition.is_in_office:
                continue
            try:
                until = min(deadline, asyncio.get_running_loop().time() + _PROPOSAL_TIMEOUT)
                start = await partition.apply_retention(self._wall_clock.now_ms(), until)
            except (RaftError, StorageError) as error:
                # The next look tries again, here or at the next leader.
                partition.logger_of(_logger.name).info("nothing was deleted: %s", error)
            else:
                if start is not None:
                    logger = partition.logger_of(_logger.name)
                    logger.info("expired records are deleted, the log starts at offset %d", start)

    async def _look_at_raft0(self, deadline: float) -> None:
        if not self._controller.is_in_office:
            return
        until = min(deadline, asyncio.get_running_loop().time() + _PROPOSAL_TIMEOUT)
        try:
            moved = await self._controller.apply_retention(self._controller_bytes, self._wall_clock.now_ms(), until)
        except (RaftError, StorageError) as error:
            self._controller.consensus.logger_of(_logger.name).info("nothing was deleted: %s", error)
        else:
            if moved:
                logger = self._controller.consensus.logger_of(_logger.name)
                logger.info("the log begins later; the tables as of there are in its snapshots")
