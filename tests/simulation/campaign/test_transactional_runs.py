"""Runs with transactions: producers of both protocols, exactly-once transformers, and readers at both isolations.

They are not part of the campaign yet: no version offers transactions.
"""

from collections import Counter

from tests.simulation.campaign.plan import Plan
from tests.simulation.campaign.run import run

# What they must have seen together.
_SOMETIMES = (
    "client transaction left open",
    "client transaction PRODUCER_FENCED",
    "client transformed",
    "client txn ok",
    "open transactions seen in office",
    "transactions ended in a partition",
)


def test_transactional_runs_break_no_invariant_and_show_clients_nothing_wrong():
    totals: Counter[str] = Counter()
    # Of the clusters of the campaign: three, five and seven brokers, with a group and without, and one whose members change.
    for seed, living in ((2, False), (8, False), (11, False), (17, True)):
        result = run(Plan(seed, living=living, transactional=True))
        assert result.error is None, f"seed {seed}: {result.error}"
        totals.update(result.counts)
    assert [name for name in _SOMETIMES if not totals[name]] == []
