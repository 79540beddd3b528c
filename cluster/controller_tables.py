"""Brokers, topics and producer ids: what raft0's commands have made of them, with the format of their snapshot.

State bytes: format version u8 = 1, then blocks of a length (u32, little endian) and msgpack: first `_SavedHead`, then
a `_SavedTopic` for each topic in order of name. They lie in checksummed files only.
"""

import struct
from collections.abc import Generator, Iterator
from dataclasses import replace
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
    are_replicas,
    is_topic_id,
)
from cluster.controller_sizes import ControllerSizes, TopicPart, reserve_bytes, topic_part
from cluster.members_table import MembersTable
from cluster.producer_id_table import ProducerIdTable
from cluster.topic_table import Topic, TopicTable, placements
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
    sizes: ControllerSizes


_encoder = msgspec.msgpack.Encoder()
_head_decoder: msgspec.msgpack.Decoder[_SavedHead] = msgspec.msgpack.Decoder(_SavedHead)
_topic_decoder: msgspec.msgpack.Decoder[_SavedTopic] = msgspec.msgpack.Decoder(_SavedTopic)


class ControllerTables:
    """See the module. `topic_defaults` fill what a topic leaves open."""

    def __init__(self, topic_defaults: TopicConfig) -> None:
        self.members = MembersTable()
        self.topics = TopicTable(topic_defaults)
        self.producer_ids = ProducerIdTable()
        self._sizes = ControllerSizes()

    # -- how large ----------------------------------------------------------------------------------------------

    @property
    def size_bytes(self) -> int:
        """What `encode` yields, in bytes; a close upper bound of it where there are more than 128 replicas."""
        return self._sizes.total(self.members.all(), self.producer_ids.next_id)

    def size_with(self, command: Command) -> int:
        """Return what `size_bytes` is once the command is applied to these tables, if it is taken."""
        brokers, next_id = self.members.all(), self.producer_ids.next_id
        match command:
            case RegisterBroker(broker):
                others = [each for each in brokers if each.node_id != broker.node_id]
                return self._sizes.total([*others, broker], next_id)
            case AllocateProducerIds(first, count):
                return self._sizes.total(brokers, first + count)
            case CreateTopic(name, topic_id, partitions, configs):
                part = topic_part(name, topic_id, placements(partitions), configs, next_id)
                return self._sizes.total(brokers, next_id, after=part)
        topic = self.topics.get_by_id(TopicId(command.topic_id))
        if topic is None:
            return self.size_bytes
        before, after = _part(topic), None
        match command:
            case CreatePartitions(_, _, partitions):
                after = _part(replace(topic, replicas=topic.replicas + placements(partitions)))
            case AlterTopicConfigs(_, configs):
                after = _part(replace(topic, overrides=configs))
        return self._sizes.total(brokers, next_id, before, after)

    @staticmethod
    def reserve_bytes(command: Command) -> int:
        """Return the most that the command can add to any tables: for one that others are applied before."""
        match command:
            case DeleteTopic():
                return 0
            case CreateTopic(name, topic_id, partitions, configs):
                # An older producer's number has at most nine bytes.
                return reserve_bytes((0, name, topic_id, configs, 2**63 - 1), placements(partitions))
            case CreatePartitions(_, _, partitions):
                return reserve_bytes((), placements(partitions))
            case AlterTopicConfigs(_, configs):
                return reserve_bytes(configs)
            case RegisterBroker(broker):
                return reserve_bytes(broker)
            case AllocateProducerIds():
                return reserve_bytes(2**63 - 1)

    # -- changes ------------------------------------------------------------------------------------------------

    def check(self, command: Command) -> None:
        """Raise InvalidConfigError if the command sets what this version does not know: it could not be applied."""
        if isinstance(command, CreateTopic | AlterTopicConfigs):
            resolve_topic_config(command.configs, self.topics.defaults)

    def apply(self, command: Command) -> None:
        """Change the table that the command is for.

        Raises:
            ClusterError: The table refuses it, and is as before.
        """
        before = self._part_of(command)
        self._apply(command)
        self._sizes.replace(before, self._part_of(command))

    def _apply(self, command: Command) -> None:
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

    def _part_of(self, command: Command) -> TopicPart | None:
        if isinstance(command, RegisterBroker | AllocateProducerIds):
            return None
        topic = self.topics.get_by_id(TopicId(command.topic_id))
        return None if topic is None else _part(topic)

    # -- state bytes --------------------------------------------------------------------------------------------

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
            topics, sizes = [], ControllerSizes()
            for block in blocks:
                topics.append(self._topic(_topic_decoder.decode(block), replicas))
                sizes.replace(None, _part(topics[-1]))
                yield
        except (msgspec.MsgspecError, UnicodeDecodeError, struct.error, ValueError, IndexError) as error:
            raise CorruptLogError(f"controller state cannot be read: {error}") from error
        if len(topics) != head.topics:
            raise CorruptLogError(f"controller state has {len(topics)} of {head.topics} topics")
        return TableContents(head.brokers, head.next_producer_id, topics, sizes)

    def replace(self, contents: TableContents) -> None:
        """Let the tables be what a snapshot says, which is a later moment of the same log."""
        self.members.replace(contents.brokers)
        self.producer_ids.next_id = contents.next_producer_id
        self.topics.replace(contents.topics)
        self._sizes = contents.sizes

    def clear(self) -> None:
        """Begin from nothing, and tell nobody: what was here is read again."""
        self.members.replace([])
        self.producer_ids.next_id = 0
        self.topics.clear()
        self._sizes = ControllerSizes()

    def _topic(self, saved: _SavedTopic, replicas: list[Replica]) -> Topic:
        placed = [[replicas[place].node_id for place in partition] for partition in saved.partitions]
        if not is_topic_id(saved.topic_id) or not placed or not all(map(are_replicas, placed)):
            raise ValueError(f"topic {saved.name[:260]!r} has an impossible id or placement")
        return Topic(
            saved.name,
            TopicId(saved.topic_id),
            tuple(tuple(replicas[place] for place in partition) for partition in saved.partitions),
            saved.overrides,
            resolve_topic_config(saved.overrides, self.topics.defaults),
            saved.older_producers,
        )


def _part(topic: Topic) -> TopicPart:
    return topic_part(topic.name, topic.topic_id, topic.replicas, topic.overrides, topic.older_producers)


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
