"""Up to where one connection was last answered records of each partition.

A client that goes on there has found the batches whole. One that asks for some of them again may not have: its check of
their CRCs may have failed. It gets what is read and checked now (RFC 0002 section 14).
"""

from model.ids import GroupId, Offset

# Partitions of one connection; of others it gets what is read and checked.
PARTITIONS_MAX = 1024


class ReadPositions:
    """One connection's. The partition that was answered longest ago gives way."""

    def __init__(self) -> None:
        self._ends: dict[GroupId, int] = {}

    def goes_on(self, group: GroupId, offset: Offset) -> bool:
        """Whether all that this connection was last answered of the partition lies below `offset`."""
        end = self._ends.get(group)
        return end is not None and end <= offset

    def note(self, group: GroupId, offset: Offset, records: int) -> None:
        """The connection is answered so many records, more than 0, of what it has asked for from `offset` on.

        The first batch may begin below `offset`: then the end is told too high, and one answer more is checked.
        """
        assert records > 0
        self._ends.pop(group, None)
        self._ends[group] = offset + records
        if len(self._ends) > PARTITIONS_MAX:
            del self._ends[next(iter(self._ends))]
