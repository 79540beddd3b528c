"""Applies raft0's commands to the tables, the same on every node.

A command that the tables refuse (a name that was taken in the meantime) is refused on every node alike: the error is
part of the function, and the proposer at the leader is told.
"""

from cluster.commands import (
    AllocateProducerIds,
    AlterTopicConfigs,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    RegisterBroker,
    decode_command,
)
from cluster.errors import ClusterError
from cluster.members_table import MembersTable
from cluster.producer_id_table import ProducerIdTable
from cluster.topic_table import TopicTable
from model.ids import Index, TopicId
from storage.entry import Entry, EntryKind

# More than can be waiting for their outcome at once.
_REFUSALS_KEPT = 1024


class ControllerStm:
    """raft0's state machine."""

    def __init__(self, members: MembersTable, topics: TopicTable, producer_ids: ProducerIdTable) -> None:
        self._members = members
        self._topics = topics
        self._producer_ids = producer_ids
        # The last commands that were refused: a proposer learns its index only after the entry may be applied.
        self._refused: dict[Index, ClusterError] = {}

    def refusal(self, index: Index) -> ClusterError | None:
        """Return why the applied command at `index` was refused; None if it was taken (or is long past)."""
        return self._refused.get(index)

    def apply(self, entry: Entry) -> None:
        """Apply one committed entry; only commands change the tables."""
        if entry.kind is not EntryKind.COMMAND:
            return
        try:
            self._apply_command(entry)
        except ClusterError as refused:
            self._refused[entry.index] = refused
            if len(self._refused) > _REFUSALS_KEPT:
                del self._refused[next(iter(self._refused))]

    def _apply_command(self, entry: Entry) -> None:
        match decode_command(entry.payload):
            case RegisterBroker(broker):
                self._members.apply_register(broker)
            case CreateTopic() as create:
                self._topics.apply_create(create)
            case DeleteTopic(topic_id):
                self._topics.apply_delete(TopicId(topic_id))
            case CreatePartitions() as grow:
                self._topics.apply_create_partitions(grow)
            case AlterTopicConfigs() as alter:
                self._topics.apply_alter_configs(alter)
            case AllocateProducerIds() as block:
                self._producer_ids.apply_allocate(block)
