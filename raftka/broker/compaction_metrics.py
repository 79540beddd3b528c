"""What is measured of log compaction: what passes have done, what waits for one, and what waits for other brokers."""

from collections import Counter

from cluster.compaction import Compactor
from cluster.compaction_rule import dirty_ratio
from raftka.broker.metric_rows import Row, Rows


class CompactionCollector:
    """Reads what the compactor has seen at its last look; all rows are 0 where nothing is compacted."""

    def __init__(self, compactor: Compactor) -> None:
        self._compactor = compactor

    def rows(self, now: float) -> Rows:
        """Yield the rows."""
        counts, seen = self._compactor.counts, self._compactor.seen()
        yield Row("raftka_compaction_passes_total", counts.passes)
        yield Row("raftka_compaction_failures_total", counts.failures)
        yield Row("raftka_compaction_removed_records_total", counts.removed_records)
        yield Row("raftka_compaction_cleaned_bytes_total", counts.cleaned_bytes)
        yield Row("raftka_compaction_dirty_ratio_max", max((dirty_ratio(each.facts) for each in seen), default=0.0))
        yield Row("raftka_compaction_due_partitions", sum(each.is_due for each in seen))
        yield Row("raftka_compaction_suspended_partitions", len(self._compactor.suspended()))
        yield Row("raftka_compaction_held_bytes", sum(each.facts.held_bytes for each in seen if each.holders))
        held = Counter(node_id for each in seen for node_id in each.holders)
        for node_id in sorted(held):
            yield Row("raftka_compaction_held_partitions", held[node_id], (str(node_id),))
