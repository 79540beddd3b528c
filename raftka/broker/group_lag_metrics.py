"""How far the consumer groups that this broker keeps are behind, as metrics (RFC 0009, lag).

After a move of a group two coordinators may report it for a moment: alerts and charts take `max by (group)`.
"""

from kafka_api.groups.lag import GroupLags
from raftka.broker.metric_rows import Row, Rows


class GroupLagCollector:
    """Reads the newest round when it is asked; nothing is measured for it."""

    def __init__(self, lags: GroupLags) -> None:
        self._lags = lags

    def rows(self, now: float) -> Rows:
        """Yield the rows; none where this broker keeps no group."""
        reports = list(self._lags.lag_reports())
        for report in reports:
            yield Row("raftka_group_lag_records", report.lag_sum, (report.group,))
        for report in reports:
            yield Row("raftka_group_lag_max_records", report.lag_max, (report.group,))
        for report in reports:
            yield Row("raftka_group_lag_unknown_partitions", report.unknown_partitions, (report.group,))
