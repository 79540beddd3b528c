"""What brokers other than the leader say of who is in sync."""

from raft.options import RaftOptions
from tests.simulation.scenarios.scenario import Scenario

_LAG_SECONDS = 2.0
# The next look at the in-sync sets, and the way.
_SOON = 0.8


def test_every_broker_hears_soon_who_left_the_in_sync_set_and_who_came_back() -> None:
    with Scenario(17, raft=RaftOptions(replica_lag_max=_LAG_SECONDS)) as story:
        gone, witness = story.followers

        def told() -> int:
            leader = story.cluster.nodes[witness].leadership.leader_of(story.group)
            return 0 if leader is None else len(leader.in_sync)

        story.wait(lambda: told() == 3)
        # Repetitions are 5 s apart: for two changes within that time at least one cannot be told by them.
        story.lose_power(gone)
        story.wait(lambda: told() == 2, seconds=_LAG_SECONDS + _SOON)
        story.restart(gone)
        story.wait(lambda: told() == 3, seconds=1.0 + _SOON)
