"""What the log state of a partition has beside its own methods if clients' transactions may be open in its log.

`ProducerState` has it, and so has `OffsetsLogState`, for offsets that are committed in transactions.
"""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from cluster.transactions.fences import Fences
from cluster.transactions.open_transactions import OpenTransactions
from model.control_batch import Prepare
from model.ids import Index
from storage.entry import Buffer


@runtime_checkable
class TransactionalLogState(Protocol):
    """See the module.

    Attributes:
        transactions: What is open.
        fences: Guards of batches that ask the coordinator, and which decisions were carried out.
        restored_index: What the state was restored as of. Below it nothing is known of what was open.
        visible: Returns up to where readers see the log. The partition sets it.
    """

    transactions: OpenTransactions
    fences: Fences
    restored_index: Index
    visible: Callable[[], Index]

    def opens_transaction(self, payload: Buffer) -> bool:
        """Whether a batch needs a guard now: it is transactional, and its transaction is not open here."""
        ...

    def last_prepare(self, producer_id: int) -> tuple[Prepare, Index]:
        """Return the newest decision that a marker of this producer names, committed or not, and the marker's entry.

        The entry is NO_INDEX where it is committed; the decision is NO_PREPARE where no marker is known.
        """
        ...

    def last_marker(self, producer_id: int) -> Index:
        """Return the entry of the newest marker of this producer, also of an administrator's; NO_INDEX once committed.

        As long as it is not committed it may be undone, and then what it ended is open again.
        """
        ...
