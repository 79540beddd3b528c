"""All partitions that have a replica on this node, by group. Filled by `controller_backend`."""

from collections.abc import Iterator

from cluster.partition import Partition
from model.ids import GroupId
from raft.link_names import LinkNames


class PartitionManager:
    """Local partitions by group; `link_names` has what messages call them."""

    def __init__(self, link_names: LinkNames) -> None:
        self.link_names = link_names
        self._partitions: dict[GroupId, Partition] = {}

    def get(self, group: GroupId) -> Partition | None:
        """Return the local replica of a partition, None where this node holds none (yet)."""
        return self._partitions.get(group)

    def named(self, link_name: str) -> Partition | None:
        """Return the local replica of the partition that a peer calls so; `get` takes the group's id."""
        group = self.link_names.group_of(link_name)
        return None if group is None else self._partitions.get(group)

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
