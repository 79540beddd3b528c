"""Which replicas of a topic are moved slowly: Kafka's `{leader,follower}.replication.throttled.replicas`.

A value is `*`, which stands for all replicas, or a list of `partition:broker`. An empty one stands for none.
"""

import re
from collections.abc import Container, Mapping
from functools import lru_cache

from model.ids import NodeId

ALL = "*"
_REPLICA = re.compile(r"([0-9]{1,9}):([0-9]{1,9})")
_NOBODY: frozenset[NodeId] = frozenset()


class _Everybody:
    """Contains each node."""

    def __contains__(self, node: object) -> bool:
        return True


class ThrottledReplicas:
    """One value: the brokers that it names, by partition."""

    def __init__(self, by_partition: Mapping[int, frozenset[NodeId]] | None) -> None:
        # None: all of them.
        self._by_partition = by_partition

    def of(self, partition: int) -> Container[NodeId]:
        """Return the brokers whose replica of a partition is named."""
        return _Everybody() if self._by_partition is None else self._by_partition.get(partition, _NOBODY)


# Each partition of a topic asks for the same two values after each change.
@lru_cache(maxsize=64)
def parse_throttled_replicas(text: str) -> ThrottledReplicas:
    """Read a value. Spaces around its parts do not count, and a replica may be named twice.

    Raises:
        ValueError: The text says what its first wrong part is.
    """
    words = [word for word in (part.strip() for part in text.split(",")) if word]
    if words == [ALL]:
        return ThrottledReplicas(None)
    found: dict[int, set[NodeId]] = {}
    for word in words:
        match = _REPLICA.fullmatch(word)
        if match is None:
            raise ValueError(f"{word[:40]!r} is no partition:broker; the value is {ALL} alone, or a list of these")
        found.setdefault(int(match[1]), set()).add(NodeId(int(match[2])))
    return ThrottledReplicas({partition: frozenset(nodes) for partition, nodes in found.items()})
