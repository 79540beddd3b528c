"""What a replica that leaves a node remembers: its term, its vote and the end of its log (RFC 0019 section 5).

A replica may leave and come back, empty. Others may still use a configuration in which it votes. If it had forgotten
its vote, it could vote twice in one term. If it had forgotten the end of its log, it could elect a leader that lacks
what was committed with its copy. So both lie in the kvstore for as long as the group exists.
"""

import msgspec

from model.ids import GroupId, Index, NodeId, Term
from raft.rules.election import LogEnd
from raft.vote_floor import encode_floor, floor_key, read_floor
from raft.vote_store import PersistedVote, read_vote, vote_key
from storage.errors import KvStoreError
from storage.kvstore import KvStore


class Gravestone(msgspec.Struct, frozen=True, array_like=True):
    """Of one replica that has left.

    Attributes:
        term: The newest that it was in.
        voted_for: Whom it has given its vote of that term; None: nobody.
        last_index, last_term: The end of its log, or the floor that its log had not reached again.
    """

    term: Term
    voted_for: NodeId | None
    last_index: Index
    last_term: Term


def gravestone_key(group: GroupId) -> str:
    """Return the kvstore key of what a replica of the group has left behind."""
    return f"raft/{group}/former"


def read_gravestone(kvstore: KvStore, group: GroupId) -> Gravestone | None:
    """Return what a replica of the group has left behind here; None: none has left.

    Raises:
        KvStoreError: It cannot be read.
    """
    stored = kvstore.get(gravestone_key(group))
    if stored is None:
        return None
    try:
        return msgspec.msgpack.decode(stored, type=Gravestone)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise KvStoreError(f"{gravestone_key(group)} is damaged: {error}") from error


def put_gravestone(kvstore: KvStore, group: GroupId, log_end: LogEnd) -> None:
    """Write down what a replica leaves behind, from its vote in the kvstore; durable after the caller's sync.

    Args:
        kvstore: Holds its vote and its floor.
        group: Whose replica leaves. None of its fibers runs any more.
        log_end: The end of its log.

    Raises:
        KvStoreError: The vote or the floor cannot be read.
    """
    vote, floor = read_vote(kvstore, group), read_floor(kvstore, group)
    end = log_end if floor is None else max(log_end, floor)
    voted_for = None if vote.voted_for is None else NodeId(vote.voted_for)
    gravestone = Gravestone(Term(vote.term), voted_for, end.last_index, end.term)
    kvstore.put(gravestone_key(group), msgspec.msgpack.encode(gravestone))


def revive(kvstore: KvStore, group: GroupId, gravestone: Gravestone) -> None:
    """Let a new, empty replica begin with the vote and the floor of the former one.

    The caller then puts its marker, deletes the gravestone and syncs. In this order a crash after any of the writes
    leaves the gravestone, or all that it says.
    """
    kvstore.put(vote_key(group), msgspec.msgpack.encode(PersistedVote(gravestone.term, gravestone.voted_for)))
    if gravestone.last_index:
        end = LogEnd(gravestone.last_term, gravestone.last_index)
        kvstore.put(floor_key(group), encode_floor(end))
