"""The transactions of one partition that are open, or whose end readers do not see yet (RFC 0021, section 3).

    begin      a batch of a producer that has nothing open here     truncate   both are undone from the end
    end        a marker of that producer                            settle     what ended below is forgotten

A transaction is open from its first batch to its marker. The *last stable offset* is the first offset of the earliest
one that is open as readers see it: it began at or below visible, and no marker at or below visible ends it.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from model.ids import NO_INDEX, Index, Offset


@dataclass(slots=True)
class Transaction:
    """One producer's, in one partition.

    Attributes:
        producer_id: Whose.
        epoch: Of the producer when it began.
        first_index: The entry of its first batch.
        first_offset: Of that batch's first record.
        timestamp: The largest of its first batch, in milliseconds; for operators.
        marker_index: The entry that ends it; None while it is open.
    """

    producer_id: int
    epoch: int
    first_index: Index
    first_offset: Offset
    timestamp: int
    marker_index: Index | None = None

    def is_open_at(self, index: Index) -> bool:
        """Whether the log up to `index` has its beginning and not its end."""
        return self.first_index <= index and (self.marker_index is None or self.marker_index > index)


class OpenTransactions:
    """See the module. `begin` and `end` are called in the order of the log."""

    def __init__(self) -> None:
        # By first index, in this order. A plain dict would walk over what was taken from its front.
        self._transactions: OrderedDict[Index, Transaction] = OrderedDict()
        self._open: dict[int, Transaction] = {}
        # By the index of their markers, in this order.
        self._ended: deque[Transaction] = deque()
        # The newest marker of each producer that has one of those.
        self._newest_end: dict[int, Index] = {}

    def __len__(self) -> int:
        """Transactions without a marker."""
        return len(self._open)

    @property
    def is_open(self) -> bool:
        """Whether anything is without a marker."""
        return bool(self._open)

    @property
    def has_ended(self) -> bool:
        """Whether there is a marker that not all readers are known to see."""
        return bool(self._ended)

    def open_of(self, producer_id: int) -> Transaction | None:
        """Return what a producer has open, by all that the log holds, committed or not."""
        return self._open.get(producer_id)

    def holds(self, producer_id: int, committed: Index) -> bool:
        """Whether a producer has something open, or would have without the markers behind `committed`."""
        return producer_id in self._open or self._newest_end.get(producer_id, NO_INDEX) > committed

    def begin(self, transaction: Transaction) -> None:
        """A batch opens a transaction; its producer has none open."""
        # X2 of RFC 0021: a second one would hide the first one's end.
        assert transaction.producer_id not in self._open
        assert not self._transactions or next(reversed(self._transactions)) < transaction.first_index
        self._transactions[transaction.first_index] = transaction
        self._open[transaction.producer_id] = transaction

    def end(self, producer_id: int, marker_index: Index) -> None:
        """A marker ends what its producer has open, if anything."""
        transaction = self._open.pop(producer_id, None)
        if transaction is not None:
            transaction.marker_index = marker_index
            self._ended.append(transaction)
            self._newest_end[producer_id] = marker_index

    def truncate(self, first_removed: Index) -> None:
        """The entries from `first_removed` on are gone: what began there never was, what ended there is open."""
        while self._transactions and next(reversed(self._transactions)) >= first_removed:
            _, removed = self._transactions.popitem()
            if removed.marker_index is None:
                del self._open[removed.producer_id]
        while self._ended and _end_of(self._ended[-1]) >= first_removed:
            reopened = self._ended.pop()
            reopened.marker_index = None
            if reopened.first_index < first_removed:
                self._open[reopened.producer_id] = reopened
        self._newest_end = {each.producer_id: _end_of(each) for each in self._ended}

    def settle(self, bound: Index) -> None:
        """Forget what ended at or below `bound`, which is at most commit and at most visible: all readers see the end.

        An earlier one that is still open stays, whatever has ended behind it.
        """
        while self._ended and _end_of(self._ended[0]) <= bound:
            ended = self._ended.popleft()
            del self._transactions[ended.first_index]
            if self._newest_end[ended.producer_id] == ended.marker_index:
                del self._newest_end[ended.producer_id]

    def first_open_at(self, visible: Index) -> Transaction | None:
        """Return the earliest transaction that readers of the log up to `visible` see open; None: there is none."""
        if not self._transactions:
            return None
        # Few are passed over: what ended at or below visible is forgotten with the next commit.
        for transaction in self._transactions.values():
            if transaction.first_index > visible:
                break
            if transaction.is_open_at(visible):
                return transaction
        return None

    def open_at(self, index: Index) -> Iterator[Transaction]:
        """Yield what is open as of `index`, in the order of the log: the state that a snapshot as of `index` holds."""
        return (each for each in self._transactions.values() if each.is_open_at(index))

    def restore(self, transactions: Iterable[Transaction]) -> None:
        """Begin with these, which are open and in the order of the log."""
        self.reset()
        for transaction in transactions:
            self.begin(transaction)

    def reset(self) -> None:
        """Begin from nothing."""
        self._transactions.clear()
        self._open.clear()
        self._ended.clear()
        self._newest_end.clear()


def _end_of(transaction: Transaction) -> Index:
    assert transaction.marker_index is not None
    return transaction.marker_index
