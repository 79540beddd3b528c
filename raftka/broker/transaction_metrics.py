"""What is measured of transactions: what is open in partitions that are led here, and what is coordinated here."""

from kafka_api.transactions.coordinator import TransactionCoordinator
from raftka.broker.metric_rows import SAMPLES_PER_SLICE, Row, Rows
from raftka.broker.transaction_watch import TransactionWatch


class TransactionCollector:
    """Reads the watch and the coordinator; only partitions with something open are looked at."""

    def __init__(self, coordinator: TransactionCoordinator, watch: TransactionWatch) -> None:
        self._coordinator = coordinator
        self._watch = watch

    def rows(self, now: float) -> Rows:
        """Yield the rows; all are 0 where nothing is transactional."""
        yield from self._partitions()
        ages, hanging = [0.0], 0
        for number, seen in enumerate(self._watch.led(), start=1):
            ages.append(now - seen.since)
            hanging += self._watch.hangs(seen, now)
            if number % SAMPLES_PER_SLICE == 0:
                yield None
        yield Row("raftka_oldest_transaction_seconds", max(ages))
        yield Row("raftka_hanging_transactions", hanging)
        counts = self._coordinator.counts
        yield Row("raftka_transactional_ids", self._coordinator.id_count)
        yield Row("raftka_transactions_committed_total", counts.committed)
        yield Row("raftka_transactions_aborted_total", counts.aborted)
        yield Row("raftka_transactions_timed_out_total", counts.timed_out)
        yield Row("raftka_transaction_markers_sent_total", counts.markers_sent)
        yield Row("raftka_transaction_markers_resent_total", counts.markers_resent)
        yield Row("raftka_producers_fenced_total", counts.fenced)

    def _partitions(self) -> Rows:
        opened = behind = 0
        lags = [0]
        for number, partition in enumerate(self._watch.holders(), start=1):
            if number % SAMPLES_PER_SLICE == 0:
                yield None
            # Between two steps another broker may have been elected.
            if partition.transactional is None or not partition.is_in_office:
                continue
            opened += len(partition.transactional.transactions)
            high_watermark = partition.high_watermark
            stable = partition.stable_end(high_watermark)
            if stable is not None and stable < high_watermark:
                behind += 1
                lags.append(high_watermark - stable)
        yield Row("raftka_open_transactions", opened)
        yield Row("raftka_stable_offset_lag_max", max(lags))
        yield Row("raftka_stable_offset_lag_partitions", behind)
