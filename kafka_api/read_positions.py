"""From where on one connection was last answered records of each partition.

A client that reads forward has found what it got whole. One that asks again may not have: its check of a batch's CRC
may have failed. It gets what is read and checked now (RFC 0002 section 14).
"""

from model.ids import GroupId, Offset

# Partitions of one connection; of others it gets what is read and checked.
PARTITIONS_MAX = 1024


class ReadPositions:
    """One connection's. The partition that was answered longest ago gives way."""

    def __init__(self) -> None:
        self._offsets: dict[GroupId, Offset] = {}

    def reads_forward(self, group: GroupId, offset: Offset) -> bool:
        """Whether this connection was last answered from a lower offset than `offset` on.

        Not from where the answer ended: a client that takes 500 records at a time asks for a batch of 10,000 often, and
        has found it whole since its first 500. One that stopped at a later batch of its answer is believed once.
        """
        before = self._offsets.get(group)
        return before is not None and before < offset

    def note(self, group: GroupId, offset: Offset) -> None:
        """The connection is answered records from `offset` on."""
        self._offsets.pop(group, None)
        self._offsets[group] = offset
        if len(self._offsets) > PARTITIONS_MAX:
            del self._offsets[next(iter(self._offsets))]
