"""A log state that can be compared with the log itself: the production one, and the chain of all entries before it."""

from collections import deque
from collections.abc import Callable, Iterator

from cluster.producer_state import ProducerState
from cluster.transactions.fences import Fences
from cluster.transactions.open_transactions import OpenTransactions
from model.control_batch import Prepare
from model.ids import Index
from raft.errors import RaftError
from raft.replicate_item import NewEntry, ReplicateResult
from storage.entry import Buffer, Entry
from tests.simulation.world.replica_view import CHAIN_BYTES, chain_of


class DigestedState:
    """`raft.log_state.LogState`; what is settled begins with the chain of the newest settled entry."""

    def __init__(self, inner: ProducerState) -> None:
        self._inner = inner
        self._settled: tuple[int, bytes] = (0, b"")
        self._tail: deque[tuple[int, bytes]] = deque()

    def admit(self, entry: NewEntry) -> ReplicateResult | RaftError | None:
        return self._inner.admit(entry)

    def note(self, entry: Entry) -> None:
        self._inner.note(entry)
        index, chain = self._tail[-1] if self._tail else self._settled
        if entry.index <= self._settled[0]:
            return
        assert entry.index == index + 1, f"entry {entry.index} is noted after entry {index}"
        self._tail.append((entry.index, chain_of(entry, chain)))

    def truncate(self, first_removed: Index) -> None:
        self._inner.truncate(first_removed)
        while self._tail and self._tail[-1][0] >= first_removed:
            self._tail.pop()

    def commit(self, index: Index) -> None:
        self._inner.commit(index)
        while self._tail and self._tail[0][0] <= index:
            self._settled = self._tail.popleft()
        assert self._settled[0] >= index, f"entry {index} is settled, but {self._settled[0]} is the last that was noted"

    def snapshot(self) -> Iterator[bytes]:
        yield self._settled[1].ljust(CHAIN_BYTES)
        yield from self._inner.snapshot()

    def restore(self, state: bytes, applied_index: Index) -> Iterator[None]:
        yield from self._inner.restore(state[CHAIN_BYTES:], applied_index)
        self._settled = (applied_index, digest_of(state))
        self._tail.clear()

    def reset(self) -> None:
        self._inner.reset()
        self._settled = (0, b"")
        self._tail.clear()

    # -- `cluster.transactions.log_state.TransactionalLogState` --------------------------------------------------

    @property
    def transactions(self) -> OpenTransactions:
        return self._inner.transactions

    @property
    def fences(self) -> Fences:
        return self._inner.fences

    @property
    def restored_index(self) -> Index:
        return self._inner.restored_index

    @property
    def visible(self) -> Callable[[], Index]:
        return self._inner.visible

    @visible.setter
    def visible(self, visible: Callable[[], Index]) -> None:
        self._inner.visible = visible

    def opens_transaction(self, payload: Buffer) -> bool:
        return self._inner.opens_transaction(payload)

    def last_prepare(self, producer_id: int) -> tuple[Prepare, Index]:
        return self._inner.last_prepare(producer_id)

    def last_marker(self, producer_id: int) -> Index:
        return self._inner.last_marker(producer_id)


def digest_of(state: bytes) -> bytes:
    """Return the chain that a snapshot's state begins with; empty if it holds no entry."""
    return b"" if state[:CHAIN_BYTES] == b" " * CHAIN_BYTES else state[:CHAIN_BYTES]
