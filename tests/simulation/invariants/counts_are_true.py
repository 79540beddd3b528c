"""W8 of the metrics: what a broker counts of partitions and of the cluster."""

from cluster.health_counts import ClusterCounts, LedCounts
from cluster.node import Node
from model.ids import RAFT0
from tests.simulation.invariants.invariant import Invariant


class CountsAreTrue(Invariant):
    """A broker counts as led what it leads in office, and the cluster only while it leads raft0 in office."""

    def on_counted(self, node: Node, life: int, led: LedCounts, cluster: ClusterCounts | None) -> None:
        node_id, controller = node.options.node_id, node.controller
        in_office = [each for each in node.groups if each.group != RAFT0 and each.state.is_in_office]
        served = [each for each in in_office if node.partitions.get(each.group) is not None]
        if led.partitions_led != len(served):
            self.violated(None, f"node {node_id} counts {led.partitions_led} partitions as led, {len(served)} are")
        # A stalled partition may be one that this broker led last.
        if max(led.under_replicated, led.under_min_isr) > led.partitions_led:
            self.violated(None, f"node {node_id} counts more partitions in trouble than it leads: {led}")
        self.history.counts["partitions counted as under-replicated"] += led.under_replicated
        self.history.counts["partitions counted as stalled"] += led.stalled
        if cluster is None:
            return
        state = controller.consensus.state
        if not state.is_in_office:
            self.violated(None, f"node {node_id} counts {cluster}, and does not lead raft0 in office")
        partitions = sum(len(topic.replicas) for topic in controller.topics.all())
        if not 0 <= cluster.alive <= cluster.brokers or cluster.offline_partitions > partitions:
            self.violated(None, f"node {node_id} counts {cluster}, and there are {partitions} partitions")
        self.history.counts["partitions counted as offline"] += cluster.offline_partitions
