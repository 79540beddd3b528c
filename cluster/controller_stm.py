"""Applies raft0's commands to the tables, the same on every node.

A command that the tables refuse (a name that was taken in the meantime) is refused on every node alike: the error is
part of the function, and the proposer at the leader is told.
"""

import asyncio

from cluster.commands import CreateTopic, DeleteTopic, RegisterBroker, decode_command
from cluster.errors import ClusterError
from cluster.members_table import MembersTable
from cluster.topic_table import TopicTable
from model.ids import Index, TopicId
from storage.entry import Entry, EntryKind


class ControllerStm:
    """raft0's state machine."""

    def __init__(self, members: MembersTable, topics: TopicTable) -> None:
        self._members = members
        self._topics = topics
        self._proposers: dict[Index, asyncio.Future[None]] = {}

    def expect(self, index: Index) -> asyncio.Future[None]:
        """Return a future that ends when the command at `index` is applied, with the error that refused it if any."""
        future = asyncio.get_running_loop().create_future()
        self._proposers[index] = future
        future.add_done_callback(lambda _: self._proposers.pop(index, None))
        return future

    def apply(self, entry: Entry) -> None:
        """Apply one committed entry; only commands change the tables."""
        if entry.kind is not EntryKind.COMMAND:
            return
        error: ClusterError | None = None
        try:
            self._apply_command(entry)
        except ClusterError as refused:
            error = refused
        proposer = self._proposers.get(entry.index)
        if proposer is None or proposer.done():
            return
        if error is None:
            proposer.set_result(None)
        else:
            proposer.set_exception(error)

    def _apply_command(self, entry: Entry) -> None:
        match decode_command(entry.payload):
            case RegisterBroker(broker):
                self._members.apply_register(broker)
            case CreateTopic() as create:
                self._topics.apply_create(create)
            case DeleteTopic(topic_id):
                self._topics.apply_delete(TopicId(topic_id))
