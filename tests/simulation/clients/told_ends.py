"""What answers say of partitions: judged at once, against what the replicas have done by then."""

from model.ids import GroupId
from tests.simulation.world.cluster import SimCluster


class ToldEnds:
    """What consumers and askers report to; partitions are those of the topic, by number."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster

    def committed(self, partition: int) -> int:
        """Return how many entries are committed: what a question that begins now must cover."""
        return len(self._cluster.history.committed_in(self._group(partition)))

    def latest(self, partition: int, committed: int, end: int) -> None:
        """A client has got a latest offset; `committed` is what it was when the client asked."""
        self._cluster.observer.latest(self._group(partition), committed, end)
        self._cluster.observer.told_end(self._group(partition), end)

    def high_watermark(self, partition: int, end: int) -> None:
        """A client has got a high watermark, with what it fetched."""
        self._cluster.observer.told_end(self._group(partition), end)

    def damaged(self, partition: int, host: str, reason: str) -> None:
        """A client has got a damaged batch from the broker at a host."""
        self._cluster.observer.damaged_answer(host, self._group(partition), reason, has_rotted=self.has_rotted(host))

    def has_rotted(self, host: str) -> bool:
        """Whether a bit of the disk of the broker at a host has flipped."""
        (machine,) = (each for each in self._cluster.world.nodes.values() if each.address == host)
        return machine.disk.counts["bits rotted"] > 0

    def group_offset(self, partition: int, offset: int) -> None:
        """A consumer group has committed an offset, or was told which one it had."""
        self._cluster.observer.group_offset(self._group(partition), offset)

    def _group(self, partition: int) -> GroupId:
        return self._cluster.data_groups()[partition]
