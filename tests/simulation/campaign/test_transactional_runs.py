"""A few runs with transactions must have seen what is usual in them; a third of a campaign's seeds has them, too."""

from collections import Counter

from tests.simulation.campaign.plan import SECONDS_MIN, Plan
from tests.simulation.campaign.run import run
from tests.simulation.world.transaction_probes import SOMETIMES_TRANSACTIONAL


def test_transactional_runs_break_no_invariant_and_show_clients_nothing_wrong():
    totals: Counter[str] = Counter()
    # Of the clusters of the campaign: three, five and seven brokers, with a group and without, and one whose members change.
    # The last one is crowded: epochs are used up, and pending offsets overtaken.
    plans = [
        Plan(seed, living=living, transactional=True)
        for seed, living in ((2, False), (8, False), (11, False), (22, False), (17, True))
    ]
    for plan in (*plans, Plan(9, SECONDS_MIN, transactional=True)):
        result = run(plan)
        assert result.error is None, f"seed {plan.seed}: {result.error}"
        totals.update(result.counts)
    assert [name for name in SOMETIMES_TRANSACTIONAL if not totals[name]] == []
