"""The transaction table behind the log of one partition of `__transaction_state`; `coordinator_log_state` says how.

What a coordinator acts on has been decided: nothing uncommitted is in the table.

The leader refuses an entry for whose new ids and added partitions the table has no room, behind all that lies in the
log. What ends a transaction is always taken, and it adds a few bytes at most: a full table must not keep anything open.
"""

from collections.abc import Sequence

from cluster.coordinator_log_state import CoordinatorLogState, Place
from cluster.noted_sizes import NotedSizes
from cluster.state_bounds import Fill, StateBound, StateFullError, StateOptions
from cluster.transactions.records import StoredTransaction, TransactionState, decode_record
from cluster.transactions.transaction_table import TransactionTable, partition_count, record_size
from cluster.transactions.transactions_topic import TRANSACTIONS_TOPIC
from model.control_batch import Prepare
from model.key_value_batch import KeyValue
from storage.snapshot_file import STATE_BYTES_MAX

_CURE = "use fewer transactional ids, or lower transactional.id.expiration.ms"
_CURE_PARTITIONS = "let transactions write to fewer partitions, or fewer of them be open at once"


class _Partitions:
    """The partitions of a table's transactions, as a `noted_sizes.SizedTable`: what is bytes there is partitions here.

    In memory a partition takes some 160 bytes, and 4 in the state bytes.
    """

    record_count = 0

    def __init__(self, table: TransactionTable) -> None:
        self._table = table

    @property
    def size_bytes(self) -> int:
        return self._table.partition_count

    def size_of(self, transactional_id: str) -> int:
        return self._table.partitions_of(transactional_id)


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
        self._partitions_bound = StateBound(
            what, "partitions of transactions", options.transaction_partitions_max, _CURE_PARTITIONS
        )
        self._partitions_ahead = _count_partitions(self.table)

    def decode_record(self, record: KeyValue) -> tuple[str, StoredTransaction | None]:
        """See `records`."""
        return decode_record(record)

    def apply(self, key: str, value: StoredTransaction | None, place: Place) -> None:
        """Where a Prepare lies names the decision."""
        self.table.apply(key, value, Prepare(place.term, place.log_index))

    def judge_more(self, effects: Sequence[tuple[str, StoredTransaction | None]]) -> StateFullError | None:
        """Refuse partitions that are added beyond the bound; a transaction that ends has no more than before."""
        ahead = self._partitions_ahead
        after, _ = ahead.with_records(effects)
        return self._partitions_bound.judge(ahead.size_bytes, after)

    def on_noted(self, effects: Sequence[tuple[str, StoredTransaction | None]]) -> None:
        """Count the partitions at the end of the log."""
        self._partitions_ahead.note(effects)

    def on_truncated(self, effects: Sequence[tuple[str, StoredTransaction | None]]) -> None:
        """Count those before."""
        self._partitions_ahead.truncate(effects)

    def on_committed(self, effects: Sequence[tuple[str, StoredTransaction | None]]) -> None:
        """The table counts them from here on."""
        for transactional_id, _ in effects:
            self._partitions_ahead.commit(transactional_id)

    def fills(self) -> list[Fill]:
        """Return how full the table is, by each of its bounds; what is noted counts."""
        return [*super().fills(), self._partitions_bound.fill(self._partitions_ahead.size_bytes)]

    def _begin(self, table: TransactionTable) -> None:
        super()._begin(table)
        self._partitions_ahead = _count_partitions(table)

    def may_add(self, records: Sequence[tuple[str, StoredTransaction | None]]) -> int | None:
        """Up to the bound, if ids or partitions are added; what ends a transaction may use all of a snapshot."""
        return None if any(self._adds(*record) for record in records) else STATE_BYTES_MAX

    def _adds(self, transactional_id: str, value: StoredTransaction | None) -> bool:
        """Whether a record adds an id or partitions."""
        if value is None:
            return False
        return value.state is TransactionState.ONGOING or not self._ahead.size_of(transactional_id)


def _count_partitions(table: TransactionTable) -> NotedSizes[str, StoredTransaction]:
    return NotedSizes(_Partitions(table), partition_count)
