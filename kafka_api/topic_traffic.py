"""Bytes and records that clients write and read, by topic: so many topics, later ones add up (RFC 0017)."""

from collections.abc import Iterable

from cluster.topic_table import Topic, TopicTable
from model.bounded_names import BoundedNames
from model.record_batch import unpack_record_count
from storage.entry import Buffer
from storage.file_range import FileRange

TOPICS_MAX = 1_000


class Traffic:
    """Counts since the start, or since the topic was created."""

    __slots__ = ("bytes_in", "bytes_out", "records_in", "records_out")

    def __init__(self) -> None:
        self.bytes_in = self.records_in = self.bytes_out = self.records_out = 0


class TopicTraffic:
    """One per listener.

    Attributes:
        names: The topics that have figures of their own, here and in what else is measured by topic.
    """

    def __init__(self, topics: TopicTable) -> None:
        self.names = BoundedNames(TOPICS_MAX, lambda name: topics.get(name) is not None)
        self._by_label: dict[str, Traffic] = {}
        topics.add_delete_listener(self._on_deleted)

    def count_in(self, topic: str, size: int, records: int) -> None:
        """A producer has written a batch of `size` bytes."""
        traffic = self._by_label.get(topic) or self._of(topic)
        traffic.bytes_in += size
        traffic.records_in += records

    def count_out(self, topic: str, batches: Iterable[Buffer | FileRange]) -> None:
        """Whole batches are answered to a consumer."""
        traffic = self._of(topic)
        for batch in batches:
            traffic.bytes_out += len(batch)
            if isinstance(batch, FileRange):
                traffic.records_out += batch.record_count
            else:
                traffic.records_out += unpack_record_count(batch)[0]

    def all(self) -> list[tuple[str, Traffic]]:
        """Return the label of each topic and its figures."""
        return list(self._by_label.items())

    def _of(self, topic: str) -> Traffic:
        traffic = self._by_label.get(topic)
        if traffic is None:
            traffic = self._by_label.setdefault(self.names.label(topic), Traffic())
        return traffic

    def _on_deleted(self, topic: Topic) -> None:
        self.names.forget(topic.name)
        self._by_label.pop(topic.name, None)
