"""The node's counters and positions as Prometheus text, collected when they are asked for."""

import dataclasses
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from cluster.node import Node
from raftka.broker.bounds import node_fills


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
            "raftka_append_buffer_bytes",
            "Bytes of leaders' requests that wait for the logs of the followers here.",
            limits.append_buffers.bytes.taken,
        )
        yield CounterMetricFamily(
            "raftka_append_buffer_refused",
            "Requests of leaders that were answered BUSY because the followers here hold too much.",
            limits.append_buffers.refused,
        )
        yield GaugeMetricFamily(
            "raftka_disk_spare_bytes",
            "Free bytes above disk.reserve.bytes; negative below it.",
            limits.disk.spare_bytes,
        )
        files = self._node.groups.open_files.descriptors
        yield GaugeMetricFamily("raftka_segment_files_open", "Files of segments that are open.", files.open_count)
        yield GaugeMetricFamily("raftka_segment_files_max", "How many of them may be open together now.", files.bound)
        yield CounterMetricFamily(
            "raftka_descriptors_refused", "Total descriptors that the kernel has refused to logs.", files.refused
        )
        yield from self._bounds()
        yield from self._links()
        yield from self._telemetry()
        yield from self._partitions()

    def _bounds(self) -> Iterator[Metric]:
        labels = ["what", "unit"]
        used = GaugeMetricFamily("raftka_bound_used", "How much there is of what has a bound.", labels=labels)
        most = GaugeMetricFamily("raftka_bound_max", "How much there may be of it.", labels=labels)
        refusals = CounterMetricFamily("raftka_bound_refusals", "Requests refused because of a bound.", labels=labels)
        for fill in node_fills(self._node):
            for family, value in ((used, fill.used), (most, fill.maximum), (refusals, fill.refused)):
                family.add_metric([fill.name, fill.unit], value)
        yield from (used, most, refusals)

    def _links(self) -> Iterator[Metric]:
        unsent = GaugeMetricFamily(
            "raftka_link_unsent_bytes", "Bytes for another broker that the kernel has not taken yet.", labels=["peer"]
        )
        refused = CounterMetricFamily(
            "raftka_link_refused_requests",
            "Requests to another broker that were not sent because too much was unsent.",
            labels=["peer"],
        )
        for link in self._node.links.outgoing():
            unsent.add_metric([str(link.node_id)], link.unsent_bytes)
            refused.add_metric([str(link.node_id)], link.refused_requests)
        damaged = CounterMetricFamily(
            "raftka_link_damaged",
            "Frames and requests of another broker that did not arrive as they were sent.",
            labels=["peer"],
        )
        for node_id, count in self._node.links.damaged.items():
            damaged.add_metric([str(node_id)], count)
        yield from (unsent, refused, damaged)

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
        families = {
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
            gauges, indexes = partition.gauges, partition.gauges.indexes
            values = {
                "leader": float(partition.is_in_office),
                "term": partition.leader_epoch,
                "start_offset": partition.start_offset,
                "end_offset": partition.end_offset,
                "unflushed_bytes": gauges.unflushed_bytes,
                "unreplicated_bytes": gauges.unreplicated_bytes,
                "size_bytes": partition.size_bytes,
                "dirty_index": indexes.dirty,
                "flushed_index": indexes.flushed,
                "commit_index": indexes.commit,
                "visible_index": indexes.visible,
            }
            for name, value in values.items():
                families[name].add_metric([partition.topic.name, str(partition.partition)], value)
        yield from families.values()


def render_metrics(node: Node, others: Sequence[Collector]) -> str:
    """Return the metrics of the node, of the process and of `others` as Prometheus text."""
    registry = CollectorRegistry()
    for collector in (*others, NodeCollector(node)):
        registry.register(collector)
    ProcessCollector(registry=registry)
    return generate_latest(registry).decode()
