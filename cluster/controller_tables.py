"""Brokers, topics and producer ids: what raft0's commands have made of them, with the format of their snapshot.

State bytes: format version u8 = 1, then blocks of a length (u32, little endian) and msgpack: first `_SavedHead`, then
a `_SavedTopic` for each topic in order of name. They lie in checksummed files only.
"""

import struct
from collections.abc import Generator, Iterator
from typing import Annotated, NamedTuple

import msgspec

from cluster.commands import (
    AllocateProducerIds,
    AlterTopicConfigs,
    BrokerRecord,
    Command,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    RegisterBroker,
)
from cluster.members_table import MembersTable
from cluster.producer_id_table import ProducerIdTable
from cluster.topic_table import Topic, TopicTable
from model.ids import DirectoryId, NodeId, Replica, TopicId
from model.topic_config import TopicConfig, resolve_topic_config
from storage.errors import CorruptLogError

FORMAT_VERSION = 1

_LENGTH = struct.Struct("<I")


class _SavedHead(msgspec.Struct, frozen=True, array_like=True):
    brokers: list[BrokerRecord]
    next_producer_id: int
    # (node id, directory id) of every replica there is: topics name them by their place in this list.
    replicas: list[tuple[int, str]]
    topics: int


class _SavedTopic(msgspec.Struct, frozen=True, array_like=True):
    name: str
    topic_id: str
    partitions: list[list[Annotated[int, msgspec.Meta(ge=0)]]]
    overrides: dict[str, str]
    older_producers: int


class TableContents(NamedTuple):
    """What a snapshot says."""

    brokers: list[BrokerRecord]
    next_producer_id: int
    topics: list[Topic]


_encoder = msgspec.msgpack.Encoder()
_head_decoder: msgspec.msgpack.Decoder[_SavedHead] = msgspec.msgpack.Decoder(_SavedHead)
_topic_decoder: msgspec.msgpack.Decoder[_SavedTopic] = msgspec.msgpack.Decoder(_SavedTopic)


class ControllerTables:
    """See the module. `topic_defaults` fill what a topic leaves open."""

    def __init__(self, topic_defaults: TopicConfig) -> None:
        self.members = MembersTable()
        self.topics = TopicTable(topic_defaults)
        self.producer_ids = ProducerIdTable()

    def apply(self, command: Command) -> None:
        """Change the table that the command is for.

        Raises:
            ClusterError: The table refuses it, and is as before.
        """
        match command:
            case RegisterBroker(broker):
                self.members.apply_register(broker)
            case CreateTopic() as create:
                self.topics.apply_create(create, self.producer_ids.next_id)
            case DeleteTopic(topic_id):
                self.topics.apply_delete(TopicId(topic_id))
            case CreatePartitions() as grow:
                self.topics.apply_create_partitions(grow)
            case AlterTopicConfigs() as alter:
                self.topics.apply_alter_configs(alter)
            case AllocateProducerIds() as block:
                self.producer_ids.apply_allocate(block)

    def encode(self) -> Iterator[bytes]:
        """Yield the tables as state bytes: the same on every node that has applied as much.

        They must not change before the end.
        """
        topics = self.topics.all()
        replicas = sorted({replica for topic in topics for partition in topic.replicas for replica in partition})
        places = {replica: place for place, replica in enumerate(replicas)}
        pairs: list[tuple[int, str]] = [(replica.node_id, replica.directory_id) for replica in replicas]
        head = _SavedHead(self.members.all(), self.producer_ids.next_id, pairs, len(topics))
        yield bytes([FORMAT_VERSION]) + _block(head)
        for topic in topics:
            partitions = [[places[replica] for replica in partition] for partition in topic.replicas]
            yield _block(
                _SavedTopic(topic.name, topic.topic_id, partitions, dict(topic.overrides), topic.older_producers)
            )

    def decode(self, state: bytes) -> Generator[None, None, TableContents]:
        """Return, after some steps, what `encode` has yielded; the tables stay as they are.

        Raises:
            CorruptLogError: Not written by `encode`, or by a newer version.
        """
        if state[:1] != bytes([FORMAT_VERSION]):
            found = state[0] if state else None
            raise CorruptLogError(f"controller state of format {found}, this version reads {FORMAT_VERSION}")
        try:
            blocks = _blocks(state)
            head = _head_decoder.decode(next(blocks, b""))
            replicas = [Replica(NodeId(node), DirectoryId(directory)) for node, directory in head.replicas]
            topics = []
            for block in blocks:
                topics.append(self._topic(_topic_decoder.decode(block), replicas))
                yield
        except (msgspec.MsgspecError, UnicodeDecodeError, struct.error, ValueError, IndexError) as error:
            raise CorruptLogError(f"controller state cannot be read: {error}") from error
        if len(topics) != head.topics:
            raise CorruptLogError(f"controller state has {len(topics)} of {head.topics} topics")
        return TableContents(head.brokers, head.next_producer_id, topics)

    def replace(self, contents: TableContents) -> None:
        """Let the tables be what a snapshot says, which is a later moment of the same log."""
        self.members.replace(contents.brokers)
        self.producer_ids.next_id = contents.next_producer_id
        self.topics.replace(contents.topics)

    def clear(self) -> None:
        """Begin from nothing, and tell nobody: what was here is read again."""
        self.members.replace([])
        self.producer_ids.next_id = 0
        self.topics.clear()

    def _topic(self, saved: _SavedTopic, replicas: list[Replica]) -> Topic:
        return Topic(
            saved.name,
            TopicId(saved.topic_id),
            tuple(tuple(replicas[place] for place in partition) for partition in saved.partitions),
            saved.overrides,
            resolve_topic_config(saved.overrides, self.topics.defaults),
            saved.older_producers,
        )


def _block(saved: msgspec.Struct) -> bytes:
    encoded = _encoder.encode(saved)
    return _LENGTH.pack(len(encoded)) + encoded


def _blocks(state: bytes) -> Iterator[bytes]:
    position = 1
    while position < len(state):
        (length,) = _LENGTH.unpack_from(state, position)
        position += _LENGTH.size
        if length > len(state) - position:
            raise ValueError(f"a block of {length} bytes at {position}, the state ends at {len(state)}")
        yield state[position : position + length]
        position += length
