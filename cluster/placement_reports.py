"""Tells raft0's leader each second which partitions have the voters that they were moved to, until the table says so.

A replica knows it that was in office when the last configuration was committed, or that has come into office since
(`raft.reconfiguration_stm`). What is committed stays so: a report of a leader that was deposed is true, too.
"""

import asyncio
import logging

from cluster.errors import ClusterError
from cluster.placements import PlacementReport, Placements, ReachedPlacement
from cluster.topic_table import TopicTable
from raft.group_manager import GroupManager
from runtime.gate import Gate

_logger = logging.getLogger("cluster")
_INTERVAL = 1.0
_TIMEOUT = 5.0
# Of one message.
_REACHED_MAX = 1000


class PlacementReports:
    """See the module. While nothing moves, nothing runs."""

    def __init__(self, topics: TopicTable, groups: GroupManager, placements: Placements) -> None:
        self._topics = topics
        self._groups = groups
        self._placements = placements
        self._gate = Gate("placement-reports")
        self._is_running = False

    def start(self) -> None:
        """Begin to look; the table may say already that something moves."""
        self._topics.add_listener(self._look)
        self._look()

    async def stop(self) -> None:
        """Report nothing more."""
        await self._gate.close()

    def _look(self) -> None:
        if not self._is_running and self._topics.is_moving and not self._gate.is_closed:
            self._is_running = True
            self._gate.spawn(self._run(), name="report")

    async def _run(self) -> None:
        try:
            while self._topics.is_moving:
                await asyncio.sleep(_INTERVAL)
                reached = self._reached()
                if reached:
                    await self._report(reached[:_REACHED_MAX])
        finally:
            self._is_running = False

    async def _report(self, reached: list[ReachedPlacement]) -> None:
        try:
            await self._placements.report(PlacementReport(reached, _TIMEOUT))
        except ClusterError as error:
            _logger.info("that %d partitions were moved is not told yet: %s", len(reached), error)

    def _reached(self) -> list[ReachedPlacement]:
        found: list[ReachedPlacement] = []
        for topic in self._topics.all():
            for number in topic.placements:
                move, consensus = topic.move_of(number), self._groups.get(topic.group(number))
                if move is None or consensus is None:
                    continue
                way = consensus.reconfiguration
                if way.has_reached and way.target is not None and way.target.revision == move.revision:
                    found.append(ReachedPlacement(topic.group(number), move.revision))
        return found
