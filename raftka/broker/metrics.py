"""The node's counters and positions as Prometheus text, collected when they are asked for."""

import dataclasses
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from cluster.node import Node


class NodeCollector(Collector):
    """Reads one node; nothing is counted twice or kept here."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the raft package and of every local partition."""
        for field in dataclasses.fields(self._node.groups.probe):
            words = field.name.replace("_", " ")
            yield CounterMetricFamily(
                f"raftka_raft_{field.name}",
                f"Total {words} over all groups.",
                getattr(self._node.groups.probe, field.name),
            )
        yield GaugeMetricFamily("raftka_groups", "Raft groups with a replica here.", len(self._node.groups))
        limits = self._node.groups.limits
        yield GaugeMetricFamily(
            "raftka_batcher_bytes", "Bytes in the batchers of all groups.", limits.batcher_budget.taken
        )
        yield GaugeMetricFamily(
            "raftka_disk_spare_bytes",
            "Free bytes above disk.reserve.bytes; negative below it.",
            limits.disk.spare_bytes,
        )
        yield from self._telemetry()
        yield from self._partitions()

    def _telemetry(self) -> Iterator[Metric]:
        if self._node.telemetry is None:
            return
        for field in dataclasses.fields(self._node.telemetry.counts):
            yield CounterMetricFamily(
                f"raftka_telemetry_{field.name}",
                f"Telemetry: {field.name.replace('_', ' ')}.",
                getattr(self._node.telemetry.counts, field.name),
            )

    def _partitions(self) -> Iterator[Metric]:
        labels = ["topic", "partition"]
        gauges = {
            name: GaugeMetricFamily(f"raftka_partition_{name}", text, labels=labels)
            for name, text in (
                ("leader", "1 where this broker leads and serves the partition."),
                ("term", "Raft term: the leader epoch."),
                ("start_offset", "First offset that can be read."),
                ("end_offset", "Offset of the next record, visible or not."),
                ("unflushed_bytes", "Bytes written and not fsynced yet."),
                ("unreplicated_bytes", "Bytes that this leader has written and no majority has."),
                ("size_bytes", "Bytes of all segments."),
                ("dirty_index", "Last index written."),
                ("flushed_index", "Last index fsynced."),
                ("commit_index", "Last index committed."),
                ("visible_index", "Last index that consumers may read."),
            )
        }
        for partition in self._node.partitions:
            log, state = partition.consensus.log, partition.consensus.state
            values = {
                "leader": float(partition.is_in_office),
                "term": state.term,
                "start_offset": partition.start_offset,
                "end_offset": partition.end_offset,
                "unflushed_bytes": log.unflushed_bytes,
                "unreplicated_bytes": state.unreplicated.total,
                "size_bytes": log.size_bytes,
                "dirty_index": log.last_index,
                "flushed_index": log.flushed_index,
                "commit_index": state.commit_index,
                "visible_index": state.visible_index,
            }
            for name, value in values.items():
                gauges[name].add_metric([partition.topic.name, str(partition.partition)], value)
        yield from gauges.values()


def render_metrics(node: Node, others: Sequence[Collector]) -> str:
    """Return the metrics of the node, of the process and of `others` as Prometheus text."""
    registry = CollectorRegistry()
    for collector in (*others, NodeCollector(node)):
        registry.register(collector)
    ProcessCollector(registry=registry)
    return generate_latest(registry).decode()
