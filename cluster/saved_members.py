"""How raft0's state holds the admitted brokers: the items of its block "members" (RFC 0020).

The first item has the last change, the retired directories, and the node ids of removed brokers if there are any. Then
comes an item for each admitted broker. Without any change since the founding there is no block: the founders are known
from the record of the cluster, and their addresses from their registrations. A founder may have told another address
since, as it asked to be let in. Then there is a block, and its last change is none.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from cluster.members_table import BrokerState, Member, SavedMembers
from model.ids import DirectoryId, NodeId, Replica
from raft.group_configuration import Revision

_Natural = Annotated[int, msgspec.Meta(ge=0)]


class _SavedHead(msgspec.Struct, frozen=True, array_like=True):
    # (generation, index in raft0's log).
    changed: tuple[_Natural, _Natural]
    retired: list[str]


class _SavedHeadOfRemoved(_SavedHead, frozen=True, array_like=True):
    # Left out while nobody was removed: then the head is that of `_SavedHead`, as it was written before.
    removed: list[_Natural] = []


class _SavedMember(msgspec.Struct, frozen=True, array_like=True):
    node_id: _Natural
    directory_id: str
    epoch: tuple[_Natural, _Natural]
    state: str
    rpc_host: str
    rpc_port: Annotated[int, msgspec.Meta(ge=0, le=65535)]
    # Not in what was written while level 1 was being built.
    replaced: str = ""


_head_decoder: msgspec.msgpack.Decoder[_SavedHeadOfRemoved] = msgspec.msgpack.Decoder(_SavedHeadOfRemoved)
_member_decoder: msgspec.msgpack.Decoder[_SavedMember] = msgspec.msgpack.Decoder(_SavedMember)


def save_members(saved: SavedMembers) -> list[msgspec.Struct]:
    """Return the items of the block."""
    head = saved.changed, list[str](sorted(saved.retired))
    removed = list[int](sorted(saved.removed))
    items: list[msgspec.Struct] = [_SavedHeadOfRemoved(*head, removed) if removed else _SavedHead(*head)]
    for member in saved.members:
        replica = member.replica
        rest = member.rpc_host, member.rpc_port, member.replaced
        items.append(_SavedMember(replica.node_id, replica.directory_id, member.epoch, str(member.state), *rest))
    return items


def read_members(items: Iterator[bytes], count: int) -> SavedMembers:
    """Read the items that `save_members` has returned and msgpack has encoded.

    Raises:
        msgspec.MsgspecError: They were not.
        ValueError: Items are missing, a broker is there twice, or a state is unknown.
    """
    head = _head_decoder.decode(next(items, b""))
    members = [_member(_member_decoder.decode(each)) for each in items]
    if len(members) != count - 1 or not _differ(members):
        raise ValueError("block 'members' lacks items, or has a broker twice")
    retired, removed = frozenset(map(DirectoryId, head.retired)), frozenset(map(NodeId, head.removed))
    return SavedMembers(tuple(members), retired, Revision(*head.changed), removed)


def _differ(members: Sequence[Member]) -> bool:
    return len({member.node_id for member in members}) == len(members)


def _member(saved: _SavedMember) -> Member:
    replica = Replica(NodeId(saved.node_id), DirectoryId(saved.directory_id))
    rest = saved.rpc_host, saved.rpc_port, saved.replaced
    return Member(replica, Revision(*saved.epoch), BrokerState(saved.state), *rest)
