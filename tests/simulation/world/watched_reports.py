"""Tells the invariants what a broker tells its operator: events, counts, and the lag of groups."""

import asyncio
from collections.abc import Iterable, Mapping

from cluster.events import EventKind
from cluster.node import Node
from kafka_api.groups.coordinated_partition import CoordinatedPartition
from kafka_api.groups.lag import GroupLags, LagReport
from kafka_api.server import KafkaServer
from model.ids import GroupId, Offset
from tests.simulation.world.observer import Observer
from tests.simulation.world.watched_partitions import reported

# A scrape comes each 15 s; nobody minds more of them here.
_LOOK_SECONDS = 0.25


def watch_events(node: Node, life: int, observer: Observer) -> None:
    """Watch each event from now on; before the node starts."""
    record = node.events.record

    def recorded(level: int, kind: EventKind, text: str, *, partition: str = "", term: int = 0) -> None:
        record(level, kind, text, partition=partition, term=term)
        with reported():
            observer.event(node, life, node.events.since(node.events.next_seq - 1)[0])

    node.events.record = recorded  # type: ignore[method-assign]


def watch_lags(node: Node, lags: GroupLags, life: int, observer: Observer) -> None:
    """Watch each comparison of a group with the ends of its partitions."""
    read, compare = node.visible_ends.read, lags.compare

    async def read_ends(groups: Iterable[GroupId]) -> dict[GroupId, Offset]:
        ends = await read(groups)
        with reported():
            # What this broker leads itself may have become visible in this very step.
            observer.observe(node, int(node.options.node_id), life)
        return ends

    def compared(active: CoordinatedPartition, group_id: str, ends: Mapping[GroupId, Offset]) -> LagReport:
        report = compare(active, group_id, ends)
        with reported():
            observer.lag(node, active, ends, report)
        return report

    node.visible_ends.read = read_ends  # type: ignore[method-assign]
    lags.compare = compared  # type: ignore[method-assign]


async def look_at_reports(node: Node, server: KafkaServer, life: int, observer: Observer) -> None:
    """Ask a broker again and again what it reports, as a scrape does, for as long as its process lives."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        with reported():
            observer.observe(node, int(node.options.node_id), life)
            observer.counted(node, life, node.health.led(), node.health.cluster())
            observer.lag_reports(node, server.group_lags.lag_reports())
