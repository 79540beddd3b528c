"""For how long transactions have been open in the replicas here, as this broker has seen it itself.

Timestamps of batches come from clients and may be of any time. So a transaction's age is counted from the first look at
which this broker saw it open: it is at least so old. Followers see transactions, too, so a new leader knows their age.
After a broker's restart it counts from 0 again.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from cluster.partition import Partition
from cluster.transactions.open_transactions import Transaction
from model.ids import GroupId, Offset
from raftka.health.picture import HANGING_MARGIN_SECONDS

# Of each partition, the earliest ones. The first of them holds up readers; the others would, once that one has ended.
PER_PARTITION_MAX = 10

# What stays the same of a transaction when a replica is restored from a snapshot.
_Key = tuple[GroupId, int, int, Offset]


class SeenTransaction(NamedTuple):
    """A transaction that was open at the last look.

    Attributes:
        partition: The replica here.
        transaction: As the replica has it; its marker may have come since.
        since: Loop time at which it was seen first.
    """

    partition: Partition
    transaction: Transaction
    since: float

    def is_told(self) -> bool:
        """Whether it is still open, and this broker leads the partition in office."""
        return self.transaction.marker_index is None and self.partition.is_in_office


class TransactionWatch:
    """See the module. Its owner looks at all partitions, in steps; replicas without an open transaction cost one look.

    Args:
        max_timeout_seconds: Returns `transaction.max.timeout.ms`, in seconds.
    """

    def __init__(self, max_timeout_seconds: Callable[[], float] = lambda: 900.0) -> None:
        self._max_timeout_seconds = max_timeout_seconds
        self._seen: dict[_Key, SeenTransaction] = {}
        self._holders: list[Partition] = []
        self._next: dict[_Key, SeenTransaction] = {}
        self._next_holders: list[Partition] = []

    def look_at(self, partition: Partition, now: float) -> None:
        """Note what is open in one partition, at loop time `now`."""
        state = partition.transactional
        if state is None or not state.transactions.is_open:
            return
        self._next_holders.append(partition)
        for each in islice(state.transactions.open_at(state.visible()), PER_PARTITION_MAX):
            key = (partition.group, each.producer_id, each.epoch, each.first_offset)
            before = self._seen.get(key)
            self._next[key] = SeenTransaction(partition, each, now if before is None else before.since)

    def end_look(self) -> None:
        """All partitions were looked at."""
        self._seen, self._holders = self._next, self._next_holders
        self._next, self._next_holders = {}, []

    def led(self) -> Iterator[SeenTransaction]:
        """Yield what is open in partitions that are led here, PER_PARTITION_MAX of each at most."""
        return (each for each in self._seen.values() if each.is_told())

    def holders(self) -> list[Partition]:
        """Return the partitions that are led here in office and had something open at the last look."""
        return [each for each in self._holders if each.is_in_office]

    @property
    def max_timeout_seconds(self) -> float:
        """For how long a producer may keep a transaction open."""
        return self._max_timeout_seconds()

    def hangs(self, seen: SeenTransaction, now: float) -> bool:
        """Whether its coordinator should have ended it by `now` (loop time), whatever its producer has asked for."""
        return now - seen.since > self.max_timeout_seconds + HANGING_MARGIN_SECONDS
