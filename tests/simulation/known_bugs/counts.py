"""Bugs in what a broker counts for its operator: partitions, the cluster, and how often something happened."""

from dataclasses import fields

import pytest

from cluster.health_counts import HealthCounts
from raft.consensus import Consensus


def elected_is_counted_as_led(patch: pytest.MonkeyPatch) -> None:
    """A broker counts a partition as led from its election on, before it is in office."""
    patch.setattr(HealthCounts, "counts_as_led", staticmethod(lambda partition: partition.is_leader))


def every_broker_counts_offline_partitions(patch: pytest.MonkeyPatch) -> None:
    """Every broker says which partitions are offline, also one that is cut off and hears of no leader."""
    patch.setattr(HealthCounts, "speaks_for_the_cluster", lambda counts: True)


def counters_begin_again_with_each_leader(patch: pytest.MonkeyPatch) -> None:
    """The counters of a broker are set to 0 when it stops leading a group."""
    end_leadership = Consensus._end_leadership

    def end_and_reset(consensus: Consensus, reason: str) -> None:
        end_leadership(consensus, reason)
        probe = consensus._context.probe
        for field in fields(probe):
            setattr(probe, field.name, 0)

    patch.setattr(Consensus, "_end_leadership", end_and_reset)
