"""Tells raft0's leader each second what has the voters that it was moved to, until the table says so.

That may be a partition, or raft0 itself.

A replica knows it that was in office when the last configuration was committed, or that has come into office since
(`raft.reconfiguration_stm`). What is committed stays so: a report of a leader that was deposed is true, too.
"""

import asyncio
import logging
from collections.abc import Callable

from cluster.errors import ClusterError
from cluster.placements import PlacementReport, Placements, ReachedPlacement
from cluster.raft0_table import Raft0Table
from cluster.topic_table import TopicTable
from model.ids import RAFT0
from raft.group_manager import GroupManager
from runtime.gate import Gate

_logger = logging.getLogger("cluster")
_INTERVAL = 1.0
_TIMEOUT = 5.0
# Of one message.
_REACHED_MAX = 1000


class PlacementReports:
    """See the module. While nothing moves, nothing runs; `on_look` is called each second in which something does."""

    def __init__(
        self,
        topics: TopicTable,
        raft0: Raft0Table,
        groups: GroupManager,
        placements: Placements,
        on_look: Callable[[], object],
    ) -> None:
        self._topics = topics
        self._raft0 = raft0
        self._groups = groups
        self._placements = placements
        self._on_look = on_look
        self._gate = Gate("placement-reports")
        self._is_running = False

    def start(self) -> None:
        """Begin to look; the table may say already that something moves."""
        self._topics.add_listener(self._look)
        self._raft0.add_listener(self._look)
        self._look()

    async def stop(self) -> None:
        """Report nothing more."""
        await self._gate.close()

    @property
    def _is_moving(self) -> bool:
        return self._topics.is_moving or self._raft0.move is not None

    def _look(self) -> None:
        if not self._is_running and self._is_moving and not self._gate.is_closed:
            self._is_running = True
            self._gate.spawn(self._run(), name="report")

    async def _run(self) -> None:
        try:
            while self._is_moving:
                self._on_look()
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
            _logger.info("that %d groups were moved is not told yet: %s", len(reached), error)

    def _reached(self) -> list[ReachedPlacement]:
        found = self._reached_by_raft0()
        for topic in self._topics.all():
            for number in topic.placements:
                move, consensus = topic.move_of(number), self._groups.get(topic.group(number))
                if move is None or consensus is None:
                    continue
                way = consensus.reconfiguration
                if way.has_reached and way.target is not None and way.target.revision == move.revision:
                    name = self._groups.link_names.name_of(topic.group(number))
                    found.append(ReachedPlacement(name, move.revision))
        return found

    def _reached_by_raft0(self) -> list[ReachedPlacement]:
        move, consensus = self._raft0.move, self._groups.get(RAFT0)
        if move is None or consensus is None:
            return []
        way, target = consensus.reconfiguration, consensus.reconfiguration.target
        # A broker that came or went meanwhile has made the revision of the target a later one.
        if not way.has_reached or target is None or target.revision < move.revision:
            return []
        if frozenset(target.voters) != frozenset(move.target):
            return []
        return [ReachedPlacement(RAFT0, move.revision)]
