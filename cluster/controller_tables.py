"""Brokers, topics, producer ids, features, options: what raft0's commands have made of them, and how they are saved.

State bytes: format version u8, then items of a length (u32, little endian) and msgpack. They lie in checksummed files
only.

    format 1   `_SavedHead`, then a `_SavedTopic` for each topic in order of name
    format 2   named blocks, each a `_BlockHead` and its items: "tables" with the items of format 1, "features",
               "options" while something is set on brokers: a `_SavedOptions` for all, and for each that has its own,
               and "placements" once a partition was moved: a `SavedPlacement` for each such partition

Format 2 is written once a feature has a level (RFC 0018): until then a version that knows only format 1 may come back.
"""

import struct
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Annotated, NamedTuple

import msgspec

from cluster.commands import (
    AllocateProducerIds,
    AlterBrokerConfigs,
    AlterPlacements,
    AlterTopicConfigs,
    BrokerRecord,
    Command,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    FinishPlacement,
    RegisterBroker,
    SetFeature,
    are_replicas,
    is_topic_id,
)
from cluster.controller_sizes import ControllerSizes, TopicPart, reserve_bytes, topic_part
from cluster.feature_table import FeatureTable
from cluster.members_table import MembersTable
from cluster.option_table import OptionTable
from cluster.producer_id_table import ProducerIdTable
from cluster.saved_placement import SavedPlacement, decode_placement, save_placement, with_placements
from cluster.topic_table import Topic, TopicTable, placements
from model.features import MEMBERSHIP, OFFERED, OPTIONS_LEVEL, PLACEMENTS_LEVEL, LevelRange
from model.ids import NO_INDEX, DirectoryId, GroupId, Index, NodeId, Replica, TopicId, topic_of
from model.topic_config import TopicConfig, resolve_topic_config
from raft.group_configuration import Revision
from storage.errors import CorruptLogError, UnknownFormatError

# The newest; format 1 is read and written, too.
FORMAT_VERSION = 2

_WITHOUT_FEATURES = 1
_TABLES, _FEATURES, _OPTIONS, _PLACEMENTS = "tables", "features", "options", "placements"
# By name, the version of each block.
_BLOCKS = {_TABLES: 1, _FEATURES: 1, _OPTIONS: 1, _PLACEMENTS: 1}
_LENGTH = struct.Struct("<I")
# What the first level of a feature adds at most: the heads of two blocks, and what is around the levels.
_FEATURES_BYTES_MAX = 64
# What the first option that is set adds at most beside the option: the head of the block.
_OPTIONS_BYTES_MAX = 32
# What a move adds at most beside its target: the head of the block, and three times the replicas that the partition has
# until then, up to 30 of them.
_PLACEMENT_BYTES_MAX = 4096


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


class _BlockHead(msgspec.Struct, frozen=True, array_like=True):
    name: str
    version: int
    items: Annotated[int, msgspec.Meta(ge=0)]


class _SavedFeatures(msgspec.Struct, frozen=True, array_like=True):
    levels: dict[str, Annotated[int, msgspec.Meta(ge=1)]]
    epoch: Annotated[int, msgspec.Meta(ge=1)]


class _SavedOptions(msgspec.Struct, frozen=True, array_like=True):
    node: int | None
    configs: dict[str, str]


class TableContents(NamedTuple):
    """What a snapshot says."""

    brokers: list[BrokerRecord]
    next_producer_id: int
    topics: list[Topic]
    sizes: ControllerSizes
    levels: Mapping[str, int]
    feature_epoch: int
    options: list[AlterBrokerConfigs]


def _size_of_placements(moved: int) -> int:
    """Return what the head of that block takes; it is not there without any."""
    return len(_item(_BlockHead(_PLACEMENTS, 1, moved))) if moved else 0


class UnsupportedLevelError(UnknownFormatError):
    """A feature is in force at a level that this version does not have: it must not go on without it."""


_encoder = msgspec.msgpack.Encoder()
_head_decoder: msgspec.msgpack.Decoder[_SavedHead] = msgspec.msgpack.Decoder(_SavedHead)
_topic_decoder: msgspec.msgpack.Decoder[_SavedTopic] = msgspec.msgpack.Decoder(_SavedTopic)
_block_decoder: msgspec.msgpack.Decoder[_BlockHead] = msgspec.msgpack.Decoder(_BlockHead)
_features_decoder: msgspec.msgpack.Decoder[_SavedFeatures] = msgspec.msgpack.Decoder(_SavedFeatures)
_options_decoder: msgspec.msgpack.Decoder[_SavedOptions] = msgspec.msgpack.Decoder(_SavedOptions)


class ControllerTables:
    """See the module.

    Args:
        topic_defaults: Fill what a topic leaves open.
        offered: The levels of features that this broker can work at.
    """

    def __init__(self, topic_defaults: TopicConfig, offered: Mapping[str, LevelRange] = OFFERED) -> None:
        self._offered = offered
        self.members = MembersTable()
        self.features = FeatureTable()
        self.topics = TopicTable(topic_defaults)
        self.producer_ids = ProducerIdTable()
        self.options = OptionTable()
        self._sizes = ControllerSizes()

    # -- how large ----------------------------------------------------------------------------------------------

    @property
    def size_bytes(self) -> int:
        """What `encode` yields, in bytes; a close upper bound of it where there are more than 128 replicas."""
        tables = self._sizes.total(self.members.all(), self.producer_ids.next_id)
        return tables + self._size_beside_tables()

    def _size_beside_tables(self) -> int:
        options = _options_size(self.options.all())
        return self._features_size() + options + _size_of_placements(self._sizes.moved)

    def _features_size(self, levels: Mapping[str, int] | None = None) -> int:
        """Return what format 2 takes more than format 1."""
        levels = self.features.all() if levels is None else levels
        if not levels:
            return 0
        heads = _BlockHead(_TABLES, 1, 2**31), _BlockHead(_FEATURES, 1, 1)
        return sum(len(_item(each)) for each in (*heads, _SavedFeatures(dict(levels), 2**31)))

    def size_with(self, command: Command) -> int:
        """Return what `size_bytes` is once the command is applied to these tables, if it is taken."""
        if isinstance(command, SetFeature):
            more = self._features_size(self.features.all() | {command.name: command.level}) - self._features_size()
            return self.size_bytes + more
        if isinstance(command, AlterBrokerConfigs):
            more = _options_size(self.options.with_altered(command)) - _options_size(self.options.all())
            return self.size_bytes + more
        if isinstance(command, AlterPlacements | FinishPlacement):
            return self.size_bytes + self.reserve_bytes(command)
        return self._size_of_tables(command) + self._size_beside_tables()

    def _size_of_tables(self, command: Command) -> int:
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
        assert not isinstance(command, SetFeature | AlterBrokerConfigs | AlterPlacements | FinishPlacement)
        topic = self.topics.get_by_id(TopicId(command.topic_id))
        if topic is None:
            return self._sizes.total(brokers, next_id)
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
            case SetFeature(name, level):
                return _FEATURES_BYTES_MAX + reserve_bytes((name, level))
            case AlterBrokerConfigs(node, configs):
                return _OPTIONS_BYTES_MAX + reserve_bytes((node, configs))
            case AlterPlacements(moves):
                targets = placements([each.target or [] for each in moves])
                return _PLACEMENT_BYTES_MAX * len(moves) + reserve_bytes(moves, targets)
            case FinishPlacement(group):
                # What the partition keeps of the move is less than the move, which was counted.
                return reserve_bytes(group)

    # -- changes ------------------------------------------------------------------------------------------------

    def check(self, command: Command) -> None:
        """Refuse a command that sets what this version does not know: it could not be applied.

        Raises:
            InvalidConfigError: A configuration of a topic.
            UnsupportedLevelError: A level of a feature.
        """
        if isinstance(command, CreateTopic | AlterTopicConfigs):
            resolve_topic_config(command.configs, self.topics.defaults)
        if isinstance(command, SetFeature):
            self._check_levels({command.name: command.level})

    def _check_levels(self, levels: Mapping[str, int]) -> None:
        for name, level in levels.items():
            highest = self._offered[name].highest if name in self._offered else 0
            if level > highest:
                raise UnsupportedLevelError(
                    f"the cluster uses {name[:100]} at level {level}, and this version has level {highest}: "
                    "start a version that has it"
                )

    def apply(self, command: Command, index: Index = NO_INDEX) -> None:
        """Change the table that the command, raft0's entry at `index`, is for.

        Raises:
            ClusterError: The table refuses it, and is as before.
        """
        topics = _topics_of(command)
        before = [self._part_of(topic) for topic in topics]
        self._apply(command, index)
        for part, topic in zip(before, topics, strict=True):
            self._sizes.replace(part, self._part_of(topic))

    def _apply(self, command: Command, index: Index) -> None:
        match command:
            case RegisterBroker(broker):
                self.features.check_broker(broker)
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
            case SetFeature() as raised:
                self.features.apply_set(raised, self.members.all())
            case AlterBrokerConfigs() as altered:
                self.features.require(MEMBERSHIP, OPTIONS_LEVEL, "options that are set while brokers run")
                self.options.apply_alter(altered)
            case AlterPlacements() as moves:
                self.features.require(MEMBERSHIP, PLACEMENTS_LEVEL, "moves of partitions")
                self.topics.apply_alter_placements(moves, Revision(0, index))
            case FinishPlacement() as finished:
                self.topics.apply_finish_placement(finished)

    def _part_of(self, topic_id: TopicId) -> TopicPart | None:
        topic = self.topics.get_by_id(topic_id)
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
        head = _item(_SavedHead(self.members.all(), self.producer_ids.next_id, pairs, len(topics)))
        levels = self.features.all()
        if levels:
            yield bytes([FORMAT_VERSION]) + _item(_BlockHead(_TABLES, 1, 1 + len(topics))) + head
        else:
            yield bytes([_WITHOUT_FEATURES]) + head
        for topic in topics:
            partitions = [[places[replica] for replica in partition] for partition in topic.replicas]
            yield _item(
                _SavedTopic(topic.name, topic.topic_id, partitions, dict(topic.overrides), topic.older_producers)
            )
        if levels:
            yield _item(_BlockHead(_FEATURES, 1, 1)) + _item(_SavedFeatures(levels, self.features.epoch))
        options = self.options.all()
        # O1 of RFC 0018: a version that cannot read the block never meets it.
        assert not options or self.features.level(MEMBERSHIP) >= OPTIONS_LEVEL
        if options:
            yield _item(_BlockHead(_OPTIONS, 1, len(options)))
        for each in options:
            yield _item(_SavedOptions(each.node, each.configs))
        moved = self._sizes.moved
        assert not moved or self.features.level(MEMBERSHIP) >= PLACEMENTS_LEVEL
        if moved:
            yield _item(_BlockHead(_PLACEMENTS, 1, moved))
            for topic in topics:
                yield from map(_item, _saved_placements(topic))

    def decode(self, state: bytes) -> Generator[None, None, TableContents]:
        """Return, after some steps, what `encode` has yielded; the tables stay as they are.

        Raises:
            CorruptLogError: Not written by `encode`, or by a newer version.
            UnsupportedLevelError: It has a level of a feature that this version does not have.
        """
        version = state[0] if state else None
        if version not in (_WITHOUT_FEATURES, FORMAT_VERSION):
            raise CorruptLogError(f"controller state of format {version}, this version reads 1 to {FORMAT_VERSION}")
        try:
            items = _items(state)
            contents = (
                yield from self._decode_blocks(items) if version == FORMAT_VERSION else self._decode_tables(items)
            )
        except (msgspec.MsgspecError, UnicodeDecodeError, struct.error, ValueError, IndexError) as error:
            raise CorruptLogError(f"controller state cannot be read: {error}") from error
        self._check_levels(contents.levels)
        return contents

    def _decode_blocks(self, items: Iterator[bytes]) -> Generator[None, None, TableContents]:
        found: dict[str, TableContents] = {}
        seen: set[str] = set()
        levels, epoch = dict[str, int](), 0
        options: list[AlterBrokerConfigs] = []
        moved: list[SavedPlacement] = []
        for item in items:
            block = _block_decoder.decode(item)
            if block.version != _BLOCKS.get(block.name):
                raise ValueError(f"block {block.name[:40]!r} of version {block.version} is unknown to this version")
            if block.name in seen:
                raise ValueError(f"block {block.name!r} is there twice")
            seen.add(block.name)
            of_block = islice(items, block.items)
            if block.name == _FEATURES:
                features = _features_decoder.decode(next(of_block, b""))
                levels, epoch = features.levels, features.epoch
            elif block.name == _OPTIONS:
                options = _read_options(of_block, block.items)
            elif block.name == _PLACEMENTS:
                moved = _read_placements(of_block, block.items)
            else:
                found[block.name] = yield from self._decode_tables(of_block)
            if next(of_block, None) is not None:
                raise ValueError(f"block {block.name!r} has more items than it can have")
        if _TABLES not in found:
            raise ValueError(f"no block {_TABLES!r}")
        for name, level, held in ((_OPTIONS, OPTIONS_LEVEL, options), (_PLACEMENTS, PLACEMENTS_LEVEL, moved)):
            if held and levels.get(MEMBERSHIP, 0) < level:
                raise ValueError(f"block {name!r} is there, but {MEMBERSHIP} is below level {level}")
        tables = (yield from _moved(found[_TABLES], moved)) if moved else found[_TABLES]
        return tables._replace(levels=levels, feature_epoch=epoch, options=options)

    def _decode_tables(self, items: Iterator[bytes]) -> Generator[None, None, TableContents]:
        head = _head_decoder.decode(next(items, b""))
        replicas = [Replica(NodeId(node), DirectoryId(directory)) for node, directory in head.replicas]
        topics, sizes = [], ControllerSizes()
        for item in items:
            topics.append(self._topic(_topic_decoder.decode(item), replicas))
            sizes.replace(None, _part(topics[-1]))
            yield
        if len(topics) != head.topics:
            raise ValueError(f"it has {len(topics)} of {head.topics} topics")
        return TableContents(head.brokers, head.next_producer_id, topics, sizes, {}, 0, [])

    def replace(self, contents: TableContents) -> None:
        """Let the tables be what a snapshot says, which is a later moment of the same log."""
        self.members.replace(contents.brokers)
        self.producer_ids.next_id = contents.next_producer_id
        self.topics.replace(contents.topics)
        self.features.replace(contents.levels, contents.feature_epoch)
        self._sizes = contents.sizes
        # Last: options may be defaults of topics, which were read with those that are in force until now.
        self.options.replace(contents.options)

    def clear(self) -> None:
        """Begin from nothing, and tell nobody: what was here is read again."""
        self.members.replace([])
        self.producer_ids.next_id = 0
        self.topics.clear()
        self.features.replace({}, 0)
        self.options.clear()
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
    saved = [_item(each) for each in _saved_placements(topic)]
    return topic_part(topic.name, topic.topic_id, topic.replicas, topic.overrides, topic.older_producers, saved)


def _saved_placements(topic: Topic) -> Iterator[SavedPlacement]:
    for number, placement in sorted(topic.placements.items()):
        yield save_placement(topic.topic_id, number, placement)


def _topics_of(command: Command) -> list[TopicId]:
    """Return which topics a command changes, each once."""
    match command:
        case RegisterBroker() | AllocateProducerIds() | SetFeature() | AlterBrokerConfigs():
            return []
        case AlterPlacements(moves):
            return [TopicId(topic_id) for topic_id in dict.fromkeys(each.topic_id for each in moves)]
        case FinishPlacement(group):
            return [topic_of(GroupId(group))]
    return [TopicId(command.topic_id)]


def _moved(tables: TableContents, moved: list[SavedPlacement]) -> Generator[None, None, TableContents]:
    topics, sizes = with_placements(tables.topics, moved), ControllerSizes()
    for topic in topics:
        sizes.replace(None, _part(topic))
        yield
    return tables._replace(topics=topics, sizes=sizes)


def _read_options(items: Iterator[bytes], count: int) -> list[AlterBrokerConfigs]:
    saved = [_options_decoder.decode(each) for each in items]
    if len(saved) != count or len({each.node for each in saved}) < count:
        raise ValueError(f"block {_OPTIONS!r} lacks items, or has a broker twice")
    return [AlterBrokerConfigs(each.node, each.configs) for each in saved]


def _read_placements(items: Iterator[bytes], count: int) -> list[SavedPlacement]:
    saved = [decode_placement(each) for each in items]
    if len(saved) != count:
        raise ValueError(f"block {_PLACEMENTS!r} lacks items")
    return saved


def _options_size(options: Sequence[AlterBrokerConfigs]) -> int:
    """Return what the block of options takes, its head included; it is not there without any."""
    if not options:
        return 0
    head = _BlockHead(_OPTIONS, 1, len(options))
    return len(_item(head)) + sum(len(_item(_SavedOptions(each.node, each.configs))) for each in options)


def _item(saved: msgspec.Struct) -> bytes:
    encoded = _encoder.encode(saved)
    return _LENGTH.pack(len(encoded)) + encoded


def _items(state: bytes) -> Iterator[bytes]:
    position = 1
    while position < len(state):
        (length,) = _LENGTH.unpack_from(state, position)
        position += _LENGTH.size
        if length > len(state) - position:
            raise ValueError(f"an item of {length} bytes at {position}, the state ends at {len(state)}")
        yield state[position : position + length]
        position += length
