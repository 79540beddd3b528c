"""How far consumer groups are behind, as the coordinator in office and loaded measures it (RFC 0009, lag).

Lag of a partition: the visible end less the committed offset, never below 0. A partition whose end nobody in office
tells is unknown. It is counted apart, and adds nothing to the sum.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from cluster.node import Node
from kafka_api.groups.coordinated_partition import CoordinatedPartition
from model.ids import GroupId, Offset

# Groups with a row of their own. All others add up in the row OTHER.
GROUPS_MAX = 500
OTHER = "_other"
_POSITIONS_PER_STEP = 100


class LagReport(NamedTuple):
    """One group, as of the newest round.

    Attributes:
        group: Its id, or OTHER: all groups that have no row of their own, and one of that name.
        lag_sum, lag_max: Records behind the visible end, over the partitions whose end is known; 0 or more.
        unknown_partitions: Partitions with a committed offset whose end is not known.
        members: Members of the group now.
    """

    group: str
    lag_sum: int
    lag_max: int
    unknown_partitions: int
    members: int

    def plus(self, other: "LagReport") -> "LagReport":
        """Return both groups in one row, under this one's name."""
        return LagReport(
            self.group,
            self.lag_sum + other.lag_sum,
            max(self.lag_max, other.lag_max),
            self.unknown_partitions + other.unknown_partitions,
            self.members + other.members,
        )


class GroupLags:
    """Measures all groups that this broker keeps, each `interval_ms`.

    Args:
        node: The broker's node.
        kept: Returns the partitions of groups that are kept here.
        interval_ms: From the end of a round to the next one; 0: no rounds.
    """

    def __init__(self, node: Node, kept: Callable[[], Iterable[CoordinatedPartition]], interval_ms: int) -> None:
        self._node = node
        self._kept = kept
        self._interval_ms = interval_ms
        # Groups with a row of their own: a group that has one keeps it until it is deleted or kept elsewhere.
        self._named: dict[str, None] = {}
        self._rows: dict[CoordinatedPartition, Sequence[LagReport]] = {}

    async def run(self) -> None:
        """Measure until cancelled."""
        while self._interval_ms:
            await asyncio.sleep(self._interval_ms / 1000)
            await self.measure()

    def lag_reports(self) -> list[LagReport]:
        """Return a row per group, at most GROUPS_MAX and one of OTHER; none of what this broker keeps no longer."""
        found: list[LagReport] = []
        other: LagReport | None = None
        for active, rows in self._rows.items():
            # A coordinator out of office knows neither what is committed since, nor that it is out.
            if not _is_keeper(active):
                continue
            for row in rows:
                if row.group != OTHER:
                    found.append(row)
                else:
                    other = row if other is None else other.plus(row)
        return found if other is None else [*found, other]

    async def measure(self) -> None:
        """One round: ask for the ends of all partitions with a committed offset, then compare group by group."""
        kept = [active for active in self._kept() if _is_keeper(active)]
        self._named = {name: None for name in self._named if any(active.table.offsets(name) for active in kept)}
        ends = await self._node.visible_ends.read(await self._partitions(kept))
        rows = {active: await self._measured(active, ends) for active in kept}
        self._rows = {active: found for active, found in rows.items() if _is_keeper(active)}

    async def _partitions(self, kept: Iterable[CoordinatedPartition]) -> dict[GroupId, None]:
        found: dict[GroupId, None] = {}
        seen = 0
        for active in kept:
            for group_id in active.table.committed_group_ids():
                for topic, number in active.table.offsets(group_id):
                    group = self._group_of(topic, number)
                    if group is not None:
                        found[group] = None
                    seen += 1
                if seen >= _POSITIONS_PER_STEP:
                    seen = 0
                    await asyncio.sleep(0)
        return found

    async def _measured(self, active: CoordinatedPartition, ends: Mapping[GroupId, Offset]) -> list[LagReport]:
        rows: list[LagReport] = []
        other: LagReport | None = None
        seen = 0
        for group_id in active.table.committed_group_ids():
            offsets = active.table.offsets(group_id)
            if offsets:
                row = self.compare(active, group_id, ends)
                if self._has_row(group_id):
                    rows.append(row)
                else:
                    other = row._replace(group=OTHER) if other is None else other.plus(row)
            seen += 1 + len(offsets)
            if seen >= _POSITIONS_PER_STEP:
                seen = 0
                await asyncio.sleep(0)
        return rows if other is None else [*rows, other]

    def _has_row(self, group_id: str) -> bool:
        if group_id not in self._named and len(self._named) < GROUPS_MAX and group_id != OTHER:
            self._named[group_id] = None
        return group_id in self._named

    def compare(self, active: CoordinatedPartition, group_id: str, ends: Mapping[GroupId, Offset]) -> LagReport:
        """Return the lag of one group; a partition that `ends` does not name is unknown.

        Partitions of topics that exist no longer, and negative offsets, which no consumer goes on from, do not count.
        """
        lag_sum = lag_max = unknown = 0
        # The table holds what is committed and applied, never what only lies in the log.
        for (topic, number), committed in active.table.offsets(group_id).items():
            group = self._group_of(topic, number)
            if group is None or committed.offset < 0:
                continue
            end = ends.get(group)
            if end is None:
                # As 0 it would say that a group has read all of a partition that nobody can read.
                unknown += 1
                continue
            # Below 0: the offset was committed after the end was read, or names records that are lost.
            lag = max(end - committed.offset, 0)
            lag_sum += lag
            lag_max = max(lag_max, lag)
        held = active.held(group_id)
        return LagReport(group_id, lag_sum, lag_max, unknown, 0 if held is None else len(held.group.members))

    def _group_of(self, topic: str, number: int) -> GroupId | None:
        found = self._node.controller.topics.get(topic)
        return found.group(number) if found is not None and 0 <= number < len(found.replicas) else None


def _is_keeper(active: CoordinatedPartition) -> bool:
    return active.is_loaded and active.is_current
