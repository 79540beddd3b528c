"""The *floor* of a replica: the end that its log had before damage removed entries (RFC 0008).

A leader may have counted the removed entries as copies, so a committed entry may be left on one other replica only. The
replica must therefore not vote or stand as if it had never had them. Before it opens the damaged log without them, it
makes the floor durable. Until its log has reached the floor again, it never stands, and refuses every candidate whose
log ends below the floor. An entry of a later term also reaches it, because that term's leader had all that was
committed.
"""

import msgspec

from model.ids import GroupId, Index, Term
from raft.replica_context import ReplicaContext
from raft.rules.election import LogEnd
from storage.errors import KvStoreError, StorageError
from storage.kvstore import KvStore


class _LostEnd(msgspec.Struct, frozen=True, array_like=True):
    index: int
    term: int


def floor_key(group: GroupId) -> str:
    """Return the kvstore key of the end that a group's log has to reach again."""
    return f"raft/{group}/lost"


def read_floor(kvstore: KvStore, group: GroupId) -> LogEnd | None:
    """Return the end that the log has to reach again; None if nothing is lost.

    Raises:
        KvStoreError: It cannot be read.
    """
    stored = kvstore.get(floor_key(group))
    if stored is None:
        return None
    try:
        lost = msgspec.msgpack.decode(stored, type=_LostEnd)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise KvStoreError(f"{floor_key(group)} is damaged: {error}") from error
    return LogEnd(Term(lost.term), Index(lost.index))


def encode_floor(floor: LogEnd) -> bytes:
    """Return the bytes under `floor_key`."""
    return msgspec.msgpack.encode(_LostEnd(floor.last_index, floor.term))


async def raise_floor(kvstore: KvStore, group: GroupId, lost_end: LogEnd) -> LogEnd:
    """Make durable that the log had reached `lost_end`, or further if that is known already; return the floor.

    Raises:
        KvStoreError: The kvstore has failed.
    """
    known = read_floor(kvstore, group)
    floor = lost_end if known is None else max(known, lost_end)
    kvstore.put(floor_key(group), encode_floor(floor))
    await kvstore.sync()
    return floor


class VoteFloor:
    """Lifts the floor of one replica once its log has reached it again."""

    def __init__(self, context: ReplicaContext) -> None:
        self._context = context
        self._is_lifting = False

    def look(self) -> None:
        """A leader was heard: is everything back?"""
        context, state = self._context, self._context.state
        if self._is_lifting or not (state.is_refilling or context.log.has_damaged_copies):
            return
        if state.lost_end is None or state.flushed_end >= state.lost_end:
            self._is_lifting = True
            context.gate.spawn(self._lift(state.lost_end), name="vote-floor")

    async def _lift(self, lost_end: LogEnd | None) -> None:
        context = self._context
        try:
            if lost_end is not None:
                context.kvstore.delete(floor_key(context.group))
                await context.kvstore.sync()
                context.state.lost_end = None
                index, term = lost_end.last_index, lost_end.term
                context.logger.warning("has its entries back up to %d@%d and votes again", index, term)
            # Also what a crash left of copies after an earlier refill.
            await context.log.forget_damaged()
        except StorageError as error:
            context.fail(error)
        finally:
            self._is_lifting = False
