"""Term and vote of one replica on disk: told to nobody before they are there."""

import msgspec

from model.ids import GroupId
from raft.replica_context import ReplicaContext
from storage.errors import KvStoreError


class PersistedVote(msgspec.Struct, frozen=True, array_like=True):
    """Term and vote as they lie in the kvstore."""

    term: int
    voted_for: int | None


def vote_key(group: GroupId) -> str:
    """Return the kvstore key of a group's term and vote."""
    return f"raft/{group}/vote"


class VoteStore:
    """Reads and writes the vote of one replica."""

    def __init__(self, context: ReplicaContext) -> None:
        self._context = context

    def load(self) -> PersistedVote:
        """Return what was persisted, term 0 and no vote for a new replica.

        Raises:
            KvStoreError: The stored vote cannot be read.
        """
        group = self._context.group
        stored = self._context.kvstore.get(vote_key(group))
        if stored is None:
            return PersistedVote(0, None)
        try:
            return msgspec.msgpack.decode(stored, type=PersistedVote)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise KvStoreError(f"{group}: the stored vote is damaged: {error}") from error

    async def persist(self) -> bool:
        """Make the current term and vote durable; False: the replica has failed instead."""
        context = self._context
        vote = PersistedVote(context.state.term, context.state.voted_for)
        try:
            context.kvstore.put(vote_key(context.group), msgspec.msgpack.encode(vote))
            await context.kvstore.sync()
        except KvStoreError as error:
            context.fail(error)
            return False
        return True
