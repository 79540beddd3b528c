"""raft0's state bytes: the tables of `controller_tables`, as named blocks.

A format version u8, then items of a length (u32, little endian) and msgpack. They lie in checksummed files only.

    format 1   `_SavedHead`, then a `_SavedTopic` for each topic in order of name
    format 2   named blocks, each a `_BlockHead` and its items: "tables" with the items of format 1, "features",
               "options" while something is set on brokers: a `_SavedOptions` for all, and for each that has its own,
               "placements" once a partition was moved: a `SavedPlacement` for each such partition, "raft0" once
               raft0 was moved: a `SavedRaft0`, and "members" once a broker has joined, left or changed its state, or
               a founder has an address that it has not registered with (`saved_members`)

Format 2 is written once a feature has a level (RFC 0018): until then a version that knows only format 1 may come back.
"""

import struct
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, NamedTuple

import msgspec

from cluster.commands import AlterBrokerConfigs, BrokerRecord, are_replicas, is_topic_id
from cluster.controller_sizes import ControllerSizes, TopicPart, topic_part
from cluster.members_table import SavedMembers
from cluster.raft0_table import Raft0Placement
from cluster.saved_members import read_members, save_members
from cluster.saved_placement import (
    SavedPlacement,
    decode_placement,
    decode_raft0,
    save_placement,
    save_raft0,
    with_placements,
)
from cluster.topic_table import Topic
from model.features import BROKERS_LEVEL, MEMBERSHIP, OPTIONS_LEVEL, PLACEMENTS_LEVEL
from model.ids import DirectoryId, NodeId, Replica, TopicId
from model.topic_config import TopicConfig, resolve_topic_config
from storage.errors import CorruptLogError

# The newest; format 1 is read and written, too.
FORMAT_VERSION = 2

_WITHOUT_FEATURES = 1
_TABLES, _FEATURES, _OPTIONS, _PLACEMENTS, _RAFT0 = "tables", "features", "options", "placements", "raft0"
_MEMBERS = "members"
# By name, the version of each block.
BLOCKS = {_TABLES: 1, _FEATURES: 1, _OPTIONS: 1, _PLACEMENTS: 1, _RAFT0: 1, _MEMBERS: 1}
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
    """What state bytes say."""

    brokers: Sequence[BrokerRecord]
    next_producer_id: int
    topics: Sequence[Topic]
    sizes: ControllerSizes
    levels: Mapping[str, int]
    feature_epoch: int
    options: Sequence[AlterBrokerConfigs]
    raft0: Raft0Placement | None = None
    members: SavedMembers | None = None


_encoder = msgspec.msgpack.Encoder()
_head_decoder: msgspec.msgpack.Decoder[_SavedHead] = msgspec.msgpack.Decoder(_SavedHead)
_topic_decoder: msgspec.msgpack.Decoder[_SavedTopic] = msgspec.msgpack.Decoder(_SavedTopic)
_block_decoder: msgspec.msgpack.Decoder[_BlockHead] = msgspec.msgpack.Decoder(_BlockHead)
_features_decoder: msgspec.msgpack.Decoder[_SavedFeatures] = msgspec.msgpack.Decoder(_SavedFeatures)
_options_decoder: msgspec.msgpack.Decoder[_SavedOptions] = msgspec.msgpack.Decoder(_SavedOptions)


# -- how large --------------------------------------------------------------------------------------------------


def topic_size(topic: Topic) -> TopicPart:
    """Return what a topic takes of the state bytes, with what is kept of its moved partitions."""
    saved = [_item(each) for each in _saved_placements(topic)]
    return topic_part(topic.name, topic.topic_id, topic.replicas, topic.overrides, topic.older_producers, saved)


def placements_size(moved: int) -> int:
    """Return what the head of that block takes; it is not there without any."""
    return len(_item(_BlockHead(_PLACEMENTS, 1, moved))) if moved else 0


def features_size(levels: Mapping[str, int]) -> int:
    """Return what format 2 takes more than format 1."""
    if not levels:
        return 0
    heads = _BlockHead(_TABLES, 1, 2**31), _BlockHead(_FEATURES, 1, 1)
    return sum(len(_item(each)) for each in (*heads, _SavedFeatures(dict(levels), 2**31)))


def options_size(options: Sequence[AlterBrokerConfigs]) -> int:
    """Return what the block of options takes, its head included; it is not there without any."""
    if not options:
        return 0
    head = _BlockHead(_OPTIONS, 1, len(options))
    return len(_item(head)) + sum(len(_item(_SavedOptions(each.node, each.configs))) for each in options)


def raft0_size(raft0: Raft0Placement | None) -> int:
    """Return what the block of raft0 takes; it is not there before raft0 was moved."""
    return 0 if raft0 is None else len(_raft0_block(raft0))


def members_size(saved: SavedMembers | None) -> int:
    """Return what the block of members takes, its head included; it is not there without any."""
    if saved is None:
        return 0
    items = save_members(saved)
    return sum(len(_item(each)) for each in (_BlockHead(_MEMBERS, 1, len(items)), *items))


# -- writing ----------------------------------------------------------------------------------------------------


def encode_blocks(contents: TableContents) -> Iterator[bytes]:
    """Yield the tables as state bytes: the same on every node that has applied as much."""
    topics, levels = contents.topics, contents.levels
    replicas = sorted({replica for topic in topics for partition in topic.replicas for replica in partition})
    places = {replica: place for place, replica in enumerate(replicas)}
    pairs: list[tuple[int, str]] = [(replica.node_id, replica.directory_id) for replica in replicas]
    head = _item(_SavedHead(list(contents.brokers), contents.next_producer_id, pairs, len(topics)))
    if levels:
        yield bytes([FORMAT_VERSION]) + _item(_BlockHead(_TABLES, 1, 1 + len(topics))) + head
    else:
        yield bytes([_WITHOUT_FEATURES]) + head
    for topic in topics:
        partitions = [[places[replica] for replica in partition] for partition in topic.replicas]
        yield _item(_SavedTopic(topic.name, topic.topic_id, partitions, dict(topic.overrides), topic.older_producers))
    if levels:
        yield _item(_BlockHead(_FEATURES, 1, 1)) + _item(_SavedFeatures(dict(levels), contents.feature_epoch))
    # O1 of RFC 0018: a version that cannot read a block never meets it.
    assert not contents.options or levels.get(MEMBERSHIP, 0) >= OPTIONS_LEVEL
    if contents.options:
        yield _item(_BlockHead(_OPTIONS, 1, len(contents.options)))
    for each in contents.options:
        yield _item(_SavedOptions(each.node, each.configs))
    moved = contents.sizes.moved
    assert not moved or levels.get(MEMBERSHIP, 0) >= PLACEMENTS_LEVEL
    if moved:
        yield _item(_BlockHead(_PLACEMENTS, 1, moved))
        for topic in topics:
            yield from map(_item, _saved_placements(topic))
    assert contents.raft0 is None or levels.get(MEMBERSHIP, 0) >= PLACEMENTS_LEVEL
    if contents.raft0 is not None:
        yield _raft0_block(contents.raft0)
    members = contents.members
    assert members is None or levels.get(MEMBERSHIP, 0) >= BROKERS_LEVEL
    if members is not None:
        saved = save_members(members)
        yield _item(_BlockHead(_MEMBERS, 1, len(saved)))
        yield from map(_item, saved)


def _raft0_block(raft0: Raft0Placement) -> bytes:
    return _item(_BlockHead(_RAFT0, 1, 1)) + _item(save_raft0(raft0))


def _saved_placements(topic: Topic) -> Iterator[SavedPlacement]:
    for number, placement in sorted(topic.placements.items()):
        yield save_placement(topic.topic_id, number, placement)


def _item(saved: msgspec.Struct) -> bytes:
    encoded = _encoder.encode(saved)
    return _LENGTH.pack(len(encoded)) + encoded


# -- reading ----------------------------------------------------------------------------------------------------


def decode_blocks(state: bytes, defaults: TopicConfig) -> Generator[None, None, TableContents]:
    """Return, after some steps, what `encode_blocks` has yielded.

    Args:
        state: All of it.
        defaults: Fill what a topic leaves open.

    Raises:
        CorruptLogError: Not written by `encode_blocks`, or by a newer version.
    """
    version = state[0] if state else None
    if version not in (_WITHOUT_FEATURES, FORMAT_VERSION):
        raise CorruptLogError(f"controller state of format {version}, this version reads 1 to {FORMAT_VERSION}")
    try:
        items = _items(state)
        if version == FORMAT_VERSION:
            return (yield from _read_blocks(items, defaults))
        return (yield from _read_tables(items, defaults))
    except (msgspec.MsgspecError, UnicodeDecodeError, struct.error, ValueError, IndexError) as error:
        raise CorruptLogError(f"controller state cannot be read: {error}") from error


def _read_blocks(items: Iterator[bytes], defaults: TopicConfig) -> Generator[None, None, TableContents]:
    found: dict[str, TableContents] = {}
    seen: set[str] = set()
    levels, epoch = dict[str, int](), 0
    options: list[AlterBrokerConfigs] = []
    moved: list[SavedPlacement] = []
    raft0: Raft0Placement | None = None
    members: SavedMembers | None = None
    for item in items:
        block = _block_decoder.decode(item)
        _check_block(block, seen)
        of_block = islice(items, block.items)
        if block.name == _FEATURES:
            features = _features_decoder.decode(next(of_block, b""))
            levels, epoch = features.levels, features.epoch
        elif block.name == _OPTIONS:
            options = _read_options(of_block, block.items)
        elif block.name == _PLACEMENTS:
            moved = _read_placements(of_block, block.items)
        elif block.name == _RAFT0:
            raft0 = decode_raft0(next(of_block, b""))
        elif block.name == _MEMBERS:
            members = read_members(of_block, block.items)
        else:
            found[block.name] = yield from _read_tables(of_block, defaults)
        if next(of_block, None) is not None:
            raise ValueError(f"block {block.name!r} has more items than it can have")
    if _TABLES not in found:
        raise ValueError(f"no block {_TABLES!r}")
    needs = (
        (_OPTIONS, OPTIONS_LEVEL, options),
        (_PLACEMENTS, PLACEMENTS_LEVEL, moved),
        (_RAFT0, PLACEMENTS_LEVEL, raft0),
        (_MEMBERS, BROKERS_LEVEL, members),
    )
    for name, level, held in needs:
        if held and levels.get(MEMBERSHIP, 0) < level:
            raise ValueError(f"block {name!r} is there, but {MEMBERSHIP} is below level {level}")
    tables = (yield from _moved(found[_TABLES], moved)) if moved else found[_TABLES]
    return tables._replace(levels=levels, feature_epoch=epoch, options=options, raft0=raft0, members=members)


def _check_block(block: _BlockHead, seen: set[str]) -> None:
    if block.version != BLOCKS.get(block.name):
        raise ValueError(f"block {block.name[:40]!r} of version {block.version} is unknown to this version")
    if block.name in seen:
        raise ValueError(f"block {block.name!r} is there twice")
    seen.add(block.name)


def _read_tables(items: Iterator[bytes], defaults: TopicConfig) -> Generator[None, None, TableContents]:
    head = _head_decoder.decode(next(items, b""))
    replicas = [Replica(NodeId(node), DirectoryId(directory)) for node, directory in head.replicas]
    topics, sizes = [], ControllerSizes()
    for item in items:
        topics.append(_read_topic(_topic_decoder.decode(item), replicas, defaults))
        sizes.replace(None, topic_size(topics[-1]))
        yield
    if len(topics) != head.topics:
        raise ValueError(f"it has {len(topics)} of {head.topics} topics")
    return TableContents(head.brokers, head.next_producer_id, topics, sizes, {}, 0, [])


def _read_topic(saved: _SavedTopic, replicas: list[Replica], defaults: TopicConfig) -> Topic:
    placed = [[replicas[place].node_id for place in partition] for partition in saved.partitions]
    if not is_topic_id(saved.topic_id) or not placed or not all(map(are_replicas, placed)):
        raise ValueError(f"topic {saved.name[:260]!r} has an impossible id or placement")
    return Topic(
        saved.name,
        TopicId(saved.topic_id),
        tuple(tuple(replicas[place] for place in partition) for partition in saved.partitions),
        saved.overrides,
        resolve_topic_config(saved.overrides, defaults),
        saved.older_producers,
    )


def _moved(tables: TableContents, moved: list[SavedPlacement]) -> Generator[None, None, TableContents]:
    topics, sizes = with_placements(tables.topics, moved), ControllerSizes()
    for topic in topics:
        sizes.replace(None, topic_size(topic))
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


def _items(state: bytes) -> Iterator[bytes]:
    position = 1
    while position < len(state):
        (length,) = _LENGTH.unpack_from(state, position)
        position += _LENGTH.size
        if length > len(state) - position:
            raise ValueError(f"an item of {length} bytes at {position}, the state ends at {len(state)}")
        yield state[position : position + length]
        position += length
