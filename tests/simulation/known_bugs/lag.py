"""Bugs in the lag of consumer groups (RFC 0009); every fourth seed has a group."""

import pytest

import cluster.visible_ends
import kafka_api.groups.lag
from cluster.partition import Partition
from kafka_api.groups.lag import GroupLags


def lag_counts_what_nobody_may_read_yet(patch: pytest.MonkeyPatch) -> None:
    """Lag is counted to the end of the leader's log, with what is not visible."""

    def visible_end(partition: Partition | None):
        return partition.end_offset if partition is not None and partition.is_in_office else None

    patch.setattr(cluster.visible_ends, "_visible_end", visible_end)


def deposed_coordinators_report_lag(patch: pytest.MonkeyPatch) -> None:
    """A coordinator goes on to report what it measured in a term that is over."""
    patch.setattr(kafka_api.groups.lag, "_is_keeper", lambda active: True)


def unknown_ends_are_taken_for_read(patch: pytest.MonkeyPatch) -> None:
    """A partition whose end nobody tells has a lag of 0."""
    compare = GroupLags.compare

    def compared(lags: GroupLags, active, group_id, ends):
        committed = {lags._group_of(*place): each.offset for place, each in active.table.offsets(group_id).items()}
        return compare(lags, active, group_id, {**committed, **ends})

    patch.setattr(GroupLags, "compare", compared)
