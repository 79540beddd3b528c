"""Which partitions have more to read: under `--exit-at-end` up to where they ended when somebody asked."""

from collections.abc import Iterable

from raftka.kafka import offsets as kafka_offsets


class PartitionEnds:
    """Where reading ends in the partitions of a topic.

    Attributes:
        unfinished: The numbers of those that are not read to their ends yet.
    """

    def __init__(self, brokers: str, topic: str) -> None:
        self._brokers = brokers
        self._topic = topic
        self._ends: dict[int, int] = {}
        self.unfinished: set[int] = set()

    def ask(self, partitions: Iterable[int]) -> dict[int, int]:
        """Note where partitions end at this moment, unless it was noted before, and return what is known.

        Whoever waited for a partition with nothing more to give would wait for ever beside a producer.
        """
        wanted = [(self._topic, partition) for partition in partitions if partition not in self._ends]
        found = kafka_offsets.known_ends(self._brokers, wanted)
        self._ends |= {partition: end for (_, partition), end in found.items()}
        return self._ends

    def admits(self, partition: int, offset: int) -> bool:
        """Return whether a record lies before the end; it counts as read."""
        end = self._ends.get(partition)
        if end is None:
            return True
        if offset + 1 >= end:
            self.unfinished.discard(partition)
        return offset < end

    def on_nothing_left(self, partition: int) -> None:
        """A partition has no more: it ends there, though compaction or a transaction may have left a gap to its end."""
        self.unfinished.discard(partition)
