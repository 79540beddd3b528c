"""Who waits for which index: quorum writes until they may be answered, readers until something becomes visible."""

import heapq
from collections.abc import Callable
from itertools import count

from model.ids import Index
from raft.errors import RaftError
from raft.replica_state import ReplicaState
from raft.replicate_item import ReplicateItem


class ReplicationMonitor:
    """Wakes waiters after each move of commit or visible, and when leadership ends.

    An item is added by the leader of a term and is resolved or failed before that leadership ends, so its slot still
    holds its entry: a leader never truncates (RFC 0003, S5). Items come in log order, but for duplicates: these wait
    for the slot of their original. At the end of a leadership every item is
    failed at once with an error that says the outcome is unknown (counterexample 20).
    """

    def __init__(self, state: ReplicaState) -> None:
        self._state = state
        # A heap by last index, then by arrival.
        self._items: list[tuple[Index, int, ReplicateItem]] = []
        self._arrivals = count()
        self._watchers: dict[int, Callable[[], None]] = {}
        self._next_watcher = 0

    def add(self, item: ReplicateItem) -> None:
        """Resolve `item` once its last index may be answered."""
        assert item.result is not None
        heapq.heappush(self._items, (item.result.last_index, next(self._arrivals), item))

    @property
    def is_idle(self) -> bool:
        """Whether no write waits for its answer."""
        return all(item.is_done for _, _, item in self._items)

    def watch(self, callback: Callable[[], None]) -> int:
        """Call `callback` after every change of commit, visible or leadership, until `unwatch`."""
        self._next_watcher += 1
        self._watchers[self._next_watcher] = callback
        return self._next_watcher

    def unwatch(self, watcher: int) -> None:
        """End a `watch`."""
        self._watchers.pop(watcher, None)

    def on_moved(self) -> None:
        """Commit or visible has moved."""
        self.answer()
        self.notify()

    def answer(self) -> None:
        """Tell the items whose copies are there by now; commit and visible need not have moved by them."""
        if not self._items or not self._state.is_leader:
            return
        flushed = self._state.answer_index()
        while self._items:
            last_index, _, item = self._items[0]
            if last_index > (flushed if item.asks_flush else self._state.written_answer_index()):
                return
            heapq.heappop(self._items)
            item.succeed()

    def fail_all(self, error: RaftError) -> None:
        """Leadership has ended: nobody here will learn what became of the items."""
        items, self._items = sorted(self._items), []
        for _, _, item in items:
            item.fail(error)
        self.notify()

    def notify(self) -> None:
        """Wake the watchers."""
        for callback in list(self._watchers.values()):
            callback()
