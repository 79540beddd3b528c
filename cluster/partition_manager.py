"""All partitions that have a replica on this node, by group. Filled by `controller_backend`."""

from collections.abc import Iterator

from cluster.partition import Partition
from model.ids import GroupId


class PartitionManager:
    """Local partitions by group."""

    def __init__(self) -> None:
        self._partitions: dict[GroupId, Partition] = {}

    def get(self, group: GroupId) -> Partition | None:
        """Return the local replica of a partition, None where this node holds none (yet)."""
        return self._partitions.get(group)

    def add(self, group: GroupId, partition: Partition) -> None:
        """Make a started partition known."""
        assert group not in self._partitions
        self._partitions[group] = partition

    def discard(self, group: GroupId) -> Partition | None:
        """Take a partition out before its group is removed."""
        return self._partitions.pop(group, None)

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)
