"""The transaction table behind the log of one partition of `__transaction_state`; `coordinator_log_state` says how.

What a coordinator acts on has been decided: nothing uncommitted is in the table.

The leader refuses an entry for whose new ids and added partitions the table has no room, behind all that lies in the
log. What ends a transaction is always taken, and it adds a few bytes at most: a full table must not keep anything open.
"""

from collections.abc import Sequence

from cluster.coordinator_log_state import CoordinatorLogState, Place
from cluster.noted_sizes import NotedSizes
from cluster.state_bounds import StateBound, StateOptions
from cluster.transactions.records import StoredTransaction, TransactionState, decode_record
from cluster.transactions.transaction_table import TransactionTable, record_size
from cluster.transactions.transactions_topic import TRANSACTIONS_TOPIC
from model.control_batch import Prepare
from model.key_value_batch import KeyValue
from storage.snapshot_file import STATE_BYTES_MAX

_CURE = "use fewer transactional ids, or lower transactional.id.expiration.ms"


class TransactionsLogState(CoordinatorLogState[str, StoredTransaction, TransactionTable]):
    """Its table has transactional ids.

    Args:
        name: Of the partition, for operators.
        options: Bounds of the table.
    """

    topic = TRANSACTIONS_TOPIC

    def __init__(self, name: str = TRANSACTIONS_TOPIC, options: StateOptions | None = None) -> None:
        options, what = options or StateOptions(), f"the transaction table of {name}"
        super().__init__(
            TransactionTable,
            lambda table: NotedSizes(table, record_size),
            StateBound(what, "bytes", options.transactions_bytes_max, _CURE),
            StateBound(what, "transactional ids", options.transactional_ids_max, _CURE),
        )

    def decode_record(self, record: KeyValue) -> tuple[str, StoredTransaction | None]:
        """See `records`."""
        return decode_record(record)

    def apply(self, key: str, value: StoredTransaction | None, place: Place) -> None:
        """Where a Prepare lies names the decision."""
        self.table.apply(key, value, Prepare(place.term, place.log_index))

    def may_add(self, records: Sequence[tuple[str, StoredTransaction | None]]) -> int | None:
        """Up to the bound, if ids or partitions are added; what ends a transaction may use all of a snapshot."""
        return None if any(self._adds(*record) for record in records) else STATE_BYTES_MAX

    def _adds(self, transactional_id: str, value: StoredTransaction | None) -> bool:
        """Whether a record adds an id or partitions."""
        if value is None:
            return False
        return value.state is TransactionState.ONGOING or not self._ahead.size_of(transactional_id)
