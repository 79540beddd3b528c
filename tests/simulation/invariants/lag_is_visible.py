"""RFC 0009, G5: the lag of consumer groups."""

from collections.abc import Mapping, Sequence

from cluster.groups.offsets_topic import OFFSETS_TOPIC, offsets_partition
from cluster.node import Node
from kafka_api.groups.coordinated_partition import CoordinatedPartition
from kafka_api.groups.lag import OTHER, LagReport
from model.ids import GroupId
from raft.replica_state import Role
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView, Standing


class LagIsVisible(Invariant):
    """A lag comes from a coordinator in office, from ends that were visible, and takes no unknown end for a known one."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        # The offset behind the last entry that any leader has shown.
        self._shown: dict[GroupId, int] = {}
        self._reporters: dict[str, int] = {}

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        now = view.now
        if now.role is not Role.LEADER or now.visible == 0:
            return
        last = view.at(now.visible)
        assert last is not None
        self._shown[view.group] = max(last.base_offset + last.record_count, self._shown.get(view.group, 0))

    def on_lag(self, node: Node, active: CoordinatedPartition, ends: Mapping[GroupId, int], report: LagReport) -> None:
        for group, end in ends.items():
            if end > self._shown.get(group, 0):
                self.violated(
                    None, f"{group}: a lag counts up to {end}, and only {self._shown.get(group, 0)} was visible"
                )
        known, unknown = 0, 0
        for (name, number), committed in active.table.offsets(report.group).items():
            topic = node.controller.topics.get(name)
            if topic is None or number >= len(topic.replicas) or committed.offset < 0:
                continue
            if topic.group(number) in ends:
                known += max(0, ends[topic.group(number)] - committed.offset)
            else:
                unknown += 1
        self.history.counts["group lags with unknown ends"] += unknown > 0
        if (report.lag_sum, report.unknown_partitions) != (known, unknown):
            what = f"{report} is told, and the ends say {known} with {unknown} unknown partitions"
            self.violated(None, f"node {node.options.node_id}: {what}")

    def on_lag_reports(self, node: Node, reports: Sequence[LagReport]) -> None:
        topic = node.controller.topics.get(OFFSETS_TOPIC)
        node_id = int(node.options.node_id)
        for report in reports:
            self.history.counts["group lags reported"] += 1
            self.history.counts["group lags above 0"] += report.lag_sum > 0
            if report.group == OTHER:
                continue
            if self._reporters.get(report.group, node_id) != node_id:
                self.history.counts["group lags of another coordinator"] += 1
            self._reporters[report.group] = node_id
            assert topic is not None
            consensus = node.groups.get(topic.group(offsets_partition(report.group, len(topic.replicas))))
            if consensus is None or not consensus.state.is_in_office:
                self.violated(None, f"node {node_id} reports {report}, and is not in office for the group")
