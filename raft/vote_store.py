"""Term and vote of one replica in the kvstore: both are durable before the replica acts in the term or sends the vote.

A candidate waits for `persist` before it asks for votes, and a voter before it grants one. If a replica only hears of a
term, the term is persisted in the background. Until it is durable, a follower answers BUSY, and moves neither commit
nor visible (RFC 0003 section 8).
"""

import asyncio

import msgspec

from model.ids import GroupId, Term
from raft.replica_context import ReplicaContext
from storage.errors import KvStoreError
from storage.kvstore import KvStore


class PersistedVote(msgspec.Struct, frozen=True, array_like=True):
    """Term and vote as they lie in the kvstore."""

    term: int
    voted_for: int | None


def vote_key(group: GroupId) -> str:
    """Return the kvstore key of a group's term and vote."""
    return f"raft/{group}/vote"


def read_vote(kvstore: KvStore, group: GroupId) -> PersistedVote:
    """Return the term and vote that were persisted; term 0 and no vote of a new replica.

    Raises:
        KvStoreError: They cannot be read.
    """
    stored = kvstore.get(vote_key(group))
    if stored is None:
        return PersistedVote(0, None)
    try:
        return msgspec.msgpack.decode(stored, type=PersistedVote)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise KvStoreError(f"{vote_key(group)}: the stored vote is damaged: {error}") from error


class VoteStore:
    """Reads and writes the vote of one replica."""

    def __init__(self, context: ReplicaContext) -> None:
        self._context = context
        # The terms that calls of `persist` have put and not yet synced.
        self._underway: list[Term] = []
        self._is_persisting_term = False
        self._ended = asyncio.Event()

    def load(self) -> PersistedVote:
        """Return what was persisted, term 0 and no vote for a new replica.

        Raises:
            KvStoreError: The stored vote cannot be read.
        """
        return read_vote(self._context.kvstore, self._context.group)

    async def persist(self) -> bool:
        """Make the current term and vote durable; False: the replica has failed instead."""
        context, term = self._context, self._context.state.term
        vote = PersistedVote(term, context.state.voted_for)
        self._underway.append(term)
        try:
            context.kvstore.put(vote_key(context.group), msgspec.msgpack.encode(vote))
            await context.kvstore.sync()
        except KvStoreError as error:
            context.fail(error)
            return False
        finally:
            self._underway.remove(term)
            self._ended.set()
        context.state.on_term_durable(term)
        return True

    def start_persisting_term(self) -> None:
        """Make the current term durable in the background, where nobody else does; it costs nothing if it is."""
        state = self._context.state
        if state.is_term_durable or self._is_persisting_term or any(term >= state.term for term in self._underway):
            return
        self._is_persisting_term = True
        self._context.gate.spawn(self._persist_term(), name="persist-term")

    async def _persist_term(self) -> None:
        try:
            # A term that began meanwhile is the next to be persisted.
            while not self._context.state.is_term_durable and await self.persist():
                pass
        finally:
            self._is_persisting_term = False

    async def wait_for_term(self) -> None:
        """Return once the current term is durable, at the latest after a heartbeat interval.

        Longer is of no use: what is answered BUSY then is followed up by the next heartbeat.
        """
        state = self._context.state
        try:
            async with asyncio.timeout(self._context.options.heartbeat_interval):
                while not state.is_term_durable:
                    # Whoever had begun to persist it may have been cancelled.
                    self.start_persisting_term()
                    self._ended.clear()
                    await self._ended.wait()
        except TimeoutError:
            pass
