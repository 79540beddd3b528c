"""What is measured of the node as a whole: bounds, links, disk, counters of Raft, and of the process."""

import dataclasses
import platform
from collections.abc import Mapping

from prometheus_client.process_collector import ProcessCollector

from cluster.node import Node
from cluster.state_bounds import Fill
from kafka_api.server import KafkaServer
from raftka.broker.bounds import fills_by_part
from raftka.broker.call_metrics import CallCollector
from raftka.broker.compaction_metrics import CompactionCollector
from raftka.broker.group_lag_metrics import GroupLagCollector
from raftka.broker.kafka_metrics import KafkaCollector
from raftka.broker.loop_watch import LoopWatch
from raftka.broker.metric_rows import SAMPLES_PER_SLICE, Row, Rows, RowSource
from raftka.broker.move_metrics import MoveCollector
from raftka.broker.partition_metrics import ClusterCollector, PartitionCollector, ReplicaCollector
from raftka.broker.stall_watch import StallWatch
from raftka.broker.transaction_metrics import TransactionCollector
from raftka.monitoring.catalogue import Path
from raftka.version import installed_version
from runtime.clock import WallClock


def row_sources(
    node: Node, server: KafkaServer, watch: LoopWatch, stalls: StallWatch
) -> Mapping[Path, tuple[RowSource, ...]]:
    """Return who is asked for each path."""
    return {
        Path.BROKER: (
            # First: who reads the clock in an answer knows that everything else is newer.
            ProcessMetrics(node.env.wall_clock),
            watch,
            ClusterCollector(node),
            PartitionCollector(node, server.traffic.names, stalls),
            MoveCollector(node),
            KafkaCollector(server),
            GroupLagCollector(server.group_lags),
            TransactionCollector(server.transactions, stalls.transactions),
            CompactionCollector(node.compactor),
            CallCollector(node.groups.call_figures),
            NodeCollector(node),
        ),
        Path.PARTITIONS: (ReplicaCollector(node),),
    }


class NodeCollector:
    """Reads one node; nothing is counted twice or kept here."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def rows(self, now: float) -> Rows:
        """Yield the rows of the node."""
        groups = self._node.groups
        for field in dataclasses.fields(groups.probe):
            yield Row(f"raftka_raft_{field.name}_total", getattr(groups.probe, field.name))
        yield Row("raftka_groups", len(groups))
        yield from self._failed_replicas()
        yield from self._disk(now)
        yield from self._bounds()
        yield from self._links()
        if self._node.telemetry is not None:
            for field in dataclasses.fields(self._node.telemetry.counts):
                yield Row(f"raftka_telemetry_{field.name}_total", getattr(self._node.telemetry.counts, field.name))

    def _failed_replicas(self) -> Rows:
        failed = len(self._node.backend.failed)
        for number, consensus in enumerate(self._node.groups, start=1):
            failed += (consensus.failure or consensus.damage) is not None
            if number % SAMPLES_PER_SLICE == 0:
                yield None
        yield Row("raftka_failed_replicas", failed)

    def _disk(self, now: float) -> Rows:
        groups, syncs = self._node.groups, self._node.kvstore_syncs
        yield Row("raftka_fsync_seconds", groups.fsyncs)
        yield Row("raftka_fsync_max_seconds", groups.fsyncs.longest(now))
        yield Row("raftka_kvstore_sync_seconds", syncs)
        yield Row("raftka_kvstore_sync_max_seconds", syncs.longest(now))
        yield Row("raftka_disk_in_doubt", float(groups.limits.stalls.doubt is not None))
        yield Row("raftka_disk_spare_bytes", groups.limits.disk.spare_bytes)
        files = groups.open_files.descriptors
        yield Row("raftka_segment_files_open", files.open_count)
        yield Row("raftka_segment_files_max", files.bound)
        yield Row("raftka_descriptors_refused_total", files.refused)

    def _bounds(self) -> Rows:
        fills: list[Fill] = []
        for number, of_part in enumerate(fills_by_part(self._node), start=1):
            fills += of_part
            if number % SAMPLES_PER_SLICE == 0:
                yield None
        for fill in fills:
            yield Row("raftka_bound_used", fill.used, (fill.name, fill.unit))
        for fill in fills:
            yield Row("raftka_bound_max", fill.maximum, (fill.name, fill.unit))
        for fill in fills:
            yield Row("raftka_bound_refusals_total", fill.refused, (fill.name, fill.unit))
        limits = self._node.groups.limits
        yield Row("raftka_batcher_bytes", limits.batcher_budget.taken)
        caches = self._node.groups.caches
        yield Row("raftka_read_cache_bytes", caches.read.used)
        yield Row("raftka_read_cache_reads_total", caches.read.reads)
        yield Row("raftka_read_ahead_reads_total", caches.ahead.reads)
        yield Row("raftka_file_reads_total", caches.ahead.file_reads)
        yield Row("raftka_sendfile_bytes_total", caches.verified.sent.total)
        yield Row("raftka_append_buffer_bytes", limits.append_buffers.bytes.taken)
        yield Row("raftka_append_buffer_refused_total", limits.append_buffers.refused)

    def _links(self) -> Rows:
        links = self._node.links.outgoing()
        for link in links:
            yield Row("raftka_link_unsent_bytes", link.unsent_bytes, (str(link.node_id),))
        for link in links:
            yield Row("raftka_link_refused_requests_total", link.refused_requests, (str(link.node_id),))
        for node_id, count in list(self._node.links.damaged.items()):
            yield Row("raftka_link_damaged_total", count, (str(node_id),))


class ProcessMetrics:
    """Version, clock, memory, CPU time and descriptors of this process; /proc is read by prometheus-client."""

    def __init__(self, clock: WallClock) -> None:
        self._clock = clock
        self._process = ProcessCollector(registry=None)
        self._labels = (installed_version(), platform.python_version())

    def rows(self, now: float) -> Rows:
        """Yield what the system tells."""
        yield Row("raftka_wall_clock_seconds", self._clock.now_ms() / 1000)
        yield Row("raftka_build_info", 1.0, self._labels)
        for metric in self._process.collect():
            for sample in metric.samples:
                yield Row(sample.name, sample.value)
